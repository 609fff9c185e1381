"""The large-dimension theory: Bayes-optimal, empirical risk minimisation, transitions, tails."""
