"""A free intercept: min_{W,b} Σ_μ ℓ(Wᵀx̂_μ + b, y_μ) + (λ/2)‖W‖²_F, x̂ = x/√d.

It is the weight β of one more column, of equal entries κ as loud as the features', that bears no
ridge. The features are centred, so that the two do not pull on each other: with x̄ the mean input,
b = κβ − Wᵀx̄/√d.

The certificate. Let G and g be the norms of the gradients in W and in b, and p and q the distances
of W and b to the minimiser. With T = Gp + gq, H_μ the curvature of the loss at z_μ and half of it
somewhere else on the way (softmax: while fields move by less than ln 2/√2, by self-concordance),

    λp² + ½ Σ_μ ‖x̂_μ·u + v‖²_{H_μ} ≤ T,     ‖v‖ √μ ≤ (Σ_μ ‖v‖²_{H_μ})^½ ≤ √(2T) + √S p,

u and v being the differences themselves, μ the least eigenvalue of Σ H_μ and S = Σ ‖H_μ‖‖x̂_μ‖² or
L‖X/√d‖² if less, with L the largest curvature of the loss (found out where classes are many).
Fields that are off by δ_μ change the left side by no more than 2(Σ‖δ_μ‖²_{H_μ})^½ times the root of
its sum, so that with ¼ in place of ½ it is not above T + E, E = 4 Σ ‖H_μ‖δ_μ². Hence p ≤ A√(T + E)
and q ≤ B√(T + E) with A = λ^−½ and B = (2 + (S/λ)^½) μ^−½, and √(T + E) ≤ GA + gB + √E.
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

_FAR = 30.0  # deviations of a feature's mean, up to which products may be centred instead of rows
_MANY = 16  # class differences beside which a few products with one vector cost little
_NEAR = 0.1  # up to which nothing is gained by it


@dataclass(frozen=True)
class Intercept:
    """The last column's entry κ of x̂, and what was subtracted from the others, x̄/√d (d,)."""

    column: float
    mean: Array
    unit: float  # that tiny inputs were divided by: beside their weights W/unit b counts less

    def split(self, U: Array) -> tuple[Array, Array]:
        """W (..., d) and b (...,) of given features, from weights (..., d + 1) of these."""
        W = U[..., :-1]
        return W, self.column * U[..., -1] - W @ self.mean

    def joined(self, W: Array, b: Array) -> Array:
        """The inverse of `split`."""
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
    """What rounding hides of gradients G (L, r, d) at U, and the distance to the minimum, (L,).

    sizes: ‖z_μ‖, ‖g_μ‖ and ‖H_μ‖ (L, n); total: Σ H_μ between class differences, if that is needed;
    enough: a distance (L,) at which nobody asks for less; unit: of rounding, in that of doubles.
    """
    fields, residuals, stiffness = sizes
    norm, size = norms(G), norms(U)
    if intercept is None:
        left = ridges * enough - norm
        rounding = gradient_rounding(design, size, ridges, *sizes, smoothness, left, unit)
        return rounding, (norm + rounding) / ridges
    assert total is not None
    off, rest = roundings(design, size, ridges, fields, residuals, unit)
    curvature, column = total(), intercept.column
    least = np.linalg.eigvalsh(curvature)[:, 0] - 1e-14 * np.einsum("lii->l", curvature)
    squares = np.maximum(design.row_norms**2 - column**2, 0.0)
    loud = np.sqrt(stiffness @ squares)
    if smoothness is not None and len(curvature[0]) >= _MANY:
        loud = np.minimum(loud, math.sqrt(smoothness) * design.stretch)
    with np.errstate(divide="ignore", invalid="ignore"):
        A = ridges**-0.5
        B = (2 + loud * A) / np.sqrt(np.maximum(least, 0.0))
        root = (norms(G[..., :-1]) + rest) * A + (norms(G[..., -1:]) + rest) / column * B
        root += 2 * np.sqrt((stiffness * off**2).sum(1))
        p, q = A * root, B * root
        moved = math.sqrt(2) * (np.sqrt(squares.max()) * p + q)
        found = np.hypot(p, intercept.unit * (q + float(np.linalg.norm(intercept.mean)) * p))
    return rest, np.where(moved < math.log(2), found, np.inf)  # NaN is not below it


def pulls_of(intercept: Intercept | None, ridges: Array) -> Array:
    """λ (L,), or of every feature (L, d + 1) beside a column that bears none."""
    if intercept is None:
        return ridges
    return ridges[:, None] * np.append(np.ones(intercept.mean.size), 0.0)


def size_of(intercept: Intercept | None, U: Array) -> Array:
    """The norm of weights (L, r, d), together with their intercepts (L,)."""
    if intercept is None:
        return norms(U)
    W, b = intercept.split(U)
    return np.hypot(norms(W), intercept.unit * norms(b[..., None]))


def with_intercept(samples: Samples, unit: float) -> Samples:
    """The samples with centred features and the column, `samples.intercept` saying so."""
    design, y, k = samples
    counts = np.bincount(y, minlength=k)
    if counts.min() == 0:
        raise InvalidInput(
            f"an intercept needs samples of every class: class {int(counts.argmin())} of the {k} "
            "has none"
        )
    moments = design.column_moments(samples.weights)
    spread = moments.deviation
    loud = float(np.sqrt(np.mean(spread**2))) or 1.0
    if bool((np.abs(moments.mean) <= _NEAR * spread).all()):
        moments = moments._replace(mean=0 * moments.mean)
    found, mean = _centred(design, moments, loud)
    intercept = Intercept(loud * design.scale, mean * design.scale, unit)
    return replace(samples, design=found, intercept=intercept, features=design)


def without_column(samples: Samples) -> tuple[Samples, Array]:
    """The samples of `with_intercept` with all features centred and no column; and x̄/√d (d,)."""
    assert samples.features is not None
    design, mean = _centred(samples.features, samples.features.column_moments(samples.weights))
    design.watch = samples.design.watch
    return replace(samples, design=design, intercept=None), mean * samples.features.scale


def _centred(
    design: Design, moments: ColumnMoments, column: float | None = None
) -> tuple[Design, Array]:
    """Features less their means, 0 where they are constant; and these means, 0 there too."""
    mean, spread, largest = moments
    sparse = isinstance(design, SparseDesign)
    varying = (spread > (10 * np.finfo(float).eps * largest if sparse else 0.0)) | (mean == 0)
    near = sparse or bool((np.abs(mean) <= _FAR * spread)[varying].all())
    d = design.dimension
    stretch = 1.0 if column is None else math.sqrt((d + 1) / d)  # the design divides by √(d + 1)
    scale = np.where(varying, 1.0, np.inf) / stretch
    constant = None if column is None else column * stretch
    return scaled(design, mean, scale, constant=constant, near=near), np.where(varying, mean, 0.0)
