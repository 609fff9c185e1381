"""What a channel is asked for, and the Gaussian ones: labels, their chances at Gaussian fields.

A label is the class of largest *utility*, the teacher's field plus noise of its own; with
probability kη' it is instead any class, uniformly:

    Z_l(ω, v) = η' + (1 − kη') P(utility l is the largest | fields ~ N(ω, v))

A channel is the law of the utilities' noise (`utility_*`) with a chance η' (`guess`); the mixture
is written once, here. All channels treat the classes alike and see differences of fields only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.orthant import (
    Orthant,
    Winning,
    argmax_orthant,
    win_probabilities,
    winning_chance,
)
from polyceptron.numerics.special import log_cdf_and_mills, mean_of_maximum
from polyceptron.problem.registry import Registry

Labels = NDArray[np.int64]
SHARP = 1e-12  # variance of fields that are known


class UtilityLaw(NamedTuple):
    """The law of one utility around its field: ln F and F′/F at y, and where F′ is not nothing."""

    low: float
    high: float
    values: Callable[[Array], tuple[Array, Array]]


class Channel(ABC):
    """P(y | z) of a label y given the teacher's fields z.

    >>> from polyceptron.problem import as_channel
    >>> as_channel("softmax:2").sample([[0.0, 50.0]], np.random.default_rng(0)).tolist()
    [1]
    """

    name: str
    accuracy: ClassVar[float] = 0.0  # absolute error of the chances it gives, rounding apart
    # Whether labels are those of samples chosen by their fields: then the student's fields on
    # training samples are not Gaussian, and the chances of the labels sum to 1 on average only.
    selects: ClassVar[bool] = False

    @property
    def noiseless(self) -> bool:
        """Return whether the label is a function of the fields."""
        return False

    @property
    def utility_variance(self) -> float | None:
        """Return Δ of utilities that are fields plus Gaussian noise, None for other noise."""
        return None

    @property
    def transitions(self) -> tuple[float, ...]:
        """Return the gaps of the teacher's fields at which Z changes, on the scale `width`."""
        return (0.0,)

    @abstractmethod
    def width(self, variance: float) -> float:
        """Return the scale, in fields of one class, over which Z varies at residual variance v."""

    @abstractmethod
    def sample_utility(self, fields: Array, rng: np.random.Generator) -> Array:
        """Return utilities (n, k) drawn at fields (n, k)."""

    @abstractmethod
    def utility(self, omega: Array, label: ArrayLike, variance: ArrayLike, order: int) -> Orthant:
        """Return ln P (n,) that the label's utility is the largest, its score and curvature (n, k).

        It holds to relative accuracy in every tail; ω is (n, k), the label (n,) or a number.
        """

    @abstractmethod
    def utility_gaps(self, gaps: Array, variance: float) -> Winning:
        """Return the same chance from gaps (k−1, n), smallest first, to absolute accuracy."""

    @abstractmethod
    def utility_signal(self, n_classes: int) -> float:
        """Return c = E[z_y]/(k − 1), how far the labelled class's own field is up."""

    @abstractmethod
    def utility_error(self, tau: Array, n_classes: int, clean: Callable[[Array], Array]) -> Array:
        """Return P(largest utility is not the student's class) at τ.

        `clean(τ)` is the error without noise.
        """

    def utility_lead(self, tau: float, n_classes: int, margin: float) -> float | None:
        """Return P(the class of largest utility leads by > margin·√q at the student), or None."""
        return None

    def utility_law(self, variance: float) -> UtilityLaw | None:
        """Return the law of one utility at residual variance v, which the theory of k ≥ 4 uses."""
        return None

    def guess(self, n_classes: int) -> float:
        """Return η', the chance that the label is a given class whatever the fields."""
        return 0.0

    def utility_tau(self, tau: float) -> float | None:
        """Return τ of the student's fields with the utilities if these are Gaussian, else None."""
        return None

    def behind(self, hidden: float) -> Channel:
        """Return the channel at z → √(1−δ) z + √δ ξ, δ = `hidden`, where z has variance 1."""
        if hidden == 0:
            return self
        raise InvalidInput(
            f"features that hide a share of the teacher need a noise with a `behind` of its own, "
            f"which {self.name!r} does not have"
        )

    def sample(self, fields: ArrayLike, rng: np.random.Generator | None = None) -> Labels:
        """Return labels (n,) drawn at the teacher's fields (n, k)."""
        fields = np.asarray(fields, dtype=float)
        if self.noiseless:
            return np.asarray(fields.argmax(-1), dtype=np.int64)
        if rng is None:
            rng = np.random.default_rng()
        label = self.sample_utility(fields, rng).argmax(-1)
        k = fields.shape[-1]
        chance = k * self.guess(k)
        if chance > 0:
            draws = rng.random((*label.shape, 2))  # row by row, so that blocks draw the same
            label = np.where(draws[..., 0] < chance, (k * draws[..., 1]).astype(np.int64), label)
        return np.asarray(label, dtype=np.int64)

    def utility_chances(self, fields: Array, variance: float) -> Array:
        """Return P(utility l is the largest) (n, k) at fields of mean (n, k) and variance v."""
        v = max(variance, SHARP)
        chances = [np.exp(self.utility(fields, l, v, 20).log_z) for l in range(fields.shape[-1])]
        return np.stack(chances, -1)

    def chances(self, fields: ArrayLike, variance: float = 0.0) -> Array:
        """Return P(y = l) (n, k) at fields of mean (n, k), variance v, to absolute accuracy."""
        fields = np.asarray(fields, dtype=float)
        k = fields.shape[-1]
        a = self.guess(k)
        return np.asarray(a + (1 - k * a) * self.utility_chances(fields, variance))

    def posterior(
        self, omega: ArrayLike, label: ArrayLike, variance: ArrayLike, order: int = 20
    ) -> Orthant:
        """Return ln Z_y (n,), its score and −∂²_h ln Z_y (n, k) at fields N(ω, v).

        ω is (n, k); the variance v is a number, (n,) or (n, k).
        """
        omega = np.asarray(omega, dtype=float)
        inner = self.utility(omega, label, variance, order)
        a = self.guess(omega.shape[-1])
        if a == 0:
            return inner
        # ln(η' + (1 − kη')Z), and the share of it that the utilities explain.
        log_z = np.log1p(-omega.shape[-1] * a) + inner.log_z
        total = np.logaddexp(np.log(a), log_z)
        share = np.exp(log_z - total)[..., None]
        diagonal = share * inner.diagonal - share * (1 - share) * inner.score**2
        return Orthant(total, share * inner.score, diagonal)

    def denoise(
        self, omega: ArrayLike, label: ArrayLike, V: ArrayLike, order: int = 20
    ) -> tuple[Array, Array]:
        """Return the Bayes-optimal f = ∇ ln Z (n, k) and −tr ∂f (n,) at ω (n, k)."""
        posterior = self.posterior(omega, label, V, order)
        return posterior.score, posterior.curvature

    def label_law(self, gaps: Array, variance: float, n_classes: int | None = None) -> Winning:
        """Return Z of class 1 (n,) and its slopes in the gaps (k−1, n), to absolute accuracy.

        Of `n_classes`, those beyond the gaps are out of the race, but still guessed.
        """
        inner = self.utility_gaps(gaps, variance)
        k = n_classes or len(gaps) + 1
        a = self.guess(k)
        if a == 0:
            return inner
        return Winning(a + (1 - k * a) * inner.z, (1 - k * a) * inner.slopes)

    def signal(self, n_classes: int) -> float:
        """Return c = E[e_y·z]/(k − 1), all that the square loss sees of a channel."""
        return (1 - n_classes * self.guess(n_classes)) * self.utility_signal(n_classes)

    def drawn_error(self, tau: ArrayLike, n_classes: int, clean: Callable[[Array], Array]) -> Array:
        """Return P(label as drawn ≠ the student's class) at τ.

        `clean(τ)` is the error without noise.
        """
        share = n_classes * self.guess(n_classes)
        error = self.utility_error(np.asarray(tau, dtype=float), n_classes, clean)
        return np.asarray((1 - share) * error + share * (1 - 1 / n_classes))


