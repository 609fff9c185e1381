"""What runs on data: message passing, solvers and estimators."""

from polyceptron.algorithms.amp import AMPResult, amp

__all__ = ["AMPResult", "amp"]
