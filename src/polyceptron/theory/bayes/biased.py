"""Bayes-optimal learning of a teacher whose classes are not alike, with Gaussian weights.

The posterior's mean has fields ω ~ N(0, Q) on class differences, and z | ω ~ N(ω, C), C = R − Q.
With Z_y the chance of a label at ω + b* and C, and levels of products p = sθ,

    Q̂ = α E Σ_y ∇Z_y∇Z_yᵀ/Z_y,     C = ⟨p(I + pRQ̂)⁻¹R⟩

The answer is the label of largest chance, which need not be that of the largest ω + b*:

    P(t, p) = E Z_t 1[p = argmax Z]

Two and three classes: panels inside the orthants of ω + b*. Elsewhere, where the answer changes,
panels of different orders disagree: their spread, and how far coarse ones are, is the uncertainty.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from polyceptron.checks import difference_basis
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array, with_one_blas_thread
from polyceptron.numerics.estimate import Estimate
from polyceptron.problem.channels.correlated import label_chances
from polyceptron.problem.population import FeatureLevels
from polyceptron.problem.populations import AnyTeacher
from polyceptron.rows import Status
from polyceptron.sides.fields_law import with_some_variance
from polyceptron.sides.leading_nodes import panels_of_leaders
from polyceptron.sides.scores import (
    FieldsDistribution,
    MeanScores,
    PopulationScores,
    TeacherFields,
    scores_of_replicates,
)
from polyceptron.solve.anderson import Anderson

# Nodes of a panel: for the law, and several numbers of them for the scores.
ORDER_OF_LAW = 8
COARSE_ORDERS = range(8, 12)
FINE_ORDERS = range(14, 18)
MAX_ROUNDS = 500
STEP_TOLERANCE = 1e-11  # of C, relative to its trace
# Of Anderson's method: rounds that show where the next ones lead.
DEPTH = 4
SINGULAR_VALUE_CUTOFF = 1e-6
# Of R, as the first C: a student that knows next to nothing.
FIRST_SHARE = 0.999
SMALLEST_CHANCE = 1e-200
# |d ln ε/d ln C| at most: test_biased_bayes.py compares the bars with finer rules.
STEEPEST_ERROR = 10.0


@with_one_blas_thread
def biased_bayes(
    teacher: AnyTeacher, alpha: float
) -> tuple[PopulationScores, Array, float, Status]:
    """Solve for the Bayes-optimal student after n = αd samples.

    Parameters
    ----------
    teacher : Teacher or Perceptron
        Of two or three classes, with Gaussian weights.
    alpha : float

    Returns
    -------
    scores : PopulationScores
        Of the answer, with the uncertainty of their averages.
    Q : array, shape (r, r)
    doubt : float
        The relative uncertainty of the error by that of Q.
    status : Status
    """
    if teacher.n_classes > 3 or not teacher.prior.gaussian:
        raise InvalidInput(
            "the Bayes-optimal student of unequal classes is known for mixtures, and for teachers "
            f"of two or three classes with Gaussian weights; got {teacher!r}"
        )
    posterior = BiasedPosterior(teacher, alpha)
    C, converged = _fixed_point(posterior)
    status = Status.OK
    if not converged:
        status = Status.NOT_CONVERGED
    finer = posterior.after_round(posterior.nodes(C, FINE_ORDERS[0]))
    moved = float(np.abs(finer - C).max() / np.trace(C))
    doubt = STEEPEST_ERROR * moved + STEP_TOLERANCE
    return _scores(posterior, C), posterior.R - C, doubt, status


class PosteriorNodes(NamedTuple):
    """Nodes of the posterior's mean fields.

    Attributes
    ----------
    weight : array, shape (n,)
    Z : array, shape (n, k)
        Chances of the labels.
    slopes : array, shape (n, k, r)
        ∇Z.
    """

    weight: Array
    Z: Array
    slopes: Array


@dataclass(frozen=True)
class BiasedPosterior:
    """The posterior of a teacher's fields after n = αd samples."""

    teacher: AnyTeacher
    alpha: float

    @property
    def basis(self) -> Array:
        """T (k, r)."""
        return difference_basis(self.teacher.n_classes)

    @cached_property
    def R(self) -> Array:
        """Covariance of the teacher's fields (r, r)."""
        return np.asarray(self.basis.T @ self.teacher.field_covariance @ self.basis)

    @cached_property
    def biases(self) -> Array:
        """b* (r,)."""
        return np.asarray(self.basis.T @ self.teacher.offsets)

    @property
    def levels(self) -> FeatureLevels:
        """Levels of eigenvalues of the features."""
        return self.teacher.levels_of_features

    def nodes(self, C: Array, order: int) -> PosteriorNodes:
        """Return nodes for the remaining covariance C (r, r), on panels of an order."""
        Q = self.R - C
        known = TeacherFields(Q, self.R, self.biases, self.teacher.channel)
        law = FieldsDistribution(
            np.ones(1), 0 * self.biases[None], with_some_variance(Q[None]), self.biases, known
        )
        parts = list(panels_of_leaders(law, order, with_labels=False))
        means = np.concatenate([nodes.fields @ self.basis for nodes in parts])
        weight = np.concatenate([nodes.weight[0] for nodes in parts])
        Z, slopes = label_chances(self.teacher.channel, means, C)
        return PosteriorNodes(weight, Z, slopes)

    def after_round(self, nodes: PosteriorNodes) -> Array:
        """Return ⟨p(I + pRQ̂)⁻¹R⟩ (r, r), where nodes make Q̂."""
        r = len(self.R)
        scale = np.sqrt(nodes.weight[:, None] / np.maximum(nodes.Z, SMALLEST_CHANCE))
        scaled = (nodes.slopes * scale[:, :, None]).reshape(-1, r)
        Q_hat = self.alpha * (scaled.T @ scaled)
        power = self.levels.variance[:, 0] * self.levels.signal  # p of each level
        inner = np.eye(r) + power[:, None, None] * (self.R @ Q_hat)
        C = np.tensordot(self.levels.fraction * power, np.linalg.solve(inner, self.R), 1)
        return np.asarray((C + C.T) / 2)


