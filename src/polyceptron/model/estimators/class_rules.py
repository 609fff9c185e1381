"""Rules that people compare cross-entropy with: one-vs-rest, class means, discriminant analysis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from polyceptron.errors import InvalidInput
from polyceptron.model.checks import DEFAULT_RIDGE, check_ridge
from polyceptron.model.estimators.estimator import Estimator, Row
from polyceptron.model.law import Decay
from polyceptron.model.losses import Loss, as_loss
from polyceptron.model.registry import Parsed

if TYPE_CHECKING:
    from polyceptron.model.populations import AnyTeacher


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

    @property
    def name(self) -> str:  # type: ignore[override]
        """With its loss in brackets, unless that is cross-entropy."""
        plain = self.loss.name == "cross-entropy"
        return "one-vs-rest" if plain else f"one-vs-rest[{self.loss.name}]"

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
        return None if self.ridge == "optimal" else Decay(0.5 if teacher.channel.noiseless else 1.0)


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
        return Decay(0.5 if teacher.channel.noiseless else 1.0)
