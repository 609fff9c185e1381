"""The fields side with matrices: what n = αd samples of a population tell a student.

    group c:   ω ~ N(m_c, Q_c),   f and −∂f of `matrix_prox`
    m̂_c = α p_c E f,   Q̂_c = α p_c E ffᵀ,   V̂_c = α p_c E(−∂f);   Σ_c p_c E f is 0 at the best b
    a teacher, y with chance Z_y(ω):   M̂ = α E Σ_y f_y ∂Z_yᵀ

Two and three classes: `matrix_graph`. More, and losses with kinks: replicates of quasi-random
points, which are held in the coordinates x of ω = m + Lx, LLᵀ = Q, while the law moves. For a
teacher with utilities ζ = z + noise ~ N(0, R'), R' = R + Δ, they are points of ζ where each label
leads (all of them, with its chance, where the noise is not Gaussian) and the rest x of
ω = Bζ + Lx, B = ARR'⁻¹. By parts

    V̂ = −α p_c E f xᵀ L⁻¹,     M̂ = α E f ζᵀR'⁻¹ + V̂B

which needs no derivative of f, and has less noise than its mean where the points have the moments
of x: the pulls' first and second moments at the points are then the slopes of one function, their
mean Moreau envelope. A pull that is linear in ω (square loss, a mixture) needs 2r points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from polyceptron.model.checks import difference_basis
from polyceptron.model.law import Law
from polyceptron.model.losses import Loss
from polyceptron.model.populations import Population
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import uniform_replicates
from polyceptron.numerics.panels import truncated_nodes
from polyceptron.theory.populations.matrix_prox import matrix_pull
from polyceptron.theory.populations.matrix_weights import FieldsOrder, MatrixHats

_SEED = 31


@dataclass(frozen=True)
class MatrixProblem:
    """A population, and a risk: loss, class weights (k,), ridge, intercept or not."""

    population: Population
    loss: Loss
    weight: Array
    ridge: float
    alpha: float
    intercept: bool

    @property
    def n_classes(self) -> int:
        """k."""
        return self.population.n_classes

    @property
    def basis(self) -> Array:
        """T (k, r)."""
        return difference_basis(self.n_classes)

    @property
    def R(self) -> Array:
        """Covariance of a teacher's fields on class differences (r, r)."""
        return np.asarray(self.basis.T @ self.population.field_covariance @ self.basis)

    @property
    def utilities(self) -> Array:
        """R' (r, r): R with the Gaussian noise of labels."""
        channel = self.population.label_channel
        noise = 0.0 if channel is None else channel.utility_variance or 0.0
        return self.R + noise * np.eye(self.n_classes - 1)

    @property
    def sampled(self) -> bool:
        """Whether nodes are random: kinks are met by `matrix_graph` where each has a coordinate."""
        tied = self.loss.margin_atom is not None and self.n_classes > 2
        return self.n_classes > 3 or tied


class Block(NamedTuple):
    """Nodes of a group and label: x (R, n, r), weights (R, n), a teacher's utilities ζ (R, n, r).

    R replicates, each with the weight of the label in its group.
    """

    group: int
    label: int
    x: Array
    weight: Array
    zeta: Array | None


class MatrixAverages(NamedTuple):
    """Hats, pull (r,), −E∂f of all samples (r, r), training samples' mean loss and error.

    `missed` is by how much the nodes' weights miss 1, in the worst group.
    """

    hats: MatrixHats
    pull: Array
    stiffness: Array
    loss: float
    error: float
    missed: float


def root(Q: Array) -> Array:
    """L with LLᵀ = Q (r, r), lower triangular."""
    return np.asarray(np.linalg.cholesky(Q + 1e-15 * np.trace(Q) * np.eye(len(Q))))


def given_fields(problem: MatrixProblem, law: FieldsOrder) -> tuple[Array, Array, Array]:
    """Var ω = ARAᵀ + E, and z | ω: slope (r, r) of its mean, and covariance."""
    R, A, E = problem.R, law.A, law.Q[0]
    Q = A @ R @ A.T + E
    slope = R @ A.T @ np.linalg.inv(Q)
    values, vectors = np.linalg.eigh(R)
    half = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    inner = half @ A.T @ np.linalg.solve(E, A @ half)
    C = half @ np.linalg.inv(np.eye(len(R)) + inner) @ half
    return Q, slope, (C + C.T) / 2


