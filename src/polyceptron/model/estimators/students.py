"""The students: Bayes-optimal, empirical risk minimisation (a loss on fields, a penalty), and rules
that people compare them with: one-vs-rest, class means, discriminant analysis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.model.checks import DEFAULT_RIDGE, check_ridge
from polyceptron.model.estimators.estimator import (
    Estimator,
    Jump,
    Probabilities,
    Row,
    StudentLaw,
    late,
    pass_cost,
)
from polyceptron.model.law import Decay, Law
from polyceptron.model.losses import Loss, as_loss
from polyceptron.model.penalties import Penalty, Ridge, as_penalty
from polyceptron.model.registry import Parsed
from polyceptron.numerics import Array
from polyceptron.numerics.special import boundary_density

if TYPE_CHECKING:
    from polyceptron.model.populations import AnyTeacher, Population


@dataclass(frozen=True)
class BayesOptimal(Estimator):
    """The posterior mean of the teacher: no estimator has a lower error.

    >>> BayesOptimal().name
    'bayes'
    """

    name: ClassVar[str] = "bayes"  # type: ignore[misc]
    runs: ClassVar[str] = "experiments.simulate.run_posterior"
    source: ClassVar[str] = "amp"
    branches: ClassVar[bool] = True
    calibrated: ClassVar[bool] = True

    def rows(
        self, teacher: AnyTeacher, alpha: Any, *, branch: str = "optimal", tol: float | None = None
    ) -> list[Row]:
        if not teacher.symmetric:
            return late("theory.populations.best_rules.bayes_population_rows")(teacher, alpha)
        return late("theory.bayes_optimal.fixed_points.bayes_rows")(teacher, alpha, branch, tol)

    def law(self, teacher: AnyTeacher, alpha: float, tol: float | None = None) -> StudentLaw:
        point = late("theory.bayes_optimal.fixed_points.fixed_points")(teacher, alpha, tol)[0]
        return StudentLaw(Law.bayes(point.v), point.uncertainty, point.status)

    def probabilities(self, teacher: AnyTeacher, law: Law) -> Probabilities | None:
        chances = late("theory.calibration.chances_given_fields")
        return lambda omega: chances(teacher.channel, omega, law)

    def decay(self, teacher: AnyTeacher) -> Decay | None:
        if not teacher.prior.gaussian:
            raise InvalidInput(
                f"the Bayes-optimal error of a teacher with prior {teacher.prior.name!r} falls "
                f"faster than any power of alpha: there is no exponent to find"
            )
        return Decay(1.0)

    def jumps(self, teacher: AnyTeacher) -> Sequence[Jump]:
        """α_IT of what is possible, α_algo of what message passing reaches."""
        if not teacher.symmetric:  # with Gaussian weights, or means, it is smooth
            return ()
        found = late("theory.bayes_optimal.transitions.transitions")(teacher)
        if found.alpha_it is None or found.alpha_algo is None:
            return ()
        return (
            Jump("optimal", found.alpha_it, found.alpha_it_uncertainty or 0.0),
            Jump("amp", found.alpha_algo, found.alpha_algo_uncertainty or 0.0),
        )

    def point_cost(self, n_classes: int) -> float:
        return 0.08 * n_classes**2

    def fit_cost(self, n_samples: int, dimension: int, n_classes: int) -> float:
        return 0.1 + 60 * pass_cost(n_samples, dimension, n_classes) + 1e-3 * n_samples**0.5


@dataclass(frozen=True)
class PosteriorAverage(BayesOptimal):
    """The posterior's average as weights: label probabilities as if its fields were the teacher's.

    Where classes are alike Z_l(ω, V) is ordered as ω_l, so that its answers are those of `bayes`,
    which averages the posterior's answers; it is too sure of them, by the V that it leaves out.
    """

    name: ClassVar[str] = "average"  # type: ignore[misc]
    calibrated: ClassVar[bool] = False

    def rows(
        self, teacher: AnyTeacher, alpha: Any, *, branch: str = "optimal", tol: float | None = None
    ) -> list[Row]:
        late("model.populations.check_teacher")(teacher)
        found = super().rows(teacher, alpha, branch=branch, tol=tol)
        return [{**row, "estimator": self.name} for row in found]

    def probabilities(self, teacher: AnyTeacher, law: Law) -> Probabilities | None:
        return None if teacher.channel.noiseless else teacher.channel.chances


ClassWeight = str | tuple[float, ...] | tuple[tuple[int, float], ...] | None


def read_class_weight(given: Any) -> ClassWeight:
    """None, 'balanced', a weight for each class, or pairs (class, weight); also as their text.

    >>> read_class_weight({1: 5.0}), read_class_weight("1,2"), read_class_weight([1, 1])
    (((1, 5.0),), (1.0, 2.0), None)
    """
    if given is None or (isinstance(given, str) and given == "balanced"):
        return given
    read = given
    try:
        if isinstance(given, str):
            words = [word.split(":") for word in given.split(",")]
            read = {int(c): float(w) for c, w in words} if ":" in given else [w for (w,) in words]
        pairs = isinstance(read, Mapping)
        keys = [int(c) for c in read] if pairs else range(len(read))
        weights = [float(w) for w in (read.values() if pairs else read)]
    except (TypeError, ValueError):
        raise InvalidInput(
            f"class weights are 'balanced', a number for each class or {{class: number}}, got "
            f"{given!r}"
        ) from None
    if not all(0 < w < math.inf for w in weights) or any(c < 0 for c in keys):
        raise InvalidInput(f"class weights must be positive numbers, got {given!r}")
    if all(w == 1 for w in weights):
        return None
    return tuple(sorted(zip(keys, weights, strict=True))) if pairs else tuple(weights)


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
        In place of the ridge; 'ridge:0.1' is the ridge 0.1.
    intercept : bool
        Whether b (k,) is fitted too, without a ridge; else it is 0.
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

    theory: ClassVar[str] = "theory.erm.fixed_point.erm_rows"
    runs: ClassVar[str] = "experiments.simulate.run_erm"

    loss: Parsed[Loss] = Parsed(as_loss, "cross-entropy")
    ridge: float | str = None  # type: ignore[assignment]  # see __post_init__
    penalty: Parsed[Penalty | None] = Parsed(lambda p: None if p is None else as_penalty(p), None)

    intercept: bool = False
    class_weight: Parsed[ClassWeight] = Parsed(read_class_weight, None)

    def __post_init__(self) -> None:
        loss, penalty = self.loss, self.penalty
        object.__setattr__(self, "intercept", bool(self.intercept))
        default = 0.0 if loss.scale_free else DEFAULT_RIDGE
        ridge = default if self.ridge is None else check_ridge(self.ridge, optimal=True)
        if penalty is not None:
            if self.ridge is not None and self.ridge != penalty.strength:
                raise InvalidInput(f"give a ridge or a penalty, not both: got {self.ridge!r} too")
            ridge = penalty.strength
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
        object.__setattr__(self, "ridge", ridge)
        object.__setattr__(self, "penalty", None if isinstance(penalty, Ridge) else penalty)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The loss's name."""
        return self.loss.name

    @property
    def takes_ridge(self) -> bool:  # type: ignore[override]
        return not self.loss.scale_free

    @property
    def hard_margin(self) -> bool:  # type: ignore[override]
        return self.loss.scale_free

    @property
    def explicit(self) -> bool:  # type: ignore[override]
        averages = self.loss.explicit_averages(Law(1.0, 1.0, 1.0), 1.0, 3)
        return self.penalty is None and averages is not None

    @property
    def columns(self) -> Row:
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

    def loss_weights(self, shares: Any) -> Array:
        """c (k,) where classes have these shares (k,)."""
        shares, k, given = np.asarray(shares, dtype=float), len(shares), self.class_weight
        if given is None or isinstance(given, str):
            return np.ones(k) if given is None else np.asarray(1 / (k * shares))
        pairs: Any = isinstance(given[0], tuple)
        weights: dict[int, Any] = dict(given if pairs else enumerate(given))  # type: ignore[arg-type]
        if max(weights) >= k or not (pairs or len(weights) == k):
            raise InvalidInput(
                f"class weights {self.columns['class_weight']} do not go with the classes 0 to "
                f"{k - 1}"
            )
        return np.array([weights.get(c, 1.0) for c in range(k)])

    def alike(self, population: Population) -> bool:
        return population.symmetric and self.class_weight in (None, "balanced")

    def with_ridge(self, ridge: Any = None, penalty: Any = None) -> ERM:
        if penalty is not None:
            return replace(self, ridge=None, penalty=penalty)  # type: ignore[arg-type]
        return self if ridge is None else replace(self, ridge=ridge, penalty=None)

    def parts(
        self,
        teacher: AnyTeacher,
        parts: Any,
        *,
        tol: Any = None,
        searched: Any = math.inf,
        **_: Any,
    ) -> Iterator[list[Row]]:
        yield from late("theory.erm.fixed_point.erm_parts")(teacher, self, parts, tol, searched)

    def law(self, teacher: AnyTeacher, alpha: float, tol: float | None = None) -> StudentLaw:
        return late("theory.erm.fixed_point.student_law")(teacher, self, alpha, tol)

    def probabilities(self, teacher: Population, law: Law | None) -> Probabilities | None:
        loss, no_fields = self.loss, np.zeros((1, teacher.n_classes))
        if loss.scale_free or loss.probabilities(no_fields) is None:
            return None
        return loss.probabilities  # type: ignore[return-value]  # asked above

    def decay(self, teacher: AnyTeacher) -> Decay | None:
        if not teacher.channel.noiseless:
            return Decay(1.0 if teacher.channel.width(0.0) > 0 else 0.5)
        return None if self.penalty else self.loss.decay(self.ridge, teacher.n_classes)

    def largest_alpha(self, teacher: AnyTeacher) -> float:
        """α_s for hard margins."""
        if not self.hard_margin:
            return math.inf
        return late("theory.separability.separable_up_to")(teacher, self.intercept)  # type: ignore[no-any-return]

    def fit_cost(self, n_samples: int, dimension: int, n_classes: int) -> float:
        if self.explicit:  # one decomposition serves several ridges
            return 0.03 + 0.1 * min(n_samples, dimension) * pass_cost(n_samples, dimension, 2)
        return 0.03 + self.loss.passes * pass_cost(n_samples, dimension, n_classes)


