"""Empirical risk minimisation in the limit of large d."""
