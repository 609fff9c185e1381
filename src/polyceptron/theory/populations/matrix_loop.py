"""The loop between the two sides with matrices, accelerated (Anderson).

The unknowns are logarithms of the positive matrices (Q, or E of a teacher, and V), m and A in units
of the fields' size σ, b in units of 1 + σ: every mixture of iterates is a law. One round is

    law → hats (fields side) → law (weights side),    b → b + (−E∂f)⁻¹ E f     (a Newton step)

and Anderson's method takes the combination of the last rounds whose residuals combine to least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from polyceptron.model.checks import difference_basis
from polyceptron.numerics import Array
from polyceptron.theory.populations.matrix_fields import MatrixAverages, MatrixProblem
from polyceptron.theory.populations.matrix_weights import FieldsOrder, weights_side

_DEPTH = 12
_LONGEST = 2.0  # of an unknown in a round
_DAMPED = 0.3  # of a step with covariances in full, whose plain rounds swing up
_WORSE = 2.0  # a residual is, where a combination of rounds has failed
_PLAIN = 8  # rounds of many unknowns without memory, from a start that is far off
_LEFT = 0.1  # of a group outside the nodes

Fields = Callable[[FieldsOrder], MatrixAverages]


def _log(S: Array) -> Array:
    values, vectors = np.linalg.eigh(S)
    values = np.log(np.maximum(values, 1e-300))
    return np.asarray((vectors * values[..., None, :]) @ vectors.swapaxes(-1, -2))


def _exp(X: Array) -> Array:
    values, vectors = np.linalg.eigh(X)
    return np.asarray((vectors * np.exp(values)[..., None, :]) @ vectors.swapaxes(-1, -2))


@dataclass(frozen=True)
class Unknowns:
    """Laws as vectors θ and back."""

    problem: MatrixProblem

    @property
    def own(self) -> int:
        """Matrices Q and V in θ: one where groups differ by a variance only."""
        levels = self.problem.population.levels_of_features
        one = levels is not None and len(levels.fraction) == 1
        return 1 if one else len(self.problem.population.group_shares)

    def pack(self, law: FieldsOrder) -> Array:
        """θ."""
        r, n = len(law.b), self.own
        i = np.triu_indices(r)
        scale = np.exp(0.5 * np.trace(_log(law.Q[0])) / r)
        teacher = self.problem.population.label_channel is not None
        parts = [_log(law.Q[:n])[:, i[0], i[1]], _log(law.V[:n])[:, i[0], i[1]]]
        parts += [law.A / scale if teacher else law.m / scale]
        parts += [law.b / (1 + scale)] if self.problem.intercept else []
        return np.concatenate([p.ravel() for p in parts])

    def unpack(self, theta: Array) -> FieldsOrder:
        """The law at θ."""
        p = self.problem
        r, n, G = p.n_classes - 1, self.own, len(p.population.group_shares)
        i, half = np.triu_indices(r), r * (r + 1) // 2
        logs = np.zeros((2 * n, r, r))
        logs[:, i[0], i[1]] = theta[: 2 * n * half].reshape(2 * n, half)
        logs = logs + np.triu(logs, 1).swapaxes(1, 2)
        matrices = _exp(logs)
        Q, V = matrices[:n], matrices[n:]
        if n < G:
            s = p.population.levels_of_features.variance[0]  # type: ignore[union-attr]
            ratio = (s / s[0])[:, None, None]
            Q, V = ratio * Q, ratio * V
        scale = np.exp(0.5 * np.trace(logs[0]) / r)
        rest = theta[2 * n * half :] * scale
        b = theta[len(theta) - r :] * (1 + scale) if p.intercept else np.zeros(r)
        teacher = p.population.label_channel is not None
        A, m = np.zeros((r, r)), np.zeros((G, r))
        if teacher:
            A = rest[: r * r].reshape(r, r)
        else:
            m = rest[: G * r].reshape(G, r)
        return FieldsOrder(m, Q, V, b, A)


def start(problem: MatrixProblem) -> FieldsOrder:
    """A law to begin with: small fields, V as in the first round of a weak pull."""
    p, r = problem, problem.n_classes - 1
    G = len(p.population.group_shares)
    levels, full = p.population.levels_of_features, p.population.full_features
    s = np.ones(G) if levels is None else levels.fraction @ levels.variance
    if full is not None:
        s = np.trace(full[1], axis1=1, axis2=2) / full[1].shape[1]
    V = 1 / (p.ridge + 0.25 * p.alpha)
    eye = np.eye(r) * s[:, None, None]
    A = np.eye(r) * 0.1 if p.population.label_channel is not None else np.zeros((r, r))
    T = difference_basis(r + 1)
    m = 0.1 * T if G > 1 else np.zeros((G, r))
    b = np.log(p.weight * p.population.class_shares) @ T if p.intercept else np.zeros(r)
    return FieldsOrder(m, 0.1 * eye, max(V, 1e-6) * eye, b, A)


class Solved(NamedTuple):
    """The law, its vector, the averages there, and whether it arrived."""

    law: FieldsOrder
    theta: Array
    averages: MatrixAverages
    converged: bool


def _clipped(step: Array, longest: float) -> Array:
    return step * min(1.0, longest / max(float(np.abs(step).max()), 1e-300))


@dataclass
class Anderson:
    """Memory of steps and residuals, kept from one level of accuracy to the next.

    `many` unknowns: a longer memory, which waits until steps are short, and shorter steps.
    """

    unknowns: Unknowns
    many: bool = False
    steps: list[Array] = field(default_factory=list)
    changes: list[Array] = field(default_factory=list)

    def solve(
        self,
        fields: Fields,
        theta: Array,
        *,
        tol: float,
        shift: Any = 0.0,
        max_rounds: int = 200,
    ) -> Solved:
        """θ = round(θ) + shift, until a step is below `tol`."""
        before: tuple[Array, Array] | None = None
        averages, law, converged = None, self.unknowns.unpack(theta), False
        depth, longest = (20, _LONGEST / 2) if self.many else (_DEPTH, _LONGEST)
        full = self.unknowns.problem.population.full_features is not None
        part = _DAMPED if self.many and full else 1.0
        for number in range(max_rounds):
            law = self.unknowns.unpack(theta)
            averages = fields(law)
            residual = self.residual(law, averages, theta)
            residual = None if residual is None else residual + shift
            if residual is None or (before is not None and averages.missed > _LEFT):
                break
            size = float(np.abs(residual).max())
            if before is not None and self.changes and size > _WORSE * np.abs(before[1]).max():
                theta, before = (
                    before[0] + _clipped(before[1], longest),
                    None,
                )  # back, and a plain round
                del self.steps[:], self.changes[:]
                continue
            far = self.many and number <= _PLAIN
            if before is not None and not (far and np.abs(before[1]).max() > _LONGEST):
                self.steps.append(theta - before[0])
                self.changes.append(residual - before[1])
                del self.steps[:-depth], self.changes[:-depth]
            before = theta, residual
            if size < tol:
                converged = True
                break
            step = part * residual
            if self.changes:
                F, S = np.array(self.changes).T, np.array(self.steps).T
                step -= (S + part * F) @ np.linalg.lstsq(F, residual, rcond=1e-10)[0]
            theta = theta + _clipped(step, longest)
        assert averages is not None
        return Solved(law, theta, averages, converged)

    def residual(self, law: FieldsOrder, averages: MatrixAverages, theta: Array) -> Array | None:
        """The step of one round; None where it is not a law."""
        p, b = self.unknowns.problem, law.b
        try:
            if p.intercept:
                move = np.linalg.solve(averages.stiffness, averages.pull)
                b = b + (np.clip(move, -1.0, 1.0) if self.many else move)
            after = weights_side(p.population, p.R, averages.hats, p.ridge, b)
            residual = self.unknowns.pack(after) - theta
        except np.linalg.LinAlgError:
            return None
        return residual if np.isfinite(residual).all() else None
