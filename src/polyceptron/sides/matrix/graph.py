"""The fields side of two and three classes, at nodes in what training makes of the fields.

Where fields ω + b end after training is a minimum; where u came from is explicit:

    ω + b = u − Vf,    f = −c Tᵀ∇ℓ(Tu, y)

So the averages are integrals over coordinates t of the pairs (u, f), with no proximal map to solve
and with mistakes that begin at a straight line:

    E h = ∫ h φ(ω; m, Q) |J| dt,    J = ∂ω/∂t = P + VN,   P = ∂u/∂t,   N = −∂f/∂t,   −∂f = NJ⁻¹

One coordinate for each gap g_j = (Tu)_y − (Tu)_j, with f = Aᵀν and u = A⁻¹g, A the gaps' rows:

    smooth losses   g = t
    hard margin     g = κ + t₊,  ν = t₋
    hinge, k = 2    g = κ + t − [t],  ν = c(1 − [t]),  [t] = t cut to 0 … 1
"""

import math
from itertools import product
from typing import NamedTuple

import numpy as np

from polyceptron.checks import class_gaps, difference_basis
from polyceptron.numerics import Array
from polyceptron.numerics.boxes import smooth_boxes
from polyceptron.problem.channels.correlated import label_chances
from polyceptron.problem.losses import Loss
from polyceptron.sides.matrix.fields import (
    MatrixAverages,
    MatrixOrder,
    MatrixProblem,
    curvature,
    given_fields,
    matrix_pull,
    root,
)

_REACH = (5.0, 6.6, 8.3, 8.3)  # standard deviations that a level sees
_TOL = (3e-2, 1e-3, 3e-5, 1e-7)
_ORDER = (6, 8, 10, 12)
LAST_LEVEL = 3
_UNSEEN = 1e-16


class Graph(NamedTuple):
    """At t (n, r): u, f (n, r), P, N (n, r, r), the loss (n,) and mistakes (n,); no law in it."""

    u: Array
    f: Array
    P: Array
    N: Array
    loss: Array
    wrong: Array


def graph(loss: Loss, label: int, t: Array, c: float) -> Graph:
    """The pairs (u, f) of a label at coordinates t (n, r), with class weight c."""
    n, r = t.shape
    A, T = class_gaps(r + 1, label), difference_basis(r + 1)
    back, y = np.asarray(np.linalg.inv(A), dtype=float), np.full(n, label)
    if loss.scale_free or loss.margin_atom is not None:
        if loss.scale_free:
            g, nu = float(loss.margin_floor or 0.0) + np.maximum(t, 0), np.maximum(-t, 0)
            rise, fall = t > 0, (t <= 0).astype(float)
        else:
            middle = np.clip(t, 0, 1)
            g, nu = float(loss.margin_atom or 0.0) + t - middle, c * (1 - middle)
            rise, fall = t != middle, c * (t == middle)
        u, f = g @ back.T, nu @ A
        P, N = back * rise[:, None, :], A.T * fall[:, None, :]
    else:
        g, u = t, t @ back.T
        f = -c * (loss.gradient(u @ T.T, y) @ T)
        P = np.broadcast_to(back, (n, r, r))
        N = c * curvature(loss, u @ T.T, y) @ back
    wrong = np.asarray((g < 0).any(1), dtype=float)
    return Graph(u, f, np.asarray(P), N, loss.value_at_prox(u @ T.T, y), wrong)


def _coordinates(loss: Loss, label: int, u: Array, f: Array, c: float) -> Array:
    """The t (n, r) of pairs (u, f)."""
    A = class_gaps(u.shape[1] + 1, label)
    g, nu = u @ A.T, f @ np.linalg.inv(A)
    if loss.scale_free:
        return g - float(loss.margin_floor or 0.0) - nu
    return g if loss.margin_atom is None else g - loss.margin_atom + 1 - nu / c


def _kinks(loss: Loss) -> tuple[float, ...]:
    """Where an integrand has a kink or a jump in t, mistakes among them."""
    if loss.margin_atom is not None:
        return (-loss.margin_atom, 0.0, 1.0)
    return (0.0, 1.0) if loss.coordinates.jumps and not loss.scale_free else (0.0,)


class GroupLaw(NamedTuple):
    """Of one group: m + b, V, L⁻¹ of the fields, the density's norm, and z | ω of a teacher."""

    shift: Array
    V: Array
    inverse: Array
    norm: float
    slope: Array | None
    C: Array | None


def group_law(problem: MatrixProblem, law: MatrixOrder, c: int) -> GroupLaw:
    r, slope, C, Q = law.m.shape[1], None, None, law.Q[c]
    if problem.taught:
        Q, slope, C = given_fields(problem, law)
    inverse = np.asarray(np.linalg.inv(root(Q)))
    norm = abs(float(np.linalg.det(inverse))) / (2 * math.pi) ** (r / 2)
    return GroupLaw(law.m[c] + law.b, law.V[c], inverse, norm, slope, C)


