"""Empirical risk minimisation with certificates: cross-entropy, square loss, max-margin."""

from polyceptron.algorithms.erm.fit import fit_erm, fit_erm_path
from polyceptron.algorithms.erm.result import ERMFit

__all__ = ["ERMFit", "fit_erm", "fit_erm_path"]
