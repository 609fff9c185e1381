"""The large-dimension theory: Bayes-optimal, empirical risk minimisation, transitions, tails."""

from polyceptron.theory.generalisation import generalisation_error

__all__ = ["generalisation_error"]
