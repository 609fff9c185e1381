"""The fields side with matrices: what n = αd samples of a population tell a student.

    group c:   ω ~ N(m_c, Q_c),   f and −∂f of `matrix_prox`
    m̂_c = α p_c E f,   Q̂_c = α p_c E ffᵀ,   V̂_c = α p_c E(−∂f);   Σ_c p_c E f is 0 at the best b
    a teacher, y with chance Z_y(ω):   M̂ = α E Σ_y f_y ∂Z_yᵀ

Two and three classes: `matrix_graph`. More: replicates of quasi-random points, which are held in
the coordinates x of ω = m + Lx, LLᵀ = Q, while the law moves. For a teacher with utilities
ζ = z + noise ~ N(0, R'), R' = R + Δ, they are points of ζ where each label leads (all of them, with
its chance, where the noise is not Gaussian) and the rest x of ω = Bζ + Lx, B = ARR'⁻¹. By parts

    M̂ = α E f ζᵀR'⁻¹ + V̂B

A pull that is linear in ω (square loss, a mixture) needs 2r points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from polyceptron.model.checks import difference_basis
from polyceptron.model.law import Law
from polyceptron.model.losses import Loss
from polyceptron.model.populations import Population
from polyceptron.numerics import Array
from polyceptron.numerics.cones import truncated_nodes
from polyceptron.numerics.estimate import uniform_replicates
from polyceptron.theory.populations.matrix_prox import Labels, matrix_pull
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
    def R(self) -> Array:
        """Covariance of a teacher's fields on class differences (r, r)."""
        T = difference_basis(self.n_classes)
        return np.asarray(T.T @ self.population.field_covariance @ T)

    @property
    def utilities(self) -> Array:
        """R' (r, r): R with the Gaussian noise of labels."""
        channel = self.population.label_channel
        noise = 0.0 if channel is None else channel.utility_variance or 0.0
        return self.R + noise * np.eye(self.n_classes - 1)

    @property
    def sampled(self) -> bool:
        """Whether nodes are random."""
        return self.n_classes > 3


class Block(NamedTuple):
    """Nodes of one group: x (n, r), weights (n,), labels (n,), utilities ζ (n, r) of a teacher."""

    group: int
    x: Array
    weight: Array
    y: Labels
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


@dataclass
class MatrixFields:
    """Averages at fixed nodes; proximal points of the last call start the next."""

    problem: MatrixProblem
    blocks: list[Block]
    starts: list[Array | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.starts = [None] * len(self.blocks)

    @classmethod
    def drawn(
        cls, problem: MatrixProblem, log2: int, n_replicates: int, seed: int = _SEED
    ) -> list[MatrixFields]:
        """Quasi-random points: one for each replicate."""
        k, r = problem.n_classes, problem.n_classes - 1
        teacher = problem.population.label_channel is not None
        u = uniform_replicates(2 * r if teacher else r, log2, seed, n_replicates)
        labels = [np.full(u.shape[1], l) for l in range(k)]
        x, even = ndtri(u[..., :r]), np.full(u.shape[1], 1 / u.shape[1])
        if not teacher:
            drawn = ([Block(l, one, even, y, None) for l, y in enumerate(labels)] for one in x)
            return [cls(problem, blocks) for blocks in drawn]
        parts = [(y, *part) for l, y in enumerate(labels) for part in _told(problem, l, u[..., r:])]
        return [
            cls(problem, [Block(0, one, weight[i], y, zeta[i]) for y, zeta, weight in parts])
            for i, one in enumerate(x)
        ]

    @classmethod
    def exact(cls, problem: MatrixProblem) -> MatrixFields | None:
        """Points with the first two moments of x, all that a linear pull of a mixture needs."""
        k, r = problem.n_classes, problem.n_classes - 1
        averages = problem.loss.explicit_averages(Law(1.0, 1.0, 1.0), 1.0, 3)
        if averages is None or problem.population.label_channel is not None:
            return None
        x = math.sqrt(r) * np.concatenate([np.eye(r), -np.eye(r)])
        weight = np.full(2 * r, 0.5 / r)
        return cls(problem, [Block(c, x, weight, np.full(2 * r, c), None) for c in range(k)])

    @classmethod
    def joined(cls, parts: list[MatrixFields]) -> MatrixFields:
        """All replicates as one set of points."""
        blocks = []
        for same in zip(*(part.blocks for part in parts), strict=True):
            group, *rest = zip(*same, strict=True)
            x, w, y = (np.concatenate(one) for one in rest[:3])
            zeta = None if rest[3][0] is None else np.concatenate(rest[3])
            blocks.append(Block(group[0], x, w / len(parts), y, zeta))
        return cls(parts[0].problem, blocks)

    def __call__(self, law: FieldsOrder) -> MatrixAverages:
        """The averages at a law."""
        p, (G, r) = self.problem, law.m.shape
        T = difference_basis(r + 1)
        m, Q, V, M = (np.zeros(s) for s in ((G, r), (G, r, r), (G, r, r), (r, r)))
        sums = np.zeros((2, G))  # loss, mistakes
        roots, inverse, B = [root(one) for one in law.Q], np.linalg.pinv(p.utilities), law.A
        if self.blocks[0].zeta is not None:
            B = law.A @ p.R @ inverse
            roots = [root(law.Q[0] + law.A @ (p.R - p.R @ inverse @ p.R) @ law.A.T)]
        for i, (c, x, w, y, zeta) in enumerate(self.blocks):
            omega = law.m[c] + x @ roots[c].T
            if zeta is not None:
                omega = omega + zeta @ B.T
            pull = matrix_pull(p.loss, omega + law.b, y, law.V[c], p.weight[y], self.starts[i])
            self.starts[i], f = pull.point, pull.f
            m[c] += w @ f
            Q[c] += (w[:, None] * f).T @ f
            V[c] += (w @ pull.stiffness.reshape(len(w), -1)).reshape(r, r)
            if zeta is not None:
                M += (w[:, None] * f).T @ zeta @ inverse
            fields = pull.point @ T.T
            loss = p.loss.value_at_prox(fields, y)
            own = np.take_along_axis(fields, y[:, None], 1)[:, 0]
            np.put_along_axis(fields, y[:, None], -np.inf, 1)
            sums[:, c] += w @ loss, w @ (own < fields.max(1))
        mean, error = sums @ p.population.group_shares
        return averages(p, m, Q, V, M + V[0] @ B, mean, error, 0.0)


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
    p: MatrixProblem, m: Array, Q: Array, V: Array, M: Array, loss: float, error: float, off: float
) -> MatrixAverages:
    """From means over each group, and the mean loss and mistakes of all."""
    shares = p.population.group_shares
    each = p.alpha * shares[:, None, None]
    hats = MatrixHats(each[:, 0] * m, each * Q, each * V, p.alpha * M)
    stiffness = np.einsum("c,cij->ij", shares, V)
    return MatrixAverages(hats, shares @ m, stiffness, float(loss), float(error), off)
