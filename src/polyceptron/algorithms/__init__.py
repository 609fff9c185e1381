"""What runs on data: message passing, empirical risk minimisation, scikit-learn classifiers."""
