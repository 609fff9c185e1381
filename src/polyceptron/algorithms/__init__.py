"""What runs on data: message passing, solvers and estimators."""

from polyceptron.algorithms.amp import amp
from polyceptron.algorithms.amp_erm import amp_erm
from polyceptron.algorithms.amp_result import AMPResult

__all__ = ["AMPResult", "amp", "amp_erm"]
