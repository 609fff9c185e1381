"""Whether data can be separated: the answer with what proves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from polyceptron.algorithms.design import Array
from polyceptron.display import ShortDisplay


@dataclass(frozen=True, repr=False)
class SeparabilityOfData(ShortDisplay):
    """The answer and its proof.

    `separable` is True with `weights` (d, k), whose smallest margin is 1; False with `multipliers`
    (n, k), a of sample and wrong class, for which any weights with all margins ≥ 1 have a norm of
    at least `least_norm`; None where neither was found.
    """

    separable: bool | None
    weights: Array | None
    multipliers: Array | None
    residual: float  # ‖R‖ at Σa = 1
    least_norm: float  # of weights with all margins at least 1

    def _facts(self) -> dict[str, Any]:
        return {name: v for name, v in super()._facts().items() if v == v}  # a proof has its own

    def __bool__(self) -> bool:
        return bool(self.separable)