def graph_values(
    problem: MatrixProblem, at: GroupLaw, label: int, g: Graph, kind: str = "slopes"
) -> tuple[Array, Array, Array | None]:
    """At nodes: weight (n,) with the label's chance, −∂f (n, r, r), and ∂Z (n, r), weighted."""
    away = g.u - g.f @ at.V - at.shift
    x = away @ at.inverse.T
    if len(at.V) == 1:
        J = g.P + at.V * g.N
        det, stiffness, square = J[:, 0, 0], g.N / J, x[:, 0] ** 2
    else:  # NJ⁻¹ of 2 × 2 matrices
        J = g.P + (g.N.swapaxes(1, 2).reshape(-1, 2) @ at.V.T).reshape(-1, 2, 2).swapaxes(1, 2)
        a, b, c, d = J[:, 0, 0], J[:, 0, 1], J[:, 1, 0], J[:, 1, 1]
        det, square = a * d - b * c, x[:, 0] ** 2 + x[:, 1] ** 2
        left, right = g.N[:, :, 0], g.N[:, :, 1]
        stiffness = np.empty_like(J)
        stiffness[:, :, 0] = left * (d / det)[:, None] - right * (c / det)[:, None]
        stiffness[:, :, 1] = right * (a / det)[:, None] - left * (b / det)[:, None]
    weight = at.norm * np.exp(-0.5 * square) * np.abs(det)
    channel = problem.population.label_channel
    if channel is None or at.slope is None or at.C is None:
        return weight, stiffness, None
    offset = problem.population.offsets @ difference_basis(problem.n_classes)
    found = label_chances(channel, away @ at.slope.T + offset, at.C, label, kind)
    return weight * found.Z[:, 0], stiffness, weight[:, None] * found.slopes[:, 0]


def _edges(problem: MatrixProblem, at: GroupLaw) -> Array:
    """Fields (n, 1) where a teacher's labels of two classes change, which boxes could overlook."""
    channel, slope = problem.population.label_channel, at.slope
    if channel is None or slope is None or at.C is None or len(at.C) > 1 or not slope.any():
        return np.zeros((0, len(at.V)))
    width = channel.width(float(at.C[0, 0])) * np.linspace(-8, 8, 5)[:, None]
    return np.asarray(at.shift + (width - problem.population.offsets @ problem.basis) / slope)


class GraphFields:
    """Averages at fixed nodes: boxes on which the integrand at `law` is smooth."""

    def __init__(self, problem: MatrixProblem, law: MatrixOrder, level: int) -> None:
        self.problem = problem
        k, r, loss = problem.n_classes, problem.n_classes - 1, problem.loss
        angle = np.linspace(0, 2 * math.pi, 24, endpoint=False)
        ring = np.stack([np.cos(angle), np.sin(angle)], 1) if r == 2 else np.array([[-1.0], [1.0]])
        radii = (1.03, 0.6, 0.3, 0.1) if r == 1 else (1.03, 0.6, 0.3)
        x = _REACH[level] * np.concatenate([*(a * ring for a in radii), 0 * ring[:1]])
        self.blocks = []  # group, label, volumes (n,) of nodes, and what no law changes there
        for c in range(len(law.m)):
            at = group_law(problem, law, c)
            edges = _edges(problem, at)
            omega = np.concatenate([edges, at.shift + np.linalg.solve(at.inverse, x.T).T])
            own = range(k) if problem.taught else (c,)
            for y, (copies, chance) in product(own, problem.copies):
                weight, labels = copies * float(problem.weight[y]), np.full(len(omega), y)
                pull = matrix_pull(loss, omega, labels, at.V, np.full(len(omega), weight))
                t = _coordinates(loss, y, pull.point, pull.f, weight)
                near, t = np.split(t, [len(edges)])
                rings = np.stack(np.split(t[:-1], len(radii)))
                seen = np.concatenate([rings.min(1), rings.max(1), t[-1:]])
                low, high, kinks = seen.min(0), seen.max(0), np.array(_kinks(loss))
                ends = [np.concatenate([seen[:, j], kinks, near[:, j]]) for j in range(r)]
                ends = [np.unique(np.clip(e, low[j], high[j])) for j, e in enumerate(ends)]

                def values(t: Array, at: GroupLaw = at, y: int = y, w: float = weight) -> Array:
                    g = graph(loss, y, t, w)
                    density, stiffness, _ = graph_values(problem, at, y, g, "plain")
                    parts = [np.ones((len(t), 1)), g.f, stiffness.reshape(len(t), -1)]
                    return np.asarray(density * np.concatenate(parts, 1).T)

                nodes, volume, found = smooth_boxes(
                    values, ends, tol=_TOL[level], order=_ORDER[level]
                )
                keep = volume * found[0] > _UNSEEN
                g = graph(loss, y, nodes[keep], weight)
                self.blocks.append((c, y, chance * volume[keep], g))

    def __call__(self, law: MatrixOrder) -> MatrixAverages:
        """The averages at a law."""
        p, (G, r) = self.problem, law.m.shape
        laws = [group_law(p, law, c) for c in range(G)]
        m, Q, V, M = (np.zeros(s) for s in ((G, r), (G, r, r), (G, r, r), (r, r)))
        sums = np.zeros((3, G))  # loss, mistakes, mass
        for c, y, volume, g in self.blocks:
            density, stiffness, slopes = graph_values(p, laws[c], y, g)
            w = volume * density
            weighted = w[:, None] * g.f
            m[c] += weighted.sum(0)
            Q[c] += weighted.T @ g.f
            V[c] += (w @ stiffness.reshape(len(w), r * r)).reshape(r, r)
            if slopes is not None:
                M += (volume[:, None] * g.f).T @ slopes
            sums[:, c] += w @ g.loss, w @ g.wrong, w.sum()
        loss, error, _ = sums @ p.population.group_shares
        missed = np.abs(sums[2] - sum(chance for _, chance in p.copies)).max()
        return MatrixAverages.of(p, m, Q, V, M, loss, error, missed)
