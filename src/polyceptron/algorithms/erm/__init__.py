"""Empirical risk minimisation with certificates, for any convex loss."""

from polyceptron.algorithms.erm.erm_fit import ERMFit
from polyceptron.algorithms.erm.fit import SOLVERS, fit_erm, fit_erm_path

__all__ = ["SOLVERS", "ERMFit", "fit_erm", "fit_erm_path"]
