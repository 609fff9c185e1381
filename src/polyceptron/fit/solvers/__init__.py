"""Empirical risk minimisation with certificates, for any convex loss."""
