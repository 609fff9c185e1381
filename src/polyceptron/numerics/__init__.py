"""Gaussian expectations and orthant probabilities that return value and error; root finding."""
