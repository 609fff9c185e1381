"""The pull of two students on one sample, averaged: Q₁₂ → Q̂₁₂.

Two and three classes: what the students have in common, u ~ N(m, Q₁₂), and what is left, η, give

    Q̂₁₂ = αcp_c E Σ_y Z_y(u) F_y(u) F_y(u)ᵀ,     F_y(u) = E_η f̄_y(u + η),     Var η = Q − Q₁₂

in each group, f̄ the mean pull over weights of samples. On a grid the average over η is a product
with a Gaussian of wave numbers; u is on panels.

More classes: replicates of points of s = (ω₁ + ω₂)/2 and d = (ω₁ − ω₂)/2, which are independent,

    Q̂₁₂ = αcp_c E Σ_y Z_y(s) f̄_y(s + d) f̄_y(s − d)ᵀ,   Var s = (Q + Q₁₂)/2,  Var d = (Q − Q₁₂)/2

The factor c is the caller's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates, spline_filter

from polyceptron.numerics import Array
from polyceptron.sides.leading_nodes import panels_of_leaders
from polyceptron.sides.matrix.order import MatrixOrder, MatrixProblem, lower_root
from polyceptron.sides.matrix.points import Block, PointFields
from polyceptron.sides.matrix.proximal import matrix_pull
from polyceptron.sides.scores import FieldsDistribution
from polyceptron.theory.erm.population_numbers import fields_law

N_REPLICATES = 8
LOG2_POINTS = 9  # in a replicate, on level 0; four times as many on the next one


class GridAccuracy(NamedTuple):
    """How two and three classes are averaged.

    Attributes
    ----------
    order : int
        Nodes of a panel of u.
    cell : float
        Width of a grid's cells in standard deviations of the fields, where they vary by 1 or more.
    max_cells : int
        Along each axis.
    """

    order: int
    cell: float
    max_cells: int


# A coarse and a fine level; their difference is a part of the bar (test_resampling.py).
GRID_LEVELS = {
    2: (GridAccuracy(8, 0.1, 8001), GridAccuracy(12, 0.05, 8001)),
    3: (GridAccuracy(6, 0.7, 401), GridAccuracy(8, 0.4, 401)),
}
GRID_REACH = 8.5  # standard deviations of the fields
SPLINE_ORDER = 5
WRAPPED = "grid-wrap"
SMALLEST_SHARED_VARIANCE = 1e-12  # relative to the trace of Q: stands for 0

PairHats = Callable[[Array], Array]
"""Q₁₂ (of a teacher E₁₂) (G, r, r) → Q̂₁₂/c of each replicate (R, G, r, r)."""


def pair_hats(problem: MatrixProblem, order: MatrixOrder, level: int, labels: int) -> PairHats:
    """Return Q₁₂ (of a teacher E₁₂) → Q̂₁₂/c, from the first `labels` labels alone."""
    if problem.n_classes <= 3:
        return PairOnPanels(problem, order, GRID_LEVELS[problem.n_classes][level], labels)
    points = PointFields.drawn(problem, LOG2_POINTS + 2 * level, N_REPLICATES, 2)
    return PairAtPoints(problem, order, points, labels)


def _mean_pull(problem: MatrixProblem, V: Array, label: int, omega: Array) -> Array:
    """Return f̄ (n, r) at ω + b (n, r): E[w f] over the weights w of a sample."""
    y = np.full(len(omega), label)
    weight = np.full(len(omega), problem.class_weights[label])
    total = np.zeros_like(omega)
    for copies, chance in problem.copies:
        total = total + chance * matrix_pull(problem.loss, omega, y, V, copies * weight).f
    return total


class PullSpectrum(NamedTuple):
    """f̄ of one label on a grid of x, ω = m + Lx, as a sum of waves.

    The grid is continued by its mirror image, so that it has no edge.

    Attributes
    ----------
    inverse : array, shape (r, r)
        L⁻¹.
    line : array, shape (n,)
        The grid along each axis.
    waves : array, shape (r, 2n − 2, …)
        Fourier coefficients of f̄'s components.
    """

    inverse: Array
    line: Array
    waves: NDArray[np.complex128]

    def smoothed(self, covariance: Array) -> list[Array]:
        """Return splines of E_η f̄(x + L⁻¹η), one for each component, for Var η (r, r)."""
        r = len(self.inverse)
        numbers = 2 * np.pi * np.fft.fftfreq(self.waves.shape[1], self.line[1] - self.line[0])
        wave = np.stack(np.meshgrid(*[numbers] * r, indexing="ij"), -1)
        spread = self.inverse @ covariance @ self.inverse.T
        bell = np.exp(-0.5 * ((wave @ spread) * wave).sum(-1))
        smooth = np.fft.ifftn(self.waves * bell, axes=range(1, r + 1)).real
        filtered = partial(spline_filter, order=SPLINE_ORDER, mode=WRAPPED)
        return [np.asarray(filtered(component)) for component in smooth]

    def at(self, splines: list[Array], away: Array) -> Array:
        """Return the values (n, r) of splines at ω − m (n, r)."""
        x = np.clip(away @ self.inverse.T, -GRID_REACH, GRID_REACH)
        place = (x.T + GRID_REACH) / (self.line[1] - self.line[0])
        value = partial(
            map_coordinates, coordinates=place, order=SPLINE_ORDER, mode=WRAPPED, prefilter=False
        )
        values = [value(spline) for spline in splines]
        return np.stack(values, 1)


@dataclass
class PairOnPanels:
    """Q₁₂ → Q̂₁₂/c of two and three classes.

    Attributes
    ----------
    problem : MatrixProblem
    order : MatrixOrder
        Of one student.
    accuracy : GridAccuracy
    labels : int
        How many labels count.
    spectra : dict
        f̄ by group and label, as far as it was needed.
    """

    problem: MatrixProblem
    order: MatrixOrder
    accuracy: GridAccuracy
    labels: int
    spectra: dict[tuple[int, int], PullSpectrum] = field(default_factory=dict)

    @cached_property
    def law(self) -> FieldsDistribution:
        """The law of one student's fields."""
        return fields_law(self.problem, self.order)

    def __call__(self, E12: Array) -> Array:
        """Return Q̂₁₂/c (1, G, r, r)."""
        hats = np.zeros((1, *self.order.Q.shape))
        remaining = self.order.Q - E12
        splines: dict[tuple[int, int], list[Array]] = {}
        for nodes in panels_of_leaders(self._shared_law(remaining), self.accuracy.order):
            group = 0
            if not self.problem.has_teacher:
                group = int(nodes.truth[0].argmax())
            away = nodes.fields @ self.problem.basis - self.order.m[group] - self.order.b
            seen = np.flatnonzero(nodes.truth.any(0)).tolist()
            for label in seen[: self.labels]:
                key = (group, label)
                spectrum = self._spectrum(group, label)
                if key not in splines:
                    splines[key] = spectrum.smoothed(remaining[group])
                F = spectrum.at(splines[key], away)
                weighted = nodes.weight * nodes.truth[:, label] * F.T
                hats[0, group] += self.problem.alpha * weighted @ F
        return hats

    def _shared_law(self, remaining: Array) -> FieldsDistribution:
        """Return the law of u, what two students have in common."""
        Q = self.law.Q
        least = SMALLEST_SHARED_VARIANCE * np.trace(Q[0]) * np.eye(Q.shape[-1])
        return replace(self.law, Q=Q - remaining + least)

    def _spectrum(self, group: int, label: int) -> PullSpectrum:
        """Return f̄ of a label in a group, made once."""
        if (group, label) not in self.spectra:
            self.spectra[group, label] = self._made_spectrum(group, label)
        return self.spectra[group, label]

    def _made_spectrum(self, group: int, label: int) -> PullSpectrum:
        """Compute f̄ on the grid, and its waves."""
        r = self.problem.n_classes - 1
        L = lower_root(self.law.Q[group])
        cell = self.accuracy.cell
        if self.problem.loss.coordinates.jumps:
            cell = cell / 2
        largest = max(float(np.linalg.norm(L, 2)), 1.0)
        n = min(math.ceil(2 * GRID_REACH * largest / cell), self.accuracy.max_cells)
        line = np.linspace(-GRID_REACH, GRID_REACH, n)
        x = np.stack(np.meshgrid(*[line] * r, indexing="ij"), -1)
        omega = self.order.m[group] + self.order.b + x.reshape(-1, r) @ L.T
        f = _mean_pull(self.problem, self.order.V[group], label, omega)
        on_grid = f.T.reshape(r, *x.shape[:-1])
        mirrored = np.pad(on_grid, [(0, 0), *[(0, n - 2)] * r], mode="reflect")
        waves = np.fft.fftn(mirrored, axes=range(1, r + 1))
        return PullSpectrum(np.asarray(np.linalg.inv(L)), line, waves)


