"""What runs on data: message passing, solvers and classifiers.

The scikit-learn classifiers are loaded on first use: scikit-learn is slow to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polyceptron.algorithms.erm import ERMFit, fit_erm, fit_erm_path
from polyceptron.algorithms.message_passing import AMPResult, amp, amp_erm
from polyceptron.algorithms.overlaps import exact_generalisation_error

if TYPE_CHECKING:
    from polyceptron.algorithms.classifiers import AMPClassifier, ERMClassifier

__all__ = [
    "AMPClassifier",
    "AMPResult",
    "ERMClassifier",
    "ERMFit",
    "amp",
    "amp_erm",
    "exact_generalisation_error",
    "fit_erm",
    "fit_erm_path",
]


def __getattr__(name: str) -> Any:
    if name in ("AMPClassifier", "ERMClassifier"):
        from polyceptron.algorithms import classifiers

        return getattr(classifiers, name)
    raise AttributeError(f"module 'polyceptron.algorithms' has no attribute {name!r}")