def _fixed_point(posterior: BiasedPosterior) -> tuple[Array, bool]:
    """Return C (r, r) after Anderson's method, and whether it arrived."""
    R = posterior.R
    C = FIRST_SHARE * R
    memory = Anderson(DEPTH, SINGULAR_VALUE_CUTOFF)
    for _ in range(MAX_ROUNDS):
        after = posterior.after_round(posterior.nodes(C, ORDER_OF_LAW))
        residual = after - C
        if np.abs(residual).max() <= STEP_TOLERANCE * np.trace(after):
            return after, True
        memory.record(C.ravel(), residual.ravel())
        combined = C + memory.step(residual.ravel()).reshape(C.shape)
        C = after
        if np.linalg.eigvalsh([combined, R - combined]).min() > 0:
            C = combined  # else the combination of rounds is no covariance
    return C, False


def _scores(posterior: BiasedPosterior, C: Array) -> PopulationScores:
    """Return the scores of argmax Z, with the spread of rules and the distance of coarse ones."""
    coarse = vars(scores_of_replicates(_mean_scores(posterior, C, COARSE_ORDERS)))
    fine = vars(scores_of_replicates(_mean_scores(posterior, C, FINE_ORDERS)))
    return PopulationScores(
        **{
            name: Estimate(value, spread + np.abs(value - coarse[name].value))
            for name, (value, spread) in fine.items()
        }
    )


def _mean_scores(posterior: BiasedPosterior, C: Array, orders: Iterable[int]) -> MeanScores:
    """Return the averages of the answer argmax Z by panels of several orders."""
    confusion = []
    test_loss = []
    brier = []
    for order in orders:
        weight, Z, _ = posterior.nodes(C, order)
        answers = np.eye(Z.shape[1])[Z.argmax(1)]
        confusion.append((weight[:, None] * Z).T @ answers)
        test_loss.append(-(weight @ xlogy(Z, Z).sum(1)))
        brier.append(weight @ (1 - (Z * Z).sum(1)))
    return MeanScores(np.array(confusion), np.array(test_loss), np.array(brier))