def _all_samples_decay(teacher: AnyTeacher, angle_squared: float) -> Decay:
    """The decay of a student with θ² ≈ `angle_squared`/α, to which all samples contribute.

    Smooth noise: the excess is quadratic in θ, p = 1. Sharp boundaries of density B_k, with a share
    kg of guessed labels: ε − ε₀ ≈ (1 − kg) B_k θ/π, p = 1/2. The angle is that of isotropic
    features; others have the same p.
    """
    channel, k = teacher.channel, teacher.n_classes
    if channel.width(0.0) > 0:
        return Decay(1.0)
    if not teacher.features.isotropic:
        return Decay(0.5)
    told = 1 - k * channel.guess(k)
    return Decay(0.5, told * boundary_density(k) * math.sqrt(angle_squared) / math.pi)


class Rule(Estimator):
    """A rule that is fitted by a function (X, y, k, rule, λ) → weights (d, k), b (k,), status."""

    runs: ClassVar[str] = "experiments.simulate.run_rules"
    fitted_by: ClassVar[str]


@dataclass(frozen=True)
class _RidgeRule(Rule):
    takes_ridge = True
    ridge: float | str = DEFAULT_RIDGE

    def __post_init__(self) -> None:
        found = check_ridge(self.ridge, optimal=True)
        if found == 0:
            raise InvalidInput(f"{self.name} needs a ridge above 0, or 'optimal', got {found}")
        object.__setattr__(self, "ridge", found)

    @property
    def columns(self) -> Row:
        return {"estimator": self.name, "ridge": self.ridge}

    def with_ridge(self, ridge: Any = None, penalty: Any = None) -> Any:
        if penalty is not None:
            raise InvalidInput(f"{self.name} takes a ridge, not the penalty {penalty!r}")
        return self if ridge is None else replace(self, ridge=ridge)


