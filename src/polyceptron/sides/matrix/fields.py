"""The fields side with matrices: what n = αd samples of a population tell a student.

The proximal map of a loss in the metric of V, with class weights c_y, on class differences:

    h = argmin (h − ω)ᵀV⁻¹(h − ω)/2 + c ℓ(T(h + b), y),     f = V⁻¹(h − ω) = −c Tᵀ∇ℓ
    −∂f = (V + (cH)⁻¹)⁻¹ = (I + cHV)⁻¹ cH,                   H = Tᵀ∇²ℓ T

A smooth loss: u ← u − (I + cVH)⁻¹(u − ω − b − Vf), for all samples at once, with a V near by that
is diagonal in the classes, where a loss has the inverse; Newton's method where that does not
arrive. A loss with kinks: its own proximal map at the least eigenvalue v of V, alternating with
steps along V⁻¹(h − ω) (accelerated proximal gradient).

    group c:   ω ~ N(m_c, Q_c)
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
mean Moreau envelope. A pull that is linear in ω has a law in closed form (`linear_pull`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from polyceptron.checks import class_gaps, difference_basis
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import uniform_replicates
from polyceptron.numerics.orthant_nodes import truncated_nodes
from polyceptron.problem.losses import Loss
from polyceptron.problem.populations import Population
from polyceptron.problem.specs import ERM, Probabilities

Labels = NDArray[np.int64]
_SEED = 31
_NEAR = 1e-6  # of the last step, relative to the fields, at points: what is left is less
_QUICK, _NEWTON = 12, 100  # rounds without matrices, and with them
_ALIKE = 2.0  # ratio of eigenvalues of two V, up to which one shows the way for the other
_FINE, _MOST = (1e-10, 1e-7), 3000  # of a proximal gradient's steps: the same, and how many
_PUSHES = 1e-7  # a force that is not rounding
_AT_ONCE = 16_384  # points of a teacher's labels


class MatrixOrder(NamedTuple):
    """m (G, r), Q (G, r, r), V (G, r, r), b (r,); of a teacher A (r, r), and Q holds E."""

    m: Array
    Q: Array
    V: Array
    b: Array
    A: Array


class MatrixConjugates(NamedTuple):
    """m̂ (G, r), Q̂ (G, r, r), V̂ (G, r, r), and M̂ (r, r) of a teacher (else 0)."""

    m: Array
    Q: Array
    V: Array
    M: Array


@dataclass(frozen=True)
class MatrixProblem:
    """A population, and a risk: loss, class weights (k,), ridge, intercept or not.

    Samples have random weights of their own, `copies` with chances; of weight 0 is the rest.
    """

    population: Population
    loss: Loss
    weight: Array
    ridge: float
    alpha: float
    intercept: bool
    copies: tuple[tuple[float, float], ...] = ((1.0, 1.0),)

    @property
    def n_classes(self) -> int:
        """k."""
        return self.population.n_classes

    @property
    def basis(self) -> Array:
        """T (k, r)."""
        return difference_basis(self.n_classes)

    @property
    def taught(self) -> bool:
        """Whether labels are a teacher's."""
        return self.population.label_channel is not None

    @cached_property
    def R(self) -> Array:
        """Covariance of a teacher's fields on class differences (r, r)."""
        return np.asarray(self.basis.T @ self.population.field_covariance @ self.basis)

    @cached_property
    def utilities(self) -> Array:
        """R' (r, r): R with the Gaussian noise of labels."""
        channel = self.population.label_channel
        noise = 0.0 if channel is None else channel.utility_variance or 0.0
        return self.R + noise * np.eye(self.n_classes - 1)

    @property
    def probabilities(self) -> Probabilities | None:
        """Fields → class probabilities, where the loss stands for some."""
        return ERM(self.loss).probabilities(self.population, None)

    @property
    def sampled(self) -> bool:
        """Whether nodes are random: kinks are met by `matrix_graph` where each has a coordinate."""
        tied = self.loss.margin_atom is not None and self.n_classes > 2
        return self.n_classes > 3 or tied


class MatrixPull(NamedTuple):
    """u = h + b (n, r) and f (n, r)."""

    point: Array
    f: Array


