"""The fields side with matrices by random points: four classes and more, and kinks of three.

    group c:   ω ~ N(m_c, Q_c)
    m̂_c = α p_c E f,   Q̂_c = α p_c E ffᵀ,   V̂_c = α p_c E(−∂f);   Σ_c p_c E f is 0 at the best b
    a teacher, y with chance Z_y(ω):   M̂ = α E Σ_y f_y ∂Z_yᵀ

Replicates of quasi-random points are held in the coordinates x of ω = m + Lx, LLᵀ = Q, while the
law moves. For a teacher with utilities ζ = z + noise ~ N(0, R'), R' = R + Δ, they are points of ζ
where each label leads (all of them, with its chance, where the noise is not Gaussian) and the
remaining x of ω = Bζ + Lx, B = ARR'⁻¹. Integrating by parts,

    V̂ = −α p_c E f xᵀ L⁻¹,     M̂ = α E f ζᵀR'⁻¹ + V̂B

needs no derivative of f, and has less noise than the mean of −∂f where the points have the moments
of x: first and second moments of the pulls at the points are then the slopes of one function, their
mean Moreau envelope.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from scipy.special import ndtri

from polyceptron.checks import class_gaps, difference_basis
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import uniform_replicates
from polyceptron.numerics.orthant_nodes import truncated_nodes
from polyceptron.sides.matrix.order import (
    Labels,
    MatrixAverages,
    MatrixOrder,
    MatrixProblem,
    conjugates_of_means,
    lower_root,
)
from polyceptron.sides.matrix.proximal import MatrixPull, matrix_pull

POINTS_SEED = 31
# Last step of a proximal point relative to the fields. What is left of the way is far less, as
# rounds converge fast: test_populations.py compares averages with those of exact points.
POINT_ACCURACY = 1e-6
# Points in a block of a teacher's labels: bounds memory, and keeps arrays in the cache.
N_POINTS_AT_ONCE = 16_384


class Block(NamedTuple):
    """Nodes of one group, in R replicates of n points.

    Attributes
    ----------
    group : int
    labels : array of int, shape (n,)
    x : array, shape (R, n, r)
    weight : array, shape (R, n)
    utilities : array, shape (R, n, r), or None
        ζ of a teacher, None for a mixture.
    """

    group: int
    labels: Labels
    x: Array
    weight: Array
    utilities: Array | None

    def replicate(self, i: int) -> Block:
        """Return the nodes of one replicate."""
        utilities = self.utilities
        if utilities is not None:
            utilities = utilities[[i]]
        return self._replace(x=self.x[[i]], weight=self.weight[[i]], utilities=utilities)


class PointFields:
    """Averages at fixed points; the proximal points of the last call start the next ones.

    Attributes
    ----------
    problem : MatrixProblem
    blocks : list of Block
    last_points : list of array, shape (R n, r), or None
        Proximal points of the last call, for each block and number of copies in turn.
    """

    def __init__(self, problem: MatrixProblem, blocks: list[Block]) -> None:
        self.problem = problem
        self.blocks = blocks
        self.last_points: list[Array | None] = [None] * (len(blocks) * len(problem.copies))

    @classmethod
    def drawn(cls, problem: MatrixProblem, log2: int, replicates: int, students: int = 1) -> Self:
        """Return quasi-random points, 2^log2 of each label in a replicate.

        `x` has the coordinates of one student or of two.
        """
        k = problem.n_classes
        n_own = students * (k - 1)
        n_teacher = 0
        if problem.has_teacher:
            n_teacher = k - 1
        u = uniform_replicates(n_own + n_teacher, log2, POINTS_SEED, replicates)
        x = ndtri(u[..., :n_own])
        if problem.has_teacher:
            return cls(problem, _blocks_of_teacher(problem, x, u[..., n_own:]))
        even = np.full(u.shape[:2], 1 / u.shape[1])
        white = whitened(x, even)
        label = np.zeros(x.shape[1], dtype=np.int64)
        return cls(problem, [Block(c, label + c, white, even, None) for c in range(k)])

    def replicate(self, i: int) -> PointFields:
        """Return the averages at the points of one replicate."""
        return PointFields(self.problem, [block.replicate(i) for block in self.blocks])

    def __call__(self, order: MatrixOrder) -> MatrixAverages:
        """Return the averages at a law."""
        return self.replicated(order)[0]

    def replicated(self, order: MatrixOrder) -> list[MatrixAverages]:
        """Return the averages at a law over all points, then over each replicate."""
        sums = ReplicateSums.empty(order, len(self.blocks[0].x))
        spread = self._spread(order)
        i = 0
        for block in self.blocks:
            omega = spread.fields(block)
            y = np.tile(block.labels, len(block.x))
            for copies, chance in self.problem.copies:
                pull = matrix_pull(
                    self.problem.loss,
                    omega.reshape(-1, omega.shape[-1]),
                    y,
                    order.V[block.group],
                    copies * self.problem.class_weights[y],
                    self.last_points[i],
                    POINT_ACCURACY,
                )
                self.last_points[i] = pull.point
                sums.add(self.problem, block, chance, pull, spread)
                i += 1
        return sums.averages(self.problem, spread.follows)

    def _spread(self, order: MatrixOrder) -> Spread:
        """Return how the fields of each group come from the coordinates of the points."""
        shift = order.m + order.b
        if not self.problem.has_teacher:
            roots = [lower_root(Q) for Q in order.Q]
            return Spread(shift, roots, order.A, None)
        R = self.problem.R
        inverse = np.asarray(np.linalg.pinv(self.problem.utility_covariance))
        hidden = R - R @ inverse @ R  # Var(z | ζ)
        Q_given_utilities = order.Q[0] + order.A @ hidden @ order.A.T
        return Spread(shift, [lower_root(Q_given_utilities)], order.A @ R @ inverse, inverse)


class Spread(NamedTuple):
    """ω + b = shift + Bζ + Lx in each group.

    Attributes
    ----------
    shift : array, shape (G, r)
    roots : list of array, shape (r, r)
        L of each group.
    follows : array, shape (r, r)
        B; 0 for a mixture.
    inverse_utility_covariance : array, shape (r, r), or None
        R'⁻¹ of a teacher.
    """

    shift: Array
    roots: list[Array]
    follows: Array
    inverse_utility_covariance: Array | None

    def fields(self, block: Block) -> Array:
        """Return ω + b (R, n, r) at the points of a block."""
        omega = self.shift[block.group] + block.x @ self.roots[block.group].T
        if block.utilities is not None:
            omega = omega + block.utilities @ self.follows.T
        return np.asarray(omega)


@dataclass
class ReplicateSums:
    """Sums over points, for each of R replicates.

    Attributes
    ----------
    f : array, shape (R, G, r)
    ff, stiffness : array, shape (R, G, r, r)
    f_utilities : array, shape (R, r, r)
        E f ζᵀR'⁻¹.
    loss, mistakes : array, shape (R, G)
    """

    f: Array
    ff: Array
    stiffness: Array
    f_utilities: Array
    loss: Array = field(init=False)
    mistakes: Array = field(init=False)

    def __post_init__(self) -> None:
        self.loss = np.zeros(self.f.shape[:2])
        self.mistakes = np.zeros(self.f.shape[:2])

    @classmethod
    def empty(cls, order: MatrixOrder, replicates: int) -> Self:
        """Return sums over no points."""
        G, r = order.m.shape
        matrices = (replicates, G, r, r)
        return cls(
            np.zeros((replicates, G, r)),
            np.zeros(matrices),
            np.zeros(matrices),
            np.zeros((replicates, r, r)),
        )

    def add(
        self, problem: MatrixProblem, block: Block, chance: float, pull: MatrixPull, spread: Spread
    ) -> None:
        """Add the points of a block, whose samples have these pulls with a chance."""
        c = block.group
        w = chance * block.weight
        f = pull.f.reshape(*w.shape, -1)
        weighted = w[:, :, None] * f
        across = weighted.swapaxes(1, 2)
        self.f[:, c] += weighted.sum(1)
        self.ff[:, c] += across @ f
        self.stiffness[:, c] -= across @ block.x @ np.linalg.inv(spread.roots[c])
        inverse = spread.inverse_utility_covariance
        if block.utilities is not None and inverse is not None:
            self.f_utilities += across @ block.utilities @ inverse
        fields = pull.point @ problem.basis.T
        y = np.tile(block.labels, len(w))
        loss = problem.loss.value_at_prox(fields, y).reshape(w.shape)
        wrong = (fields.argmax(1) != y).reshape(w.shape)
        self.loss[:, c] += (w * loss).sum(1)
        self.mistakes[:, c] += (w * wrong).sum(1)

    def averages(self, problem: MatrixProblem, follows: Array) -> list[MatrixAverages]:
        """Return the averages over all points, then over each replicate."""
        stiffness = (self.stiffness + self.stiffness.swapaxes(2, 3)) / 2
        cross = self.f_utilities + stiffness[:, 0] @ follows
        shares = problem.population.group_shares
        by_replicate = (
            self.f,
            self.ff,
            stiffness,
            cross,
            self.loss @ shares,
            self.mistakes @ shares,
        )
        over_all = [values.mean(0) for values in by_replicate]
        sets = [over_all, *zip(*by_replicate, strict=True)]
        return [
            MatrixAverages(conjugates_of_means(problem, *means), float(loss), float(error))
            for *means, loss, error in sets
        ]


def whitened(x: Array, weight: Array, utilities: Array | None = None) -> Array:
    """Return x (R, n, s) with mean 0, covariance I and no correlation with ζ in each replicate."""
    w = weight / weight.sum(1, keepdims=True)
    known = np.ones((*w.shape, 1))
    if utilities is not None:
        known = np.concatenate([known, utilities], 2)
    weighted = (w[:, :, None] * known).swapaxes(1, 2)
    x = x - known @ np.linalg.solve(weighted @ known, weighted @ x)
    L = np.linalg.cholesky((w[:, :, None] * x).swapaxes(1, 2) @ x)
    return np.asarray(np.linalg.solve(L, x.swapaxes(1, 2)).swapaxes(1, 2))


class LabelledPoints(NamedTuple):
    """Utilities ζ (R, n, r) of samples with one label, and weights (R, n) of its probability."""

    label: int
    utilities: Array
    weight: Array


def _blocks_of_teacher(problem: MatrixProblem, x: Array, u: Array) -> list[Block]:
    """Return blocks of a few labels each, from normal x (R, n, s) and uniform u (R, n, r)."""
    labelled = [
        points for label in range(problem.n_classes) for points in _points_of(problem, label, u)
    ]
    n_labels_at_once = max(N_POINTS_AT_ONCE // (u.shape[0] * u.shape[1]), 1)
    return [
        _joined(labelled[i : i + n_labels_at_once], x)
        for i in range(0, len(labelled), n_labels_at_once)
    ]


def _joined(labelled: Sequence[LabelledPoints], x: Array) -> Block:
    """Return the points of several labels as one block, with x (R, n, s) whitened for each."""
    white = [whitened(x, points.weight, points.utilities) for points in labelled]
    return Block(
        0,
        np.repeat([points.label for points in labelled], x.shape[1]),
        np.concatenate(white, 1),
        np.concatenate([points.weight for points in labelled], 1),
        np.concatenate([points.utilities for points in labelled], 1),
    )


def _points_of(problem: MatrixProblem, label: int, u: Array) -> Iterator[LabelledPoints]:
    """Yield points of a label from uniform ones u (R, n, r): led by it, and guessed.

    Where the noise is not Gaussian they are all points, with the chance of the label.
    """
    channel = problem.population.label_channel
    assert channel is not None
    T = difference_basis(problem.n_classes)
    offsets = problem.population.offsets
    replicates, n, r = u.shape
    anywhere = ndtri(u) @ lower_root(problem.utility_covariance).T
    if channel.utility_variance is None:
        fields = anywhere.reshape(-1, r) @ T.T + offsets
        chances = channel.chances(fields)[:, label].reshape(replicates, n)
        yield LabelledPoints(label, anywhere, chances / n)
        return
    guess = channel.guess(problem.n_classes)
    A = class_gaps(problem.n_classes, label)
    L = A @ lower_root(problem.utility_covariance)
    nodes = truncated_nodes(A @ (T.T @ offsets), L @ L.T, u)
    utilities = np.linalg.solve(A, nodes.points.T).T - T.T @ offsets
    share_led = 1 - problem.n_classes * guess
    yield LabelledPoints(label, utilities.reshape(u.shape), share_led * nodes.weight)
    if guess > 0:
        yield LabelledPoints(label, anywhere, np.full((replicates, n), guess / n))
