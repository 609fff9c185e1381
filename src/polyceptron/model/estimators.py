"""What is done with the data: specifications of estimators, without any computation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from polyceptron.errors import InvalidInput
from polyceptron.model.checks import DEFAULT_RIDGE, check_ridge
from polyceptron.model.losses import LOSSES, Loss, as_loss
from polyceptron.model.penalties import Penalty


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

    `loss` is the name of a registered loss or a `Loss`. `ridge` is λ > 0; 0 for the limit λ → 0⁺,
    where the loss says what it means (max-margin for cross-entropy on separable data, minimum-norm
    interpolation for the square loss); or 'optimal' for the λ of least generalisation error at each
    α. Not given, it is 0.1, and 0 for a loss that takes none (max-margin). A `penalty`
    replaces the ridge.

    >>> ERM("cross_entropy", ridge=0.01).name
    'cross-entropy'
    """

    loss: Loss = "cross-entropy"  # type: ignore[assignment]  # see __post_init__
    ridge: float | str = None  # type: ignore[assignment]
    penalty: Penalty | None = None

    def __post_init__(self) -> None:
        loss = as_loss(self.loss)
        default = 0.0 if loss.scale_free else DEFAULT_RIDGE
        ridge = default if self.ridge is None else check_ridge(self.ridge, optimal=True)
        if self.penalty is not None:
            if self.ridge is not None:
                raise InvalidInput(f"give a ridge or a penalty, not both: got {self.ridge!r} too")
            ridge = self.penalty.strength
        if loss.scale_free and ridge != 0:
            raise InvalidInput(
                f"{loss.name} takes no ridge (it is the limit of ridge 0), got {self.ridge!r}"
            )
        if ridge == 0 and loss.without_ridge() is None:
            raise InvalidInput(
                f"the loss {loss.name!r} does not say what a ridge of 0 means: give a ridge above "
                "0 or 'optimal'"
            )
        object.__setattr__(self, "loss", loss)
        object.__setattr__(self, "ridge", ridge)

    @property
    def name(self) -> str:
        """The loss's name, in the `estimator` column, with that of a penalty other than a ridge."""
        other = "" if self.penalty is None else f"+{self.penalty.name}"
        return self.loss.name + other


Estimator = BayesOptimal | ERM


def estimator_names() -> tuple[str, ...]:
    """Every estimator that has a name: bayes, then the registered losses."""
    return (BayesOptimal.name, *LOSSES.names)


def takes_ridge(name: str) -> bool:
    """Whether what has this name is fitted with a ridge: a loss that is not a limit of ridge 0."""
    return name.replace("_", "-") in LOSSES.names and not as_loss(name).scale_free


def make_estimator(name: Any, ridge: Any = None) -> Estimator:
    """An estimator from the columns of a row: estimator, ridge.

    >>> make_estimator("bayes").name
    'bayes'
    """
    if name == BayesOptimal.name:
        return BayesOptimal()
    if not isinstance(name, str) or name.replace("_", "-") not in LOSSES.names:
        raise InvalidInput(
            f"unknown estimator {name!r}: allowed are {', '.join(map(repr, estimator_names()))}"
        )
    return ERM(name, ridge)  # type: ignore[arg-type]