CHANNELS: Registry[Channel] = Registry("noise", Channel)


_REACH = 9.5  # standard deviations beyond which a normal variable is never found


@dataclass(frozen=True)
class GaussianNoise(Channel):
    """y = argmax(z + √Δ ξ), Δ the variance of the noise in each class; 0 is the paper's rule.

    A Gaussian on a Gaussian: every formula without noise holds with v replaced by v + Δ.
    """

    variance: float = 0.0
    name: str = field(init=False, default="none")

    def __post_init__(self) -> None:
        if not 0 <= self.variance <= 1e12:
            allowed = "must be from 0 to 1e12"
            raise InvalidInput(f"the variance of gaussian noise {allowed}, got {self.variance!r}")
        name = f"gaussian:{self.variance!r}" if self.variance > 0 else "none"
        object.__setattr__(self, "name", name.removesuffix(".0"))

    @property
    def noiseless(self) -> bool:
        """Return whether Δ is 0."""
        return self.variance == 0

    @property
    def utility_variance(self) -> float:
        """Return Δ."""
        return self.variance

    def behind(self, hidden: float) -> Channel:
        """Return the Gaussian channel of variance (Δ + δ)/(1 − δ), δ = `hidden`."""
        if hidden == 0:
            return self
        return GaussianNoise((self.variance + hidden) / (1 - hidden))

    def width(self, variance: float) -> float:
        """Return √(v + Δ)."""
        return math.sqrt(variance + self.variance)

    def sample_utility(self, fields: Array, rng: np.random.Generator) -> Array:
        """Return fields (n, k) with Gaussian noise."""
        if self.variance == 0:
            return fields
        return fields + math.sqrt(self.variance) * rng.standard_normal(fields.shape)

    def utility(self, omega: Array, label: ArrayLike, variance: ArrayLike, order: int) -> Orthant:
        """Return ln P, score and curvature of the argmax at the variance v + Δ."""
        total_variance = np.asarray(variance) + self.variance
        return argmax_orthant(omega, label, total_variance, order=order)

    def utility_gaps(self, gaps: Array, variance: float) -> Winning:
        """Return the chance of the argmax at the variance v + Δ from gaps (k−1, n)."""
        return winning_chance(gaps, self.width(variance))

    def utility_chances(self, fields: Array, variance: float) -> Array:
        """Return the chances (n, k), one by one for k ≤ 3 and together above."""
        if fields.shape[-1] <= 3:
            return super().utility_chances(fields, variance)
        return win_probabilities(fields / self.width(max(variance, SHARP)))

    def utility_law(self, variance: float) -> UtilityLaw:
        """Return the normal law of variance v + Δ."""
        width = self.width(variance)

        def values(y: Array) -> tuple[Array, Array]:
            """Return ln Φ(y/width) and its slope, both of the shape of y."""
            log_cdf, r = log_cdf_and_mills(y / width)
            return log_cdf, r / width

        return UtilityLaw(-_REACH * width, _REACH * width, values)

    def utility_signal(self, n_classes: int) -> float:
        """Return E[max of k normals]/((k−1)√(1+Δ)): the noise takes its share of the maximum."""
        return mean_of_maximum(n_classes) / ((n_classes - 1) * math.sqrt(1 + self.variance))

    def utility_error(self, tau: Array, n_classes: int, clean: Callable[[Array], Array]) -> Array:
        """Return the clean error at the correlation of student and utilities."""
        return clean(self._seen(tau))

    def utility_tau(self, tau: float) -> float | None:
        """Return τ' of the student's fields with the utilities."""
        return float(self._seen(np.asarray(tau)))

    def _seen(self, tau: Array) -> Array:
        """Return τ' = ρ/√(1 + Δ − ρ²) at the correlation ρ/√(1 + Δ), with ρ² = τ²/(1 + τ²)."""
        return np.asarray(tau / np.sqrt(1 + self.variance * (1 + tau**2)))