def matrix_pull(
    loss: Loss,
    omega: Array,
    y: Labels,
    V: Array,
    weight: Array,
    start: Array | None = None,
    close: float = 1e-8,
) -> MatrixPull:
    """At ω + b (n, r), y (n,), V (r, r), class weights (n,), until steps are `close` to nothing.

    `start` (n, r) are the points of a law near by.
    """
    if loss.coordinates.jumps:
        return _kinked_pull(loss, omega, y, V, weight, start)
    n, r = omega.shape
    T, metric = difference_basis(r + 1), np.linalg.inv(V)
    if r == 1:  # V is a number, as the loss's own map knows it
        f = weight[:, None] * (loss.denoise(omega @ T.T, y, weight * V[0, 0])[0] @ T)
        return MatrixPull(omega + f * V[0, 0], f)

    def energy(u: Array, rows: Any) -> Array:
        away = u - omega[rows]
        value = weight[rows] * loss.value(u @ T.T, y[rows])
        return np.asarray(0.5 * ((away @ metric) * away).sum(1) + value)

    if start is None:
        f = loss.denoise(omega @ T.T, y, weight * (np.trace(V) / r), **loss.rough)[0] @ T
        start = omega + weight[:, None] * f @ V
    u, left, like = start.copy(), np.arange(n), _like(V)  # those that have not arrived
    for number in range(_QUICK + _NEWTON):
        rows: Any = left if len(left) < n else slice(None)
        here, own, cost = (start if number == _QUICK else u)[rows], y[rows], weight[rows, None]
        gradient = loss.gradient(here @ T.T, own)
        slope = here - omega[rows] + cost * (gradient @ T) @ V
        if loss.relaxed is not None and like is not None and number < _QUICK:
            step = loss.relaxed(gradient, own, cost * like, slope @ T.T) @ T
        else:  # Newton's, halved where it raises the energy
            A = np.eye(r) + V @ (cost[:, :, None] * curvature(loss, here @ T.T, own))
            step = np.linalg.solve(A, slope[:, :, None])[:, :, 0]
            before = energy(here, rows)
            for _ in range(50):
                poor = ~(energy(here - step, rows) <= before + 1e-12 * (1 + np.abs(before)))
                if not poor.any():
                    break
                step[poor] /= 2
        u[rows] = here - step
        long_step, size = (reduce(np.maximum, np.abs(each).T) for each in (step, u[rows]))
        left = left[~(long_step <= close * (1 + size))]
        if not len(left):
            break
    return MatrixPull(u, -weight[:, None] * (loss.gradient(u @ T.T, y) @ T))


def _like(V: Array) -> Array | None:
    """v (k,) with Tᵀdiag(v)T near V (r, r), where there is one."""
    k, T = len(V) + 1, difference_basis(len(V) + 1)
    v = (np.diag(T @ V @ T.T) - np.trace(V) / (k * (k - 1))) / (1 - 2 / k)
    ratio = np.linalg.eigvals(np.linalg.solve((T.T * np.maximum(v, 1e-9 * v.max())) @ T, V)).real
    fits = v.min() > 0 and ratio.max() < _ALIKE * ratio.min()
    return v * (ratio.min() + ratio.max()) / 2 if fits else None


def curvature(loss: Loss, fields: Array, y: Labels) -> Array:
    """Tᵀ∇²ℓ T (n, r, r) at fields (n, k), as two products of large matrices."""
    T = difference_basis(fields.shape[1])
    right = loss.hessian(fields, y).reshape(-1, len(T)) @ T
    half = right.reshape(-1, *T.shape).swapaxes(1, 2).reshape(-1, len(T)) @ T
    return np.asarray(half.reshape(-1, T.shape[1], T.shape[1]))


