"""The fixed point of empirical risk minimisation where classes are unequal: what is known of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from polyceptron.checks import difference_basis
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate
from polyceptron.problem.specs import Probabilities
from polyceptron.rows import Status
from polyceptron.sides.fresh_scores import N_BINS, binned
from polyceptron.sides.scores import FieldsDistribution, leading_nodes
from polyceptron.solve.solution import Solution


class LawUncertainty(NamedTuple):
    """Uncertainties of the law of the fields: of m (G, r), Q and V (G, r, r), intercepts (k,)."""

    m: Array
    Q: Array
    V: Array
    intercepts: Array


@dataclass(frozen=True, kw_only=True, repr=False)
class PopulationPoint(Solution):
    """Errors and the law of the fields of a fit, and how far to trust them.

    Every `…_uncertainty` holds in at least 99 of 100 cases. Numbers are NaN where no fixed point
    was found.

    Attributes
    ----------
    n_classes : int
    ridge : float
    alpha : float
        n/d.
    balanced_error : float
        1 − the mean recall, on labels as drawn like `generalisation_error`.
    test_loss : float
        Of the student's own loss on fresh samples, without class weights; NaN where the loss
        stands for no probabilities.
    brier : float
        Σ_l (p_l − 1[l = y])² on fresh samples; NaN like the test loss.
    training_error, training_loss : float
        Means over the training samples; the loss without class weights and without the ridge.
    confusion : array, shape (k, k)
        P(label, predicted).
    law : FieldsDistribution
        The law of the fields, in contrast coordinates.
    law_uncertainty : LawUncertainty
    probabilities : callable, optional
        Fields (n, k) → class probabilities (n, k).
    theta : array, shape (unknowns,)
        The law as the equations take it (`sides/matrix/loop.py`).
    """

    n_classes: int
    ridge: float
    alpha: float
    balanced_error: float
    balanced_error_uncertainty: float
    test_loss: float
    test_loss_uncertainty: float
    brier: float
    brier_uncertainty: float
    training_error: float
    training_error_uncertainty: float
    training_loss: float
    training_loss_uncertainty: float
    confusion: Array
    confusion_uncertainty: Array
    law: FieldsDistribution
    law_uncertainty: LawUncertainty
    probabilities: Probabilities | None = field(repr=False)
    theta: Array = field(repr=False)

    def _known(self, values: Array) -> Array:
        """Return numbers of the law, NaN where it is only where the search began."""
        if self.status == Status.NOT_CONVERGED:
            return np.full(values.shape, math.nan)
        return values

    @property
    def m(self) -> Array:
        """Means of the fields, shape (G, r)."""
        return self._known(self.law.m)

    @property
    def m_uncertainty(self) -> Array:
        """Uncertainty of `m`, shape (G, r)."""
        return self.law_uncertainty.m

    @property
    def Q(self) -> Array:
        """Covariances of the fields, shape (G, r, r)."""
        return self._known(self.law.Q)

    @property
    def Q_uncertainty(self) -> Array:
        """Uncertainty of `Q`, shape (G, r, r)."""
        return self.law_uncertainty.Q

    @property
    def V(self) -> Array:
        """Susceptibilities, shape (G, r, r)."""
        assert self.law.V is not None
        return self._known(self.law.V)

    @property
    def V_uncertainty(self) -> Array:
        """Uncertainty of `V`, shape (G, r, r)."""
        return self.law_uncertainty.V

    @property
    def intercepts(self) -> Array:
        """Intercepts of mean 0, shape (k,)."""
        return self._known(difference_basis(self.n_classes) @ self.law.b)

    @property
    def intercepts_uncertainty(self) -> Array:
        """Uncertainty of `intercepts`, shape (k,)."""
        return self.law_uncertainty.intercepts

    @property
    def recall(self) -> Array:
        """P(predicted = l | label = l), shape (k,)."""
        return np.asarray(np.diag(self.confusion) / self.confusion.sum(1))

    @property
    def recall_uncertainty(self) -> Array:
        """Uncertainty of `recall`, shape (k,): the shares of labels are known."""
        return np.asarray(np.diag(self.confusion_uncertainty) / self.confusion.sum(1))

    @property
    def precision(self) -> Array:
        """P(label = l | predicted = l), shape (k,); NaN for a class that is never predicted."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.diag(self.confusion) / self.confusion.sum(0))

    @property
    def precision_uncertainty(self) -> Array:
        """Uncertainty of `precision`, shape (k,)."""
        spread = self.confusion_uncertainty
        with np.errstate(invalid="ignore", divide="ignore"):
            both = np.diag(spread) + self.precision * spread.sum(0)
            return np.asarray(both / self.confusion.sum(0))

    @cached_property
    def calibration(self) -> Estimate:
        """Σ |accuracy − confidence| over 15 bins of confidence; NaN without probabilities."""
        if self.probabilities is None or math.isnan(self.brier):
            return Estimate(np.array(math.nan), np.array(math.nan))
        edges = np.linspace(1 / self.n_classes, 1, N_BINS + 1)
        error = binned(leading_nodes(self.law), self.probabilities, edges)[1]
        bar = error.uncertainty + self.uncertainty + self.brier_uncertainty
        return Estimate(error.value, bar)