@dataclass(frozen=True)
class Flips(GaussianNoise):
    """Z_l → (1 − η)Z_l + η(1 − Z_l)/(k − 1), that is a guess η' = η/(k − 1) in every class."""

    variance: float = field(init=False, default=0.0)
    rate: float = 0.0
    name: str = field(init=False, default="")

    def __init__(self, rate: float, variance: float = 0.0) -> None:
        if not 0 < rate < 1:
            raise InvalidInput(f"the rate of flips must be between 0 and 1 − 1/k, got {rate!r}")
        object.__setattr__(self, "variance", float(variance))  # of the fields, before any flip
        object.__setattr__(self, "rate", float(rate))
        object.__setattr__(self, "name", f"flips:{float(rate)!r}")

    @property
    def noiseless(self) -> bool:
        """Return False: a flip is not a function of the fields."""
        return False

    def behind(self, hidden: float) -> Channel:
        """Return the same flips of labels at fields with noise δ/(1 − δ), δ = `hidden`."""
        if hidden == 0:
            return self
        return Flips(self.rate, hidden / (1 - hidden))

    def guess(self, n_classes: int) -> float:
        """Return η' = η/(k − 1)."""
        a = self.rate / (n_classes - 1)
        if n_classes * a >= 1:
            raise InvalidInput(
                f"a rate of flips of {self.rate:g} leaves no rule among {n_classes} classes: "
                f"it must be below {1 - 1 / n_classes:g}"
            )
        return a
