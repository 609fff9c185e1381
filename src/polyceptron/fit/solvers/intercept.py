"""A free intercept: min_{W,b} Σ_μ ℓ(Wᵀx̂_μ + b, y_μ) + (λ/2)‖W‖²_F, x̂ = x/√d.

A column of equal entries κ is added to X, as large as the typical feature; its weights β bear no
ridge. The features are centred, so that β and the other weights hardly interact. With the mean
input x̄, b = κβ − Wᵀx̄/√d.

The certificate (`certificate`). Let G and g be the norms of the gradient in W and in b, and p and q
the distances of W and b to the minimiser, with differences u and v. H_μ is the curvature of the
loss at z_μ, and at least half of it on the way to the minimiser (softmax: as long as fields move by
less than ln 2/√2, by self-concordance). Then with T = Gp + gq

    λp² + ½ Σ_μ ‖x̂_μ·u + v‖²_{H_μ} ≤ T,     ‖v‖ √h ≤ (Σ_μ ‖v‖²_{H_μ})^½ ≤ √(2T) + √S p,

where h is the least eigenvalue of Σ H_μ, and S = Σ ‖H_μ‖‖x̂_μ‖², or L‖X/√d‖² if this is less, with
L the largest curvature of the loss. (‖X/√d‖ is computed only where classes are many.)

Rounding moves field μ by δ_μ. This changes the left side by no more than 2(Σ‖δ_μ‖²_{H_μ})^½ times
the root of its sum; with ¼ in place of ½ it is then at most T + E, E = 4 Σ ‖H_μ‖δ_μ². Hence

    p ≤ A√(T + E),   q ≤ B√(T + E),   A = λ^−½,   B = (2 + (S/λ)^½) h^−½,   √(T + E) ≤ GA + gB + √E.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from polyceptron.data.checks import Samples
from polyceptron.data.design import ColumnMoments, Design
from polyceptron.data.stored_designs import SparseDesign, scaled
from polyceptron.errors import InvalidInput
from polyceptron.fit.solvers.objectives import norms
from polyceptron.fit.solvers.rounding import gradient_rounding, roundings
from polyceptron.numerics import Array

# Up to a mean of this many deviations, products with features are centred instead of the rows.
LARGEST_MEAN_OF_CENTRED_PRODUCTS = 30.0
LARGEST_MEAN_LEFT_ALONE = 0.1  # deviations of a feature, up to which centring gains nothing
# From so many class differences on ‖X/√d‖ costs little beside the other products.
DIFFERENCES_BESIDE_A_NORM = 16


@dataclass(frozen=True)
class Intercept:
    """How b is made of the weights of centred features and of the column of ones.

    Attributes
    ----------
    column : float
        κ, the entry of the column in x̂.
    mean : array (d,)
        x̄/√d, which was subtracted from the features.
    unit : float
        What tiny inputs were divided by. Weights of the features as given are W/unit, and a
        distance of b counts `unit` times beside one of W.
    """

    column: float
    mean: Array
    unit: float

    def split(self, U: Array) -> tuple[Array, Array]:
        """Return W (..., d) and b (...,) of the given features, from weights (..., d + 1)."""
        W = U[..., :-1]
        return W, self.column * U[..., -1] - W @ self.mean

    def joined(self, W: Array, b: Array) -> Array:
        """Return the weights (..., d + 1) of W (..., d) and b (...,), the inverse of `split`."""
        return np.concatenate([W, (b + W @ self.mean)[..., None] / self.column], axis=-1)


def certificate(
    design: Design,
    intercept: Intercept | None,
    ridges: Array,
    U: Array,
    G: Array,
    sizes: tuple[Array, Array, Array],
    smoothness: float | None,
    total: Callable[[], Array] | None,
    enough: Array,
    unit: float = 1.0,
) -> tuple[Array, Array]:
    """Return what rounding hides of the gradients, and bounds on the distances to the minima.

    Parameters
    ----------
    design : Design
    intercept : Intercept or None
    ridges : array (L,)
    U, G : array (L, r, d), or (L, r, d + 1) with an intercept
        Weights, and gradients there.
    sizes : tuple of arrays (L, n)
        ‖z_μ‖, ‖g_μ‖ and ‖H_μ‖: fields, residuals and curvatures of the samples.
    smoothness : float or None
        L, if it is known.
    total : callable or None
        Returns Σ_μ H_μ (L, r, r); asked for with an intercept only.
    enough : array (L,)
        Distances below which no better bound is needed.
    unit : float
        Unit of rounding, in that of doubles.

    Returns
    -------
    rounding, distance : array (L,)
    """
    if intercept is None:
        size = norms(U)
        norm = norms(G)
        left = ridges * enough - norm
        rounding = gradient_rounding(design, size, ridges, *sizes, smoothness, left, unit)
        return rounding, (norm + rounding) / ridges
    assert total is not None
    return _certificate_with_intercept(
        design, intercept, ridges, U, G, sizes, smoothness, total(), unit
    )


def _certificate_with_intercept(
    design: Design,
    intercept: Intercept,
    ridges: Array,
    U: Array,
    G: Array,
    sizes: tuple[Array, Array, Array],
    smoothness: float | None,
    curvature: Array,
    unit: float,
) -> tuple[Array, Array]:
    """Return rounding and distance (L,), by the inequalities of the module's docstring."""
    fields, residuals, curvatures = sizes
    field_error, gradient_error = roundings(design, norms(U), ridges, fields, residuals, unit)
    rounding_of_trace = 1e-14 * np.einsum("lii->l", curvature)
    least_curvature = np.linalg.eigvalsh(curvature)[:, 0] - rounding_of_trace  # h
    squared_norms = np.maximum(design.row_norms**2 - intercept.column**2, 0.0)  # of features alone
    root_S = np.sqrt(curvatures @ squared_norms)
    if smoothness is not None and len(curvature[0]) >= DIFFERENCES_BESIDE_A_NORM:
        root_S = np.minimum(root_S, math.sqrt(smoothness) * design.stretch)
    gradient_of_weights = norms(G[..., :-1]) + gradient_error
    gradient_of_intercept = (norms(G[..., -1:]) + gradient_error) / intercept.column
    with np.errstate(divide="ignore", invalid="ignore"):  # where there is no bound
        A = ridges**-0.5
        B = (2 + root_S * A) / np.sqrt(np.maximum(least_curvature, 0.0))
        root = gradient_of_weights * A + gradient_of_intercept * B
        root += 2 * np.sqrt((curvatures * field_error**2).sum(1))
        p = A * root
        q = B * root
        fields_moved = math.sqrt(2) * (np.sqrt(squared_norms.max()) * p + q)
        mean_norm = float(np.linalg.norm(intercept.mean))
        distance = np.hypot(p, intercept.unit * (q + mean_norm * p))
    is_valid = fields_moved < math.log(2)  # False for NaN
    return gradient_error, np.where(is_valid, distance, np.inf)


