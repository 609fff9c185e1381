"""Pairs of a proximal point and its pull, by formulas: no proximal map is solved.

Training moves the field ω + b of a sample with label y to its proximal point u, with a pull f:

    u = argmin_u cℓ(Tu, y) + ½ (u − ω − b)ᵀ V⁻¹ (u − ω − b),      f = V⁻¹(u − ω − b)

It is f_out of eq. f_out on the r = k − 1 class differences, of which T (k, r) is an orthonormal
basis, with a matrix V, the class weight c of y and the intercept b. Finding u takes a minimisation,
but its inverse is a formula:

    f = −c Tᵀ∇ℓ(Tu, y),      ω + b = u − Vf

So the *graph* of the proximal map, the set of all pairs (u, f), has coordinates t (n, r) that do
not depend on V. There is one for each gap g_j = (Tu)_y − (Tu)_j between the label and another
class. In terms of gaps u = A⁻¹g and f = Aᵀν: the rows of A (`class_gaps`) take the differences, and
ν ≥ 0 are the forces on the gaps.

    smooth losses    g = t                         ν = −c ∂ℓ/∂g
    hard margin      g = κ + max(t, 0)             ν = max(−t, 0)        κ = `loss.margin_floor`
    hinge, k = 2     g = κ + t − [t]               ν = c(1 − [t])        κ = `loss.margin_atom`

with [t] = min(max(t, 0), 1). A hard margin leaves no gap below κ, and its pull there takes any
value. A hinge pulls a positive share of all samples to the gap κ exactly, 0 ≤ t ≤ 1. A sample is
misclassified where some g_j < 0: the edges of this region are t_j = constant.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polyceptron.checks import class_gaps, difference_basis
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss
from polyceptron.sides.matrix.order import Labels
from polyceptron.sides.matrix.proximal import curvature

SQUARED_HINGE_GAP = 1.0  # from this gap on the squared hinge is 0: its curvature jumps there


class ProximalGraph(NamedTuple):
    """Pairs (u, f) of samples with one label; they do not depend on the order parameters.

    Attributes
    ----------
    u, f : array, shape (n, r)
        Proximal points and pulls.
    du_dt, minus_df_dt : array, shape (n, r, r)
        ∂u/∂t and −∂f/∂t.
    loss : array, shape (n,)
        Training loss ℓ of such a sample, without its class weight.
    mistake : array, shape (n,)
        1 where such a sample is misclassified in training, else 0.
    """

    u: Array
    f: Array
    du_dt: Array
    minus_df_dt: Array
    loss: Array
    mistake: Array


def proximal_graph(loss: Loss, label: int, t: Array, weight: float) -> ProximalGraph:
    """Return the pairs (u, f) of a label at coordinates t (n, r), for a class weight c.

    Raises `ValueError` for the hinge of three classes and more, whose kinks tie several gaps.
    """
    n_classes = t.shape[1] + 1
    A = class_gaps(n_classes, label)
    T = difference_basis(n_classes)
    A_inverse = np.asarray(np.linalg.inv(A), dtype=float)
    y = np.full(len(t), label)
    if loss.scale_free:
        gaps = float(loss.margin_floor or 0.0) + np.maximum(t, 0)
        force = np.maximum(-t, 0)
        gap_rises = t > 0
        force_falls = np.where(t <= 0, 1.0, 0.0)
    elif loss.margin_atom is not None:
        if n_classes > 2:
            raise ValueError(f"a graph of {loss.name!r} is known for two classes, not {n_classes}")
        middle = np.clip(t, 0, 1)
        gaps = loss.margin_atom + t - middle
        force = weight * (1 - middle)
        gap_rises = t != middle
        force_falls = np.where(t == middle, weight, 0.0)
    else:
        return _graph_of_smooth_loss(loss, y, t, weight, A_inverse)
    u = gaps @ A_inverse.T
    return ProximalGraph(
        u=u,
        f=force @ A,
        du_dt=A_inverse * gap_rises[:, None, :],  # A⁻¹ diag(∂g/∂t), ∂g_j/∂t_j is 0 or 1
        minus_df_dt=A.T * force_falls[:, None, :],
        loss=loss.value_at_prox(u @ T.T, y),
        mistake=_any_negative(gaps),
    )


def _graph_of_smooth_loss(
    loss: Loss, y: Labels, gaps: Array, weight: float, A_inverse: Array
) -> ProximalGraph:
    """Return the pairs (u, f) where the coordinates are the gaps (n, r) themselves."""
    n, r = gaps.shape
    T = difference_basis(r + 1)
    u = gaps @ A_inverse.T
    return ProximalGraph(
        u=u,
        f=-weight * (loss.gradient(u @ T.T, y) @ T),
        du_dt=np.broadcast_to(A_inverse, (n, r, r)),
        minus_df_dt=weight * curvature(loss, u @ T.T, y) @ A_inverse,
        loss=loss.value_at_prox(u @ T.T, y),
        mistake=_any_negative(gaps),
    )


def _any_negative(gaps: Array) -> Array:
    """Return 1 where a gap (n, r) is negative, which is a mistake, else 0, shape (n,)."""
    return np.asarray((gaps < 0).any(1), dtype=float)


def graph_coordinates(loss: Loss, label: int, u: Array, f: Array, weight: float) -> Array:
    """Return the coordinates t (n, r) of pairs (u, f), each (n, r): inverse of `proximal_graph`."""
    A = class_gaps(u.shape[1] + 1, label)
    gaps = u @ A.T
    force = f @ np.linalg.inv(A)
    if loss.scale_free:
        return np.asarray(gaps - float(loss.margin_floor or 0.0) - force)
    if loss.margin_atom is not None:
        return np.asarray(gaps - loss.margin_atom + 1 - force / weight)
    return np.asarray(gaps)


def kinks_in_coordinates(loss: Loss) -> tuple[float, ...]:
    """Return the t at which an integrand has a kink or a jump along an axis.

    A mistake begins where the gap is 0. The hinge and the hard margin change between their
    branches, and a squared hinge (its `coordinates.jumps` says that ∂f jumps) ends.
    """
    if loss.margin_atom is not None:
        return (-loss.margin_atom, 0.0, 1.0)
    if loss.coordinates.jumps and not loss.scale_free:
        return (0.0, SQUARED_HINGE_GAP)
    return (0.0,)
