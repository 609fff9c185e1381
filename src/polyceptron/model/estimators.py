"""What is done with the data: specifications of estimators, without any computation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from polyceptron.errors import InvalidInput
from polyceptron.model.losses import LOSSES, Loss, MaxMargin, as_loss


@dataclass(frozen=True)
class BayesOptimal:
    """The posterior mean of the teacher: no estimator has a lower error.

    >>> BayesOptimal().name
    'bayes'
    """

    name: ClassVar[str] = "bayes"


@dataclass(frozen=True)
class ERM:
    """argmin_W Σ_μ ℓ(Wᵀx_μ/√d, y_μ) + (λ/2)‖W‖²_F, without intercept (eq. optimization_ERM).

    `loss` is 'cross-entropy', 'square', 'max-margin' or a `Loss`. `ridge` is λ > 0; 0 for the limit
    λ → 0⁺ (max-margin for cross-entropy, minimum-norm interpolation for the square loss); or
    'optimal' for the λ of least generalisation error at each α. Max-margin has no ridge.

    >>> ERM("cross_entropy", ridge=0.01).name
    'cross-entropy'
    """

    loss: Loss = "cross-entropy"  # type: ignore[assignment]  # see __post_init__
    ridge: float | str = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "loss", as_loss(self.loss))
        object.__setattr__(self, "ridge", check_ridge(self.ridge))
        if isinstance(self.loss, MaxMargin) and self.ridge != 0:
            raise InvalidInput(
                f"max-margin takes no ridge (it is the limit of ridge 0), got {self.ridge!r}"
            )
        if self.ridge == 0 and self.loss.name not in LOSSES:
            raise InvalidInput(
                f"ridge 0 is defined for {', '.join(LOSSES)}; for the loss "
                f"{self.loss.name!r} give a ridge above 0 or 'optimal'"
            )

    @property
    def name(self) -> str:
        """The loss's name, in the `estimator` column."""
        return self.loss.name


Estimator = BayesOptimal | ERM


def check_ridge(ridge: Any) -> float | str:
    """A finite number of 0 or more, or 'optimal'; a sentence otherwise."""
    if isinstance(ridge, str) and ridge == "optimal":
        return ridge
    try:
        value = float(ridge)
    except (TypeError, ValueError):
        value = math.nan
    if isinstance(ridge, bool) or not math.isfinite(value) or value < 0:
        raise InvalidInput(f"the ridge must be a number of 0 or more, or 'optimal', got {ridge!r}")
    if value != 0 and not 1e-100 <= value <= 1e100:
        raise InvalidInput(f"the ridge must be 0, or from 1e-100 to 1e100, got {ridge!r}")
    return value


def make_estimator(name: str, ridge: Any = 0.0) -> Estimator:
    """An estimator from the columns of a row: estimator, ridge.

    >>> make_estimator("bayes").name
    'bayes'
    """
    if name == "bayes":
        return BayesOptimal()
    if name.replace("_", "-") not in LOSSES:
        raise InvalidInput(
            f"unknown estimator {name!r}: allowed are 'bayes', {', '.join(map(repr, LOSSES))}"
        )
    return ERM(name, ridge)  # type: ignore[arg-type]