class MatrixFields:
    """Averages at fixed nodes; proximal points of the last call start the next."""

    def __init__(self, problem: MatrixProblem, blocks: list[Block], exact: bool = False) -> None:
        self.problem, self.blocks, self.exact = problem, blocks, exact
        self.near: list[Any] = [{} for _ in blocks]

    @classmethod
    def drawn(cls, problem: MatrixProblem, log2: int, replicates: int) -> MatrixFields:
        """Quasi-random points, 2^log2 of each label in a replicate."""
        k, r = problem.n_classes, problem.n_classes - 1
        teacher = problem.population.label_channel is not None
        u = uniform_replicates(2 * r if teacher else r, log2, _SEED, replicates)
        x, even = ndtri(u[..., :r]), np.full(u.shape[:2], 1 / u.shape[1])
        if not teacher:
            white = _white(x, even)
            return cls(problem, [Block(l, l, white, even, None) for l in range(k)])
        return cls(
            problem,
            [
                Block(0, l, _white(x, weight, zeta), weight, zeta)
                for l in range(k)
                for zeta, weight in _told(problem, l, u[..., r:])
            ],
        )

    @classmethod
    def of_moments(cls, problem: MatrixProblem) -> MatrixFields | None:
        """Points with the first two moments of x, all that a linear pull of a mixture needs."""
        k, r = problem.n_classes, problem.n_classes - 1
        averages = problem.loss.explicit_averages(Law(1.0, 1.0, 1.0), 1.0, 3)
        if averages is None or problem.population.label_channel is not None:
            return None
        x = math.sqrt(r) * np.concatenate([np.eye(r), -np.eye(r)])[None]
        weight = np.full((1, 2 * r), 0.5 / r)
        return cls(problem, [Block(c, c, x, weight, None) for c in range(k)], True)

    def __call__(self, law: FieldsOrder) -> MatrixAverages:
        """The averages at a law."""
        return self.replicated(law)[0]

    def replicated(self, law: FieldsOrder) -> list[MatrixAverages]:
        """The averages at a law over all points, then over each replicate."""
        p, (G, r), R = self.problem, law.m.shape, len(self.blocks[0].x)
        T = difference_basis(r + 1)
        m, Q, V, M = (np.zeros((R, *s)) for s in ((G, r), (G, r, r), (G, r, r), (r, r)))
        sums = np.zeros((R, 2, G))  # loss, mistakes
        roots, inverse, B = [root(one) for one in law.Q], np.linalg.pinv(p.utilities), law.A
        if self.blocks[0].zeta is not None:
            B = law.A @ p.R @ inverse
            roots = [root(law.Q[0] + law.A @ (p.R - p.R @ inverse @ p.R) @ law.A.T)]
        for near, (c, label, x, w, zeta) in zip(self.near, self.blocks, strict=True):
            omega = law.m[c] + law.b + x @ roots[c].T
            if zeta is not None:
                omega = omega + zeta @ B.T
            y = np.full(w.size, label)
            cost = p.weight[y]
            pull = matrix_pull(p.loss, omega.reshape(-1, r), y, law.V[c], cost, **near)
            if not self.exact:
                near |= {"start": pull.point, "inverse": pull.inverse}
            weighted = w[:, :, None] * pull.f.reshape(x.shape)
            m[:, c] += weighted.sum(1)
            Q[:, c] += weighted.swapaxes(1, 2) @ pull.f.reshape(x.shape)
            V[:, c] -= weighted.swapaxes(1, 2) @ x @ np.linalg.inv(roots[c])
            if zeta is not None:
                M += weighted.swapaxes(1, 2) @ zeta @ inverse
            fields = pull.point @ T.T
            loss = p.loss.value_at_prox(fields, y).reshape(w.shape)
            wrong = (fields.argmax(1) != label).reshape(w.shape)
            sums[:, :, c] += np.stack([(w * loss).sum(1), (w * wrong).sum(1)], 1)
        V = (V + V.swapaxes(2, 3)) / 2
        parts: Any = m, Q, V, M + V[:, 0] @ B, *(sums @ p.population.group_shares).T
        every: list[Any] = [[each.mean(0) for each in parts], *zip(*parts, strict=True)]
        return [averages(p, *one) for one in every]


def _white(x: Array, weight: Array, zeta: Array | None = None) -> Array:
    """x (R, n, r) with the mean 0 and covariance I of each replicate, and none with ζ."""
    w = weight / weight.sum(1, keepdims=True)
    known = np.ones((*w.shape, 1))
    if zeta is not None:
        known = np.concatenate([known, zeta], 2)
    weighted = (w[:, :, None] * known).swapaxes(1, 2)
    x = x - known @ np.linalg.solve(weighted @ known, weighted @ x)
    L = np.linalg.cholesky((w[:, :, None] * x).swapaxes(1, 2) @ x)
    return np.asarray(np.linalg.solve(L, x.swapaxes(1, 2)).swapaxes(1, 2))


def _told(problem: MatrixProblem, label: int, u: Array) -> Iterator[tuple[Array, Array]]:
    """Utilities (R, n, r) and weights (R, n) of a label, from uniform points (R, n, r)."""
    population, channel, k = problem.population, problem.population.label_channel, problem.n_classes
    assert channel is not None
    T, (replicates, n, r) = difference_basis(k), u.shape
    anywhere = ndtri(u) @ root(problem.utilities).T
    if channel.utility_variance is None:
        fields = anywhere.reshape(-1, r) @ T.T + population.offsets
        yield anywhere, channel.chances(fields)[:, label].reshape(replicates, n) / n
        return
    guess, A = channel.guess(k), T[label] - np.delete(T, label, 0)
    L = A @ root(problem.utilities)
    nodes = truncated_nodes(A @ (T.T @ population.offsets), L @ L.T, u)
    zeta = np.linalg.solve(A, nodes.points.T).T - T.T @ population.offsets
    yield zeta.reshape(u.shape), (1 - k * guess) * nodes.weight
    if guess > 0:
        yield anywhere, np.full((replicates, n), guess / n)


def averages(
    p: MatrixProblem,
    m: Array,
    Q: Array,
    V: Array,
    M: Array,
    loss: float,
    error: float,
    off: float = 0,
) -> MatrixAverages:
    """From means over each group, and the mean loss and mistakes of all."""
    shares = p.population.group_shares
    each = p.alpha * shares[:, None, None]
    hats = MatrixHats(each[:, 0] * m, each * Q, each * V, p.alpha * M)
    stiffness = np.einsum("c,cij->ij", shares, V)
    return MatrixAverages(hats, shares @ m, stiffness, float(loss), float(error), off)
