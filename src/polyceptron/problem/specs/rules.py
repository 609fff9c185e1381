"""Rules that people compare ERM with, as specifications: one-vs-rest, class means, LDA."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from polyceptron.checks import DEFAULT_RIDGE, check_ridge
from polyceptron.errors import InvalidInput
from polyceptron.numerics.special import boundary_density
from polyceptron.problem.losses import Loss, as_loss
from polyceptron.problem.order import Decay
from polyceptron.problem.populations import AnyTeacher
from polyceptron.problem.registry import Parsed
from polyceptron.problem.specs.base import Estimator, Row
from polyceptron.problem.specs.erm import ERM


def _all_samples_decay(teacher: AnyTeacher, angle_squared: float) -> Decay:
    """Return the decay of a student with θ² ≈ `angle_squared`/α, to which all samples contribute.

    Smooth noise: the excess is quadratic in θ, p = 1. Sharp boundaries of density B_k, with a share
    kg of guessed labels: ε − ε₀ ≈ (1 − kg) B_k θ/π, p = 1/2. The angle is that of isotropic
    features; others have the same p.
    """
    channel = teacher.channel
    k = teacher.n_classes
    if channel.width(0.0) > 0:
        return Decay(1.0)
    if not teacher.features.isotropic:
        return Decay(0.5)
    share_that_follows_the_rule = 1 - k * channel.guess(k)
    theta = math.sqrt(angle_squared)
    return Decay(0.5, share_that_follows_the_rule * boundary_density(k) * theta / math.pi)


@dataclass(frozen=True)
class RidgeRule(Estimator):
    """A rule with a ridge above 0, other than an ERM."""

    takes_ridge = True
    ridge: float | str = DEFAULT_RIDGE

    def __post_init__(self) -> None:
        found = check_ridge(self.ridge, optimal=True)
        if found == 0:
            raise InvalidInput(f"{self.name} needs a ridge above 0, or 'optimal', got {found}")
        object.__setattr__(self, "ridge", found)

    @property
    def columns(self) -> Row:
        """Return the columns of a row: estimator and ridge."""
        return {"estimator": self.name, "ridge": self.ridge}

    def with_ridge(self, ridge: Any = None, penalty: Any = None) -> Self:
        """Return the same rule at another ridge; it takes no penalty."""
        if penalty is not None:
            raise InvalidInput(f"{self.name} takes a ridge, not the penalty {penalty!r}")
        if ridge is None:
            return self
        return replace(self, ridge=ridge)


@dataclass(frozen=True)
class OneVsRest(RidgeRule):
    """Each class against all others by a binary loss, with intercept; the largest field wins.

    Parameters
    ----------
    ridge : float or 'optimal'
        λ of every binary fit, Σ_μ ℓ(s_μ h_μ) + (λ/2)‖w‖²: scikit-learn's C is 1/λ for X/√d.
    loss : str or Loss
        At two classes with fields (−h/2, h/2): cross-entropy is the logistic loss of h.

    Examples
    --------
    >>> OneVsRest(0.5).columns
    {'estimator': 'one-vs-rest', 'ridge': 0.5}
    """

    loss: Parsed[Loss] = Parsed(as_loss, "cross-entropy")

    def __post_init__(self) -> None:
        if self.loss.scale_free:
            raise InvalidInput(f"one-vs-rest needs a loss that takes a ridge, got {self.loss.name}")
        super().__post_init__()

    @property
    def name(self) -> str:  # type: ignore[override]
        """Return the name with the loss in brackets, unless that is cross-entropy."""
        if self.loss.name == "cross-entropy":
            return "one-vs-rest"
        return f"one-vs-rest[{self.loss.name}]"

    def decay(self, teacher: AnyTeacher) -> Decay | None:
        """Two classes: that of the loss. Of more, none can be separated from the rest: θ² ∝ 1/α.

        A loss with kinks may have its least risk at weights 0, from which nothing follows.
        """
        if teacher.n_classes == 2:
            ridge = self.ridge if isinstance(self.ridge, str) else 2 * self.ridge
            return ERM(self.loss, ridge).decay(teacher)
        if self.loss.coordinates.jumps:
            return None
        return Decay(1.0 if teacher.channel.width(0.0) > 0 else 0.5)


@dataclass(frozen=True)
class DiscriminantAnalysis(RidgeRule):
    """Class means in the metric of the pooled covariance, (n S/d + λ)⁻¹ μ̂_c, with a ridge.

    Where classes are alike it answers as least squares with the same ridge does: with D = (μ̂_c) and
    P the shares, (A + DPDᵀ)⁻¹D = A⁻¹D(I + PDᵀA⁻¹D)⁻¹, whose last factor is a number then. Its error
    peaks where n = d.

    Parameters
    ----------
    ridge : float or 'optimal'

    Examples
    --------
    >>> DiscriminantAnalysis(0.5).columns
    {'estimator': 'lda', 'ridge': 0.5}
    """

    name = "lda"
    explicit = True

    def decay(self, teacher: AnyTeacher) -> Decay | None:
        """1/τ² → σ²/(αc²) with σ² = 1/k − c², as for least squares, at any ridge."""
        c = teacher.channel.signal(teacher.n_classes)
        return _all_samples_decay(teacher, (1 / teacher.n_classes - c**2) / c**2)


@dataclass(frozen=True)
class ClassMeans(Estimator):
    """The nearest class mean: fields μ̂_c·x − ‖μ̂_c‖²/2 (Hebb's rule).

    Bayes-optimal for mixtures of equal shares and one variance.
    """

    name = "class-means"
    explicit = True

    def decay(self, teacher: AnyTeacher) -> Decay | None:
        """1/τ² = 1/(αkc²): r²/(αkE²) without noise, with E the mean of the largest of k normals.

        Where the teacher's signal has unequal variances s, class means are Σ times its weights, at
        an angle that no number of samples closes.
        """
        features = teacher.features
        seen = features.eigenvalues[features.signal * features.fraction > 0]
        if np.ptp(seen) > 0:
            return Decay(1.0, consistent=False)
        c = teacher.channel.signal(teacher.n_classes)
        return _all_samples_decay(teacher, 1 / (teacher.n_classes * c**2))
