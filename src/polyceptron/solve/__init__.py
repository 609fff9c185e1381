"""Numerical methods that the theory shares: minimising over a parameter."""