def matrix_stiffness(
    loss: Loss, omega: Array, y: Labels, V: Array, weight: Array, pull: MatrixPull
) -> Array:
    """−∂f (n, r, r) of a smooth loss or of hard margins; of any loss for two classes."""
    r = omega.shape[1]
    T = difference_basis(r + 1)
    if r == 1:
        trace = loss.denoise(omega @ T.T, y, weight * V[0, 0])[1]
        return np.asarray((weight * trace)[:, None, None])
    if not loss.scale_free:
        H = weight[:, None, None] * curvature(loss, pull.point @ T.T, y)
        D = np.linalg.solve(np.eye(r) + H @ V, H)
        return np.asarray((D + D.swapaxes(1, 2)) / 2)
    D = np.zeros((len(omega), r, r))
    for label in np.unique(y):  # f = Aᵀν, with (AVAᵀ)⁻¹ on the constraints that push
        rows, A = y == label, class_gaps(r + 1, int(label))
        pushes = pull.f[rows] @ np.linalg.inv(A) > _PUSHES
        both = pushes[:, :, None] & pushes[:, None, :]
        inner = np.linalg.inv(np.where(both, A @ V @ A.T, np.eye(r)))
        D[rows] = A.T @ np.where(both, inner, 0.0) @ A
    return D


def _kinked_pull(
    loss: Loss, omega: Array, y: Labels, V: Array, weight: Array, start: Array | None
) -> MatrixPull:
    """h ← prox of vcℓ at h − vV⁻¹(h − ω), with momentum."""
    T, metric = difference_basis(omega.shape[1] + 1), np.linalg.inv(V)
    values = np.linalg.eigvalsh(V)
    v, ratio = float(values[0]), math.sqrt(float(values[0] / values[-1]))
    momentum = (1 - ratio) / (1 + ratio)
    u = ahead = omega if start is None else start
    close = _FINE[start is not None]
    for _ in range(_MOST):
        at = ahead - v * ((ahead - omega) @ metric)
        new = loss.prox(at @ T.T, y, v * weight) @ T
        step = new - u
        u, ahead = new, new + momentum * step
        if np.abs(step).max() <= close * (1 + np.abs(u).max()):
            break
    return MatrixPull(u, (u - omega) @ metric)


class Block(NamedTuple):
    """Nodes: labels (n,), x, a teacher's utilities ζ (R, n, r), weights (R, n), R times shares."""

    group: int
    labels: Labels
    x: Array
    weight: Array
    zeta: Array | None


class MatrixAverages(NamedTuple):
    """Conjugates, training samples' loss and error, and what nodes' weights miss of 1 at worst."""

    hats: MatrixConjugates
    loss: float
    error: float
    missed: float = 0.0

    @classmethod
    def of(cls, p: MatrixProblem, *means: Any) -> MatrixAverages:
        """From means of f, ffᵀ, −∂f over each group and of f∂Zᵀ, then the other fields."""
        m, Q, V, M, *rest = means
        each = p.alpha * p.population.group_shares[:, None, None]
        hats = MatrixConjugates(each[:, 0] * m, each * Q, each * V, p.alpha * M)
        return cls(hats, *map(float, rest))


def root(Q: Array) -> Array:
    """L with LLᵀ = Q (r, r), lower triangular."""
    if len(Q) == 1:
        return np.sqrt(Q)
    return np.asarray(np.linalg.cholesky(Q + 1e-15 * np.trace(Q) * np.eye(len(Q))))


def given_fields(problem: MatrixProblem, law: MatrixOrder) -> tuple[Array, Array, Array]:
    """Var ω = ARAᵀ + E, and z | ω: slope (r, r) of its mean, and covariance."""
    R, A, E = problem.R, law.A, law.Q[0]
    Q = A @ R @ A.T + E
    slope = R @ A.T @ np.linalg.inv(Q)
    C = np.linalg.solve(np.eye(len(R)) + R @ A.T @ np.linalg.solve(E, A), R)
    return Q, slope, (C + C.T) / 2


