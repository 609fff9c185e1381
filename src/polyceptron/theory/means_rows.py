"""Class means and discriminant analysis in the limit of large d.

Of a teacher whose classes are alike, W = Σ_μ x_μ(e_y − 1/k)ᵀ/√d has no response to its own fields:
with c = E[e_y·z]/(k − 1) the channel's signal

    m = αc⟨s²θ⟩,     q − m² = (αc)²(⟨s³θ⟩ − ⟨s²θ⟩²) + (α/k)⟨s²⟩

Of a mixture the mean of class j is μ_j/√d and noise of variance s_j/(αp_j d) in every direction, so
that in group c, with levels of eigenvalues as in `theory/populations`,

    mean Σ G,   covariance Σ s_c G + diag_j(⟨s_c s_j⟩/(αp_j)),   b_j = −(G_jj + ⟨s_j⟩/(αp_j))/2

Discriminant analysis with a ridge is least squares with that ridge where classes are alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.model import ERM, AnyTeacher, Estimator, Population
from polyceptron.model.checks import check_alphas, difference_basis
from polyceptron.model.populations import check_population, check_teacher
from polyceptron.rows import Status, make_row
from polyceptron.theory.generalisation import error_at_tau, error_on_labels
from polyceptron.theory.populations.scores import FieldsLaw, population_scores

_ROUNDING = 1e-12  # of an error in closed form


def class_means_rows(
    teacher: Any, estimator: Estimator, alphas: Iterable[float], tol: float | None = None
) -> list[dict[str, Any]]:
    """One row for each α: of a teacher with classes that are alike, or of a mixture."""
    check_population(teacher)
    one = _of_teacher if teacher.symmetric else _of_mixture
    return [one(teacher, estimator, alpha) for alpha in check_alphas(alphas)]


def _of_teacher(teacher: AnyTeacher, estimator: Estimator, alpha: float) -> dict[str, Any]:
    channel, k, f = teacher.channel, teacher.n_classes, teacher.features
    s, share = f.eigenvalues, f.fraction
    along = s * f.signal * share  # of sum 1: the teacher's variance along each
    m = alpha * channel.signal(k) * float(s @ along)
    spread = float(((s - s @ along) ** 2) @ along)
    rest = (alpha * channel.signal(k)) ** 2 * spread + alpha / k * float(s**2 @ share)
    tau = m / math.sqrt(rest) if rest > 0 else 0.0
    return make_row(
        source="theory", **teacher.columns, **estimator.columns, alpha=alpha, m=m, q=m * m + rest,
        V=0.0, generalisation_error=float(error_on_labels(channel, tau, k)),
        uncertainty=max(_ROUNDING, channel.accuracy), status=Status.OK,
        clean_error=None if channel.noiseless else float(error_at_tau(tau, k)),
    )  # fmt: skip


def _of_mixture(population: Population, estimator: Estimator, alpha: float) -> dict[str, Any]:
    levels, p = population.levels_of_features, population.group_shares
    if population.label_channel is not None or levels is None or alpha == 0:
        raise InvalidInput(
            "the theory of class means takes a teacher whose classes are alike, or a mixture whose "
            f"covariances share eigenvectors, at an alpha above 0; got {population!r}"
        )
    f, s, G = levels.fraction, levels.variance, levels.gram
    noise = np.einsum("l,lc,lj->cj", f, s, s) / (alpha * p)
    covariance = np.einsum("lc,lij->cij", s, G) + noise[:, :, None] * np.eye(len(p))
    gram = G.sum(0)
    offset = -0.5 * (np.diag(gram) + f @ s / (alpha * p))
    T = difference_basis(len(p))
    law = FieldsLaw(p, gram @ T, T.T @ covariance @ T, T.T @ offset)
    columns = {**population.columns, **estimator.columns, **population_scores(law).columns}
    return make_row(source="theory", **columns, alpha=alpha, status=Status.OK)


def lda_rows(
    teacher: AnyTeacher, estimator: Any, alphas: Iterable[float], tol: float | None = None
) -> list[dict[str, Any]]:
    """The rows of least squares with the same ridge, without what is trained on."""
    check_teacher(teacher)
    trained = ("training_error", "training_loss")
    aside = [*trained, *(f"{name}_uncertainty" for name in trained)]
    return [
        {**{n: v for n, v in row.items() if n not in aside}, "estimator": estimator.name}
        for row in ERM("square", estimator.ridge).rows(teacher, list(alphas), tol=tol)
    ]
