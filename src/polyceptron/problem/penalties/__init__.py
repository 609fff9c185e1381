"""Penalties of the weights: one penalty a file, `base.py` says what a penalty is."""

from typing import Any

from polyceptron.problem.penalties.base import PENALTIES, Penalty
from polyceptron.problem.penalties.elastic_net import ElasticNet
from polyceptron.problem.penalties.ridge import Ridge
from polyceptron.problem.penalties.ridge import spectrum_sums as spectrum_sums
from polyceptron.problem.registry import Entry

__all__ = ["PENALTIES", "ElasticNet", "Penalty", "Ridge", "as_penalty"]

# A new penalty: its file, and its entry here.
PENALTIES.add(
    Entry("ridge", "(λ/2) times the squared norm", Ridge, ("strength",), (0.1,)),
    Entry(
        "elastic-net",
        "L₁ times the norm of each feature's weights, and (L₂/2) times its square",
        ElasticNet,
        ("l1", "l2"),
        (0.1, 0.1),
        label="elastic net",
    ),
)


def as_penalty(penalty: Any) -> Penalty:
    """Return the penalty meant by a name such as 'ridge:0.1', or a penalty itself.

    Examples
    --------
    >>> as_penalty("ridge:0.1").strength
    0.1
    """
    return PENALTIES.read(penalty)
