"""What the student pays for its weights: penalties of a row, symmetric in the class directions."""

from polyceptron.model.penalties.penalty import (
    PENALTIES,
    ElasticNet,
    Penalty,
    Ridge,
    as_penalty,
)
from polyceptron.model.registry import Entry

__all__ = ["PENALTIES", "ElasticNet", "Penalty", "Ridge", "as_penalty"]

PENALTIES.add(
    Entry("ridge", "(λ/2) times the squared norm", Ridge, ("strength",), (0.1,)),
    Entry(
        "elastic-net", "L₁ times the norm of each feature's weights, and (L₂/2) times its square",
        ElasticNet, ("l1", "l2"), (0.1, 0.1), label="elastic net",
    ),
)  # fmt: skip