def pulls_of(intercept: Intercept | None, ridges: Array) -> Array:
    """Return the ridge of each weight: λ (L,), or (L, d + 1) with 0 for the column of ones."""
    if intercept is None:
        return ridges
    return ridges[:, None] * np.append(np.ones(intercept.mean.size), 0.0)


def size_of(intercept: Intercept | None, U: Array) -> Array:
    """Return the norms (L,) of weights (L, r, d), their intercepts included."""
    if intercept is None:
        return norms(U)
    W, b = intercept.split(U)
    return np.hypot(norms(W), intercept.unit * norms(b[..., None]))


def growth_by_intercept(intercept: Intercept | None) -> float:
    """Return the factor by which a bound on the distance of (W, β) grows for (W, b)."""
    if intercept is None:
        return 1.0
    largest = intercept.unit * (intercept.column + float(np.linalg.norm(intercept.mean)))
    return math.hypot(1.0, largest)


def with_intercept(samples: Samples, unit: float) -> Samples:
    """Return the samples with centred features and a column of ones, described by `intercept`.

    Parameters
    ----------
    samples : Samples
    unit : float
        What tiny inputs were divided by.
    """
    design = samples.design
    counts = np.bincount(samples.y, minlength=samples.n_classes)
    if counts.min() == 0:
        raise InvalidInput(
            f"an intercept needs samples of every class: class {int(counts.argmin())} of the "
            f"{samples.n_classes} has none"
        )
    moments = design.column_moments(samples.weights)
    typical = float(np.sqrt(np.mean(moments.deviation**2))) or 1.0
    if bool((np.abs(moments.mean) <= LARGEST_MEAN_LEFT_ALONE * moments.deviation).all()):
        moments = moments._replace(mean=0 * moments.mean)
    centred, mean = _centred(design, moments, typical)
    intercept = Intercept(typical * design.scale, mean * design.scale, unit)
    return replace(samples, design=centred, intercept=intercept, features=design)


def without_column(samples: Samples) -> tuple[Samples, Array]:
    """Return the samples of `with_intercept` without the column, and x̄/√d (d,).

    All features are centred, also those whose small means `with_intercept` leaves alone.
    """
    assert samples.features is not None
    design, mean = _centred(samples.features, samples.features.column_moments(samples.weights))
    design.watch = samples.design.watch
    return replace(samples, design=design, intercept=None), mean * samples.features.scale


def _centred(
    design: Design, moments: ColumnMoments, column: float | None = None
) -> tuple[Design, Array]:
    """Return the features less their means, and these means (d,); constant features become 0.

    `column` is the entry of a further column of equal entries, in units of X. The design then
    divides by √(d + 1) in place of √d, which is made up for.
    """
    mean, deviation, largest = moments
    is_sparse = isinstance(design, SparseDesign)
    rounding = np.zeros_like(largest)
    if is_sparse:
        rounding = 10 * np.finfo(float).eps * largest
    varying = (deviation > rounding) | (mean == 0)
    is_near = np.abs(mean) <= LARGEST_MEAN_OF_CENTRED_PRODUCTS * deviation
    near = is_sparse or bool(is_near[varying].all())
    stretch = 1.0
    constant = None
    if column is not None:
        stretch = math.sqrt((design.dimension + 1) / design.dimension)
        constant = column * stretch
    scale = np.where(varying, 1.0, np.inf) / stretch
    return scaled(design, mean, scale, constant=constant, near=near), np.where(varying, mean, 0.0)