class MatrixFields:
    """Averages at fixed nodes; proximal points of the last call start the next."""

    def __init__(self, problem: MatrixProblem, blocks: list[Block]) -> None:
        self.problem, self.blocks = problem, blocks
        self.near: list[Any] = [None for _ in blocks for _ in problem.copies]

    @classmethod
    def drawn(
        cls, problem: MatrixProblem, log2: int, replicates: int, students: int = 1
    ) -> MatrixFields:
        """Quasi-random points, 2^log2 of each label in a replicate; x of one student or two."""
        k, r = problem.n_classes, students * (problem.n_classes - 1)
        u = uniform_replicates(r + (k - 1) * problem.taught, log2, _SEED, replicates)
        x, even = ndtri(u[..., :r]), np.full(u.shape[:2], 1 / u.shape[1])
        if not problem.taught:
            white = _white(x, even)
            label = np.zeros(x.shape[1], dtype=np.int64)
            return cls(problem, [Block(l, label + l, white, even, None) for l in range(k)])
        told = [(l, *each) for l in range(k) for each in _told(problem, l, u[..., r:])]
        size, blocks = max(_AT_ONCE // even.size, 1), []
        for i in range(0, len(told), size):
            labels, zeta, w = zip(*told[i : i + size], strict=True)
            own = [_white(x, *each) for each in zip(w, zeta, strict=True)]
            parts = (np.concatenate(each, 1) for each in (own, w, zeta))
            blocks.append(Block(0, np.repeat(labels, x.shape[1]), *parts))
        return cls(problem, blocks)

    def replicate(self, i: int) -> MatrixFields:
        """The same at the nodes of one replicate."""
        cut: Any = [[a if a is None else a[[i]] for a in block[2:]] for block in self.blocks]
        own = [Block(*b[:2], *c) for b, c in zip(self.blocks, cut, strict=True)]
        return MatrixFields(self.problem, own)

    def __call__(self, law: MatrixOrder) -> MatrixAverages:
        """The averages at a law."""
        return self.replicated(law)[0]

    def replicated(self, law: MatrixOrder) -> list[MatrixAverages]:
        """The averages at a law over all points, then over each replicate."""
        p, (G, r), R = self.problem, law.m.shape, len(self.blocks[0].x)
        T = difference_basis(r + 1)
        m, Q, V, M = (np.zeros((R, *s)) for s in ((G, r), (G, r, r), (G, r, r), (r, r)))
        sums = np.zeros((R, 2, G))  # loss, mistakes
        roots, inverse, B = [root(one) for one in law.Q], np.linalg.pinv(p.utilities), law.A
        if self.blocks[0].zeta is not None:
            B = law.A @ p.R @ inverse
            roots = [root(law.Q[0] + law.A @ (p.R - p.R @ inverse @ p.R) @ law.A.T)]
        every = [(block, *copy) for block in self.blocks for copy in p.copies]
        for i, ((c, labels, x, w, zeta), copies, chance) in enumerate(every):
            w = chance * w
            omega = law.m[c] + law.b + x @ roots[c].T
            if zeta is not None:
                omega = omega + zeta @ B.T
            y = np.tile(labels, len(w))
            cost = copies * p.weight[y]
            at = omega.reshape(-1, r), y, law.V[c], cost, self.near[i], _NEAR
            pull = matrix_pull(p.loss, *at)
            self.near[i] = pull.point
            weighted = w[:, :, None] * pull.f.reshape(x.shape)
            m[:, c] += weighted.sum(1)
            Q[:, c] += weighted.swapaxes(1, 2) @ pull.f.reshape(x.shape)
            V[:, c] -= weighted.swapaxes(1, 2) @ x @ np.linalg.inv(roots[c])
            if zeta is not None:
                M += weighted.swapaxes(1, 2) @ zeta @ inverse
            fields = pull.point @ T.T
            loss = p.loss.value_at_prox(fields, y).reshape(w.shape)
            wrong = (fields.argmax(1) != y).reshape(w.shape)
            sums[:, :, c] += np.stack([(w * loss).sum(1), (w * wrong).sum(1)], 1)
        V = (V + V.swapaxes(2, 3)) / 2
        parts: Any = m, Q, V, M + V[:, 0] @ B, *(sums @ p.population.group_shares).T
        means: list[Any] = [[each.mean(0) for each in parts], *zip(*parts, strict=True)]
        return [MatrixAverages.of(p, *one) for one in means]


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
    guess, A = channel.guess(k), class_gaps(k, label)
    L = A @ root(problem.utilities)
    nodes = truncated_nodes(A @ (T.T @ population.offsets), L @ L.T, u)
    zeta = np.linalg.solve(A, nodes.points.T).T - T.T @ population.offsets
    yield zeta.reshape(u.shape), (1 - k * guess) * nodes.weight
    if guess > 0:
        yield anywhere, np.full((replicates, n), guess / n)