@dataclass
class PairAtPoints:
    """Q₁₂ → Q̂₁₂/c of more classes, at points of two students.

    Attributes
    ----------
    problem : MatrixProblem
    order : MatrixOrder
        Of one student.
    points : PointFields
        With the coordinates x of both.
    labels : int
        How many labels count.
    """

    problem: MatrixProblem
    order: MatrixOrder
    points: PointFields
    labels: int

    def __call__(self, E12: Array) -> Array:
        """Return Q̂₁₂/c (R, G, r, r)."""
        order = self.order
        hats = np.zeros((N_REPLICATES, *order.Q.shape))
        differences = _symmetric_root((order.Q - E12) / 2)
        follows, hidden = self._teacher_part()
        means = [lower_root(Q + hidden) for Q in (order.Q + E12) / 2]
        r = order.m.shape[1]
        for block in self.points.blocks:
            c = block.group
            s = order.m[c] + order.b + block.x[..., :r] @ means[c].T
            if block.utilities is not None:
                s = s + block.utilities @ follows.T
            d = block.x[..., r:] @ differences[c].T
            for label in np.unique(block.labels[block.labels < self.labels]).tolist():
                hats[:, c] += self._of_label(block, label, s, d)
        return hats

    def _teacher_part(self) -> tuple[Array, Array]:
        """Return B of s = Bζ + …, and what is left of the teacher's part in Var s, (r, r)."""
        R = self.problem.R
        A = self.order.A
        if not self.problem.has_teacher:
            return A, 0 * A
        known = R @ np.linalg.pinv(self.problem.utility_covariance)
        return A @ known, A @ (R - known @ R) @ A.T

    def _of_label(self, block: Block, label: int, s: Array, d: Array) -> Array:
        """Return a label's part (R, r, r), at s and d (R, n, r) of a block."""
        problem = self.problem
        c = block.group
        own = block.labels == label
        shape = s[:, own].shape
        V = self.order.V[c]
        first = (s[:, own] + d[:, own]).reshape(-1, shape[-1])
        second = (s[:, own] - d[:, own]).reshape(-1, shape[-1])
        share = problem.population.group_shares[c]
        weighted = (
            share * block.weight[:, own, None] * _mean_pull(problem, V, label, first).reshape(shape)
        )
        product = weighted.swapaxes(1, 2) @ _mean_pull(problem, V, label, second).reshape(shape)
        return np.asarray(problem.alpha * (product + product.swapaxes(1, 2)) / 2)


def _symmetric_root(covariance: Array) -> Array:
    """Return the symmetric roots of covariances (G, r, r).

    They move with Q₁₂, while eigenvectors of nearly equal eigenvalues turn at random.
    """
    values, vectors = np.linalg.eigh(covariance)
    roots = np.sqrt(np.maximum(values, 0.0))
    return np.asarray(vectors * roots[:, None, :] @ vectors.swapaxes(1, 2))
