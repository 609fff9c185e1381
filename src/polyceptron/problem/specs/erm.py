"""Empirical risk minimisation as a specification: a loss on fields, a penalty, class weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.checks import DEFAULT_RIDGE, check_ridge
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss, as_loss
from polyceptron.problem.order import Decay, ScalarOrder
from polyceptron.problem.penalties import Penalty, Ridge, as_penalty
from polyceptron.problem.populations import AnyTeacher, Population
from polyceptron.problem.registry import Parsed
from polyceptron.problem.specs.base import Estimator, Probabilities, Row

ClassWeight = str | tuple[float, ...] | tuple[tuple[int, float], ...] | None


def read_class_weight(given: Any) -> ClassWeight:
    """Return None, 'balanced', a weight for each class, or pairs (class, weight).

    >>> read_class_weight({1: 5.0}), read_class_weight("1,2"), read_class_weight([1, 1])
    (((1, 5.0),), (1.0, 2.0), None)
    """
    if given is None or (isinstance(given, str) and given == "balanced"):
        return given
    weights = _weights_by_class(given)
    numbers = tuple(weights.values())
    if not all(0 < w < math.inf for w in numbers) or any(c < 0 for c in weights):
        raise InvalidInput(f"class weights must be positive numbers, got {given!r}")
    if all(w == 1 for w in numbers):
        return None
    if _names_classes(given):
        return tuple(sorted(weights.items()))
    return numbers


def _names_classes(given: Any) -> bool:
    """Return whether weights come with their classes, as {1: 5.0} or '1:5'."""
    return isinstance(given, Mapping) or (isinstance(given, str) and ":" in given)


def _weights_by_class(given: Any) -> dict[int, float]:
    """Return the weight of each class that is given one, in the order given."""
    try:
        if isinstance(given, str):
            words = given.split(",")
            if _names_classes(given):
                return _as_weights(word.split(":") for word in words)
            return _as_weights(enumerate(words))
        if isinstance(given, Mapping):
            return _as_weights(given.items())
        return _as_weights(enumerate(given))
    except (TypeError, ValueError):
        raise InvalidInput(
            f"class weights are 'balanced', a number for each class or {{class: number}}, got "
            f"{given!r}"
        ) from None


def _as_weights(pairs: Iterable[Iterable[Any]]) -> dict[int, float]:
    """Return pairs of a class and its weight as numbers."""
    return {int(c): float(w) for c, w in pairs}


@dataclass(frozen=True)
class ERM(Estimator):
    """argmin_W Σ_μ c_y ℓ(Wᵀx_μ/√d + b, y_μ) + (λ/2)‖W‖²_F (eq. optimization_ERM).

    Parameters
    ----------
    loss : str or Loss
    ridge : float or 'optimal', optional
        λ > 0; 0 for the limit λ → 0⁺, where the loss defines it (max-margin for cross-entropy on
        separable data, minimum-norm interpolation for the square loss); 'optimal' for the λ of
        least generalisation error at each α. By default 0.1, and 0 for a loss that takes none.
    penalty : str or Penalty, optional
        A penalty instead of the ridge; 'ridge:0.1' is the ridge 0.1.
    intercept : bool
        Whether to fit b (k,) too, without a ridge; otherwise b is 0.
    class_weight : 'balanced', sequence or dict, optional
        c_y, by which the loss of a sample of class y counts: a number for each class, {class: c}
        (others count once), or 'balanced' for 1/(k P(y)). By default 1.

    Examples
    --------
    >>> ERM("cross_entropy", ridge=0.01).name
    'cross-entropy'
    >>> ERM("square", penalty="ridge:0.1") == ERM("square", 0.1)
    True
    """

    loss: Parsed[Loss] = Parsed(as_loss, "cross-entropy")
    ridge: float | str = None  # type: ignore[assignment]  # see __post_init__
    penalty: Parsed[Penalty | None] = Parsed(lambda p: None if p is None else as_penalty(p), None)

    intercept: bool = False
    class_weight: Parsed[ClassWeight] = Parsed(read_class_weight, None)

    def __post_init__(self) -> None:
        ridge = self._strength()
        self._check_loss_takes(ridge)
        object.__setattr__(self, "intercept", bool(self.intercept))
        object.__setattr__(self, "ridge", ridge)
        if isinstance(self.penalty, Ridge):
            object.__setattr__(self, "penalty", None)

    def _strength(self) -> float | str:
        """Return the ridge as given, that of the penalty, or the loss's default."""
        if self.ridge is not None:
            ridge = check_ridge(self.ridge, optimal=True)
        else:
            ridge = 0.0 if self.loss.scale_free else DEFAULT_RIDGE
        if self.penalty is None:
            return ridge
        if self.ridge is not None and self.ridge != self.penalty.strength:
            raise InvalidInput(f"give a ridge or a penalty, not both: got {self.ridge!r} too")
        return self.penalty.strength

    def _check_loss_takes(self, ridge: float | str) -> None:
        """Raise `InvalidInput` if the loss says nothing of this ridge or penalty."""
        loss = self.loss
        penalty = self.penalty
        if loss.scale_free and (ridge != 0 or penalty is not None):
            raise InvalidInput(
                f"{loss.name} takes no ridge (it is the limit of ridge 0), got "
                f"{self.ridge if penalty is None else penalty.name!r}"
            )
        if ridge == 0 and loss.without_ridge() is None and penalty is None:
            raise InvalidInput(
                f"the loss {loss.name!r} does not say what a ridge of 0 means: give a ridge above "
                "0 or 'optimal'"
            )

    @property
    def name(self) -> str:  # type: ignore[override]
        """Return the loss's name."""
        return self.loss.name

    @property
    def takes_ridge(self) -> bool:  # type: ignore[override]
        """Return whether the loss has a scale, against which a ridge counts."""
        return not self.loss.scale_free

    @property
    def hard_margin(self) -> bool:  # type: ignore[override]
        """Return whether only the direction of the weights is defined, on separable data."""
        return self.loss.scale_free

    @property
    def explicit(self) -> bool:  # type: ignore[override]
        """Return whether the averages over the loss's fields are explicit, without a penalty."""
        averages = self.loss.explicit_averages(ScalarOrder(1.0, 1.0, 1.0), 1.0, 3)
        return self.penalty is None and averages is not None

    @property
    def columns(self) -> Row:
        """Return the columns of a row: estimator, ridge or penalty, and what is not default."""
        columns: Row = {"estimator": self.name, "ridge": self.ridge}
        if self.penalty is not None:
            columns = {"estimator": self.name, "penalty": self.penalty.name}
        if self.intercept:
            columns["intercept"] = True
        if self.class_weight is not None:
            given: Any = (
                (self.class_weight,) if self.class_weight == "balanced" else self.class_weight
            )
            words = (f"{w[0]}:{w[1]!r}" if isinstance(w, tuple) else str(w) for w in given)
            columns["class_weight"] = ",".join(words)
        return columns

    def loss_weights(self, shares: ArrayLike) -> Array:
        """Return c (k,) where classes have these shares (k,)."""
        p = np.asarray(shares, dtype=float)
        k = len(p)
        given = self.class_weight
        if given is None:
            return np.ones(k)
        if isinstance(given, str):  # balanced
            return np.asarray(1 / (k * p))
        pairs: Any = isinstance(given[0], tuple)
        weights: dict[int, Any] = dict(given if pairs else enumerate(given))  # type: ignore[arg-type]
        if max(weights) >= k or not (pairs or len(weights) == k):
            raise InvalidInput(
                f"class weights {self.columns['class_weight']} do not go with the classes 0 to "
                f"{k - 1}"
            )
        return np.array([weights.get(c, 1.0) for c in range(k)])

    def sees_equal_classes(self, population: Population) -> bool:
        """Return whether classes are alike and their weights equal: scalars suffice."""
        return population.symmetric and self.class_weight in (None, "balanced")

    def with_ridge(self, ridge: Any = None, penalty: Any = None) -> ERM:
        """Return the same estimator at another ridge, or with another penalty in its place."""
        if penalty is not None:
            return replace(self, ridge=None, penalty=penalty)  # type: ignore[arg-type]
        if ridge is None:
            return self
        return replace(self, ridge=ridge, penalty=None)

    def probabilities(self, teacher: Population, law: ScalarOrder | None) -> Probabilities | None:
        """Return the loss's probabilities as a function of fields (n, k), None if it has none."""
        loss = self.loss
        no_fields = np.zeros((1, teacher.n_classes))
        if loss.scale_free or loss.probabilities(no_fields) is None:
            return None
        return cast(Probabilities, loss.probabilities)

    def decay(self, teacher: AnyTeacher) -> Decay | None:
        """Return the decay of the loss; noise of labels makes p = 1, or 1/2 where it is sharp."""
        if not teacher.channel.noiseless:
            return Decay(1.0 if teacher.channel.width(0.0) > 0 else 0.5)
        if self.penalty:
            return None
        return self.loss.decay(self.ridge, teacher.n_classes)