@dataclass(frozen=True)
class OneVsRest(_RidgeRule):
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

    theory: ClassVar[str] = "theory.rule_rows.one_vs_rest_rows"
    fitted_by: ClassVar[str] = "experiments.simulate.fit_one_vs_rest"
    loss: Parsed[Loss] = Parsed(as_loss, "cross-entropy")

    def __post_init__(self) -> None:
        if self.loss.scale_free:
            raise InvalidInput(f"one-vs-rest needs a loss that takes a ridge, got {self.loss.name}")
        super().__post_init__()

    @property
    def name(self) -> str:  # type: ignore[override]
        """With its loss in brackets, unless that is cross-entropy."""
        plain = self.loss.name == "cross-entropy"
        return "one-vs-rest" if plain else f"one-vs-rest[{self.loss.name}]"

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

    def point_cost(self, n_classes: int) -> float:
        return 0.5 * n_classes


@dataclass(frozen=True)
class DiscriminantAnalysis(_RidgeRule):
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

    name: ClassVar[str] = "lda"  # type: ignore[misc]
    theory: ClassVar[str] = "theory.rule_rows.lda_rows"
    fitted_by: ClassVar[str] = "experiments.simulate.fit_lda"
    explicit = True

    def decay(self, teacher: AnyTeacher) -> Decay | None:
        """1/τ² → σ²/(αc²) with σ² = 1/k − c², as for least squares, at any ridge."""
        c = teacher.channel.signal(teacher.n_classes)
        return _all_samples_decay(teacher, (1 / teacher.n_classes - c**2) / c**2)


@dataclass(frozen=True)
class ClassMeans(Rule):
    """The nearest class mean: fields μ̂_c·x − ‖μ̂_c‖²/2 (Hebb's rule).

    Bayes-optimal for mixtures of equal shares and one variance.
    """

    name: ClassVar[str] = "class-means"  # type: ignore[misc]
    theory: ClassVar[str] = "theory.rule_rows.class_means_rows"
    fitted_by: ClassVar[str] = "experiments.simulate.fit_class_means"
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
