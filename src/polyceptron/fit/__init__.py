"""What runs on data: message passing, solvers and classifiers.

The scikit-learn classifiers are loaded on first use: scikit-learn is slow to import.
"""
