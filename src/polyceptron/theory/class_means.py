"""Class means: the answer is the class whose mean over the training samples fits best.

For a teacher whose classes are equal, W = Σ_μ x_μ(e_y − 1/k)ᵀ/√d has no response to its own fields
(V = 0). With c = E[e_y·z]/(k − 1) the channel's signal, eigenvalues s of the features, θ the
variance of the teacher's weights along each and ⟨·⟩ the mean over directions,

    m = αc⟨s²θ⟩,     q − m² = (αc)²(⟨s³θ⟩ − ⟨s²θ⟩²) + (α/k)⟨s²⟩

In a mixture the mean of class j is μ_j/√d and noise of variance s_j/(αp_j d) in every direction, so
that in group c, with levels of eigenvalues as in `sides/scores.py`,

    mean Σ G,   covariance Σ s_c G + diag_j(⟨s_c s_j⟩/(αp_j)),   b_j = −(G_jj + ⟨s_j⟩/(αp_j))/2
"""

import math
from collections.abc import Iterable
from typing import cast

import numpy as np

from polyceptron.checks import check_alphas, difference_basis
from polyceptron.errors import InvalidInput
from polyceptron.problem import AnyTeacher, Estimator, Population
from polyceptron.problem.populations import check_population
from polyceptron.rows import Row, Status, make_row
from polyceptron.sides.generalisation import error_at_tau, error_on_labels
from polyceptron.sides.scores import FieldsDistribution, population_scores

CLOSED_FORM_ROUNDING = 1e-12  # of the error of a teacher, which is a formula


def class_means_rows(
    population: Population,
    estimator: Estimator,
    alphas: Iterable[float],
    tol: float | None = None,
) -> list[Row]:
    """Return one row of class means for each α.

    Parameters
    ----------
    population : Teacher, Perceptron or Mixture
        A teacher whose classes are equal, or a mixture whose covariances share eigenvectors.
    estimator : ClassMeans
    alphas : sequence of float
        n/d.
    tol : float, optional
        Not used: rows are closed forms.
    """
    check_population(population)
    if population.symmetric:
        teacher = cast(AnyTeacher, population)
        return [_row_of_teacher(teacher, estimator, alpha) for alpha in check_alphas(alphas)]
    return [_row_of_mixture(population, estimator, alpha) for alpha in check_alphas(alphas)]


def _row_of_teacher(teacher: AnyTeacher, estimator: Estimator, alpha: float) -> Row:
    """Return the row of a teacher whose classes are equal."""
    channel = teacher.channel
    k = teacher.n_classes
    features = teacher.features
    s = features.eigenvalues
    variance_share = s * features.signal * features.fraction  # of sum 1: the teacher's, along each
    mean_s = s @ variance_share
    spread_s = float(((s - mean_s) ** 2) @ variance_share)
    m_hat = alpha * channel.signal(k)
    m = m_hat * float(mean_s)
    residual = m_hat**2 * spread_s + alpha / k * float(s**2 @ features.fraction)  # q − m²
    tau = 0.0
    if residual > 0:
        tau = m / math.sqrt(residual)
    columns: Row = {
        **teacher.columns,
        **estimator.columns,
        "alpha": alpha,
        "m": m,
        "q": m * m + residual,
        "V": 0.0,
        "generalisation_error": float(error_on_labels(channel, tau, k)),
        "uncertainty": max(CLOSED_FORM_ROUNDING, channel.accuracy),
        "status": Status.OK,
    }
    if not channel.noiseless:
        columns["clean_error"] = float(error_at_tau(tau, k))
    return make_row(source="theory", **columns)


def _row_of_mixture(population: Population, estimator: Estimator, alpha: float) -> Row:
    """Return the row of a mixture: the Gaussian law of the fields in each group is known."""
    levels = population.levels_of_features
    p = population.group_shares
    if population.label_channel is not None or levels is None or alpha == 0:
        raise InvalidInput(
            "the theory of class means takes a teacher whose classes are alike, or a mixture whose "
            f"covariances share eigenvectors, at an alpha above 0; got {population!r}"
        )
    s = levels.variance
    noise = np.einsum("l,lc,lj->cj", levels.fraction, s, s) / (alpha * p)
    along_means = np.einsum("lc,lij->cij", s, levels.gram)
    covariance = along_means + noise[:, :, None] * np.eye(len(p))
    gram = levels.gram.sum(axis=0)
    intercepts = -0.5 * (np.diag(gram) + levels.fraction @ s / (alpha * p))
    T = difference_basis(len(p))
    law = FieldsDistribution(p, gram @ T, T.T @ covariance @ T, T.T @ intercepts)
    columns = {**population.columns, **estimator.columns, **population_scores(law).columns}
    return make_row(source="theory", **columns, alpha=alpha, status=Status.OK)
