"""One message-passing iteration in two ways: Bayes-optimal (`amp`) and for ERM (`amp_erm`)."""

from polyceptron.algorithms.message_passing.amp_result import AMPResult
from polyceptron.algorithms.message_passing.posterior_mean import amp
from polyceptron.algorithms.message_passing.risk_minimiser import amp_erm

__all__ = ["AMPResult", "amp", "amp_erm"]
