"""The loop between the two sides with matrices, accelerated (Anderson).

The weights side turns the samples' pull into the law of the fields (ridge λ). Levels of
eigenvalues, a fraction f of the directions, s_c the variance of group c there, G the part of the
means' Gram matrix there, θ the variance of a teacher's weights there:

    S = (λI + Σ_c s_c V̂_c)⁻¹,     V_c = ⟨s_c S⟩,     m_c = Σ (S m̂ G)_c
    Q_c = ⟨s_c S(Σ_c' s_c' Q̂_c')S⟩ + Σ s_c S m̂ G m̂ᵀ S
    a teacher:  A = ⟨s²θ S⟩ M̂,   M = AR,   Q = AR Aᵀ + E,   E = ⟨s² S Q̂ S⟩ + Σ u (X − A)R(X − A)ᵀ

⟨·⟩ is the mean over directions (Σ f); X = s S M̂ and u = f s θ, of sum 1: E, what of the student's
fields the teacher's do not explain, is a sum of positive parts. Without eigenvectors in common, S
is the inverse of λI + Σ_c V̂_c ⊗ Σ_c, of size rd, and the means are partial traces with Σ_c/d.

The unknowns are logarithms of the positive matrices (Q, or E of a teacher, and V), m and A in units
of the fields' size σ, b in units of 1 + σ: every mixture of iterates is a law. One round is

    law → hats (fields side) → law (weights side),    b → b + (−E∂f)⁻¹ E f     (a Newton step)

and Anderson's method takes the combination of the last rounds whose residuals combine to least.

Hard margins pull ∝ 1/V, so that V̂ = V^{−1/2}BV^{−1/2} with a B of no scale, the share of directions
that margins bind. A round takes m, Q and A at S = V, and V = (I − B)/λ, to which S = V amounts:
with S instead, V falls for ever from a start where more samples push than weights can obey.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from polyceptron.numerics import Array
from polyceptron.problem.channels.correlated import label_chances
from polyceptron.problem.populations import Population
from polyceptron.sides.matrix.fields import (
    MatrixAverages,
    MatrixConjugates,
    MatrixOrder,
    MatrixProblem,
    matrix_pull,
)
from polyceptron.sides.matrix.linear_loss import is_linear, linear_law

_DEPTH = 12
_LONGEST, _CAREFUL = 2.0, 0.7  # of an unknown in a round; of hard margins
_DAMPED = 0.3  # of a step with covariances in full, whose plain rounds swing up
_WORSE = 2.0  # a residual is, where a combination of rounds has failed
_LEFT = 0.1  # of a group outside the nodes
_STEP = 1e-4  # of a field, for a difference of pulls
_FREE = 0.01  # of the directions of weights, at least, that margins leave free

Fields = Callable[[MatrixOrder], MatrixAverages]
_upper = lru_cache(np.triu_indices)


def weights_side(
    population: Population, R: Array, hats: MatrixConjugates, ridge: float, b: Array
) -> MatrixOrder:
    """The law of the fields after a round; b (r,) is handed through."""
    levels = population.levels_of_features
    if levels is None:
        return _in_full(population, hats, ridge, b)
    f, s, gram, signal = levels
    f = f[:, None, None]
    S = np.linalg.inv(ridge * np.eye(len(b)) + np.einsum("lc,cij->lij", s, hats.V))
    inner = f * np.einsum("lc,cij->lij", s, hats.Q) + hats.m.T @ gram @ hats.m
    E, A = np.einsum("lc,lij->cij", s, S @ inner @ S), np.zeros_like(R)
    if population.label_channel is not None:
        u, X = f * (s[:, 0] * signal)[:, None, None], s[:, :1, None] * (S @ hats.M)
        A = (u * X).sum(0)
        E = E + (u * ((X - A) @ R @ (X - A).swapaxes(1, 2))).sum(0)
    V, m = np.einsum("lc,lij->cij", s, f * S), (gram @ hats.m @ S).sum(0)
    return MatrixOrder(m, (E + E.swapaxes(1, 2)) / 2, V, b, A)


def _in_full(population: Population, hats: MatrixConjugates, ridge: float, b: Array) -> MatrixOrder:
    """Covariances without common eigenvectors."""
    mu, sigma = population.full_features  # type: ignore[misc]
    d, r = mu.shape[1], hats.m.shape[1]
    size = r * d

    def flat(matrices: Array) -> Array:  # Σ_c matrices_c ⊗ Σ_c
        both = matrices.reshape(-1, r * r).T @ sigma.reshape(-1, d * d)
        return both.reshape(r, r, d, d).swapaxes(1, 2).reshape(size, size)

    def traced(matrix: Array) -> Array:  # with each Σ_c/d, over features
        parts = matrix.reshape(r, d, r, d).swapaxes(1, 2).reshape(r * r, d * d)
        return np.asarray((sigma.reshape(-1, d * d) @ parts.T / d).reshape(-1, r, r))

    factor, failed = dpotrf(ridge * np.eye(size) + flat(hats.V), lower=1)
    if failed:
        raise np.linalg.LinAlgError("not positive")
    S = np.tril(dpotri(factor, lower=1)[0])
    S = S + np.tril(S, -1).T
    mean = S @ np.einsum("ci,ca->ia", hats.m, mu).reshape(size)
    Q = traced(S @ flat(hats.Q) @ S + np.outer(mean, mean))
    m = np.einsum("ia,ca->ci", mean.reshape(r, d), mu) / d
    return MatrixOrder(m, (Q + Q.swapaxes(1, 2)) / 2, traced(S), b, np.zeros((r, r)))


def _mapped(function: Callable[[Array], Array], S: Array) -> Array:
    """A function of symmetric matrices (…, r, r), by their eigenvalues."""
    if S.shape[-1] == 1:
        return function(S)
    values, vectors = np.linalg.eigh(S)
    return (vectors * function(values)[..., None, :]) @ vectors.swapaxes(-1, -2)


def _own(problem: MatrixProblem) -> int:
    """Matrices Q and V in θ: one where groups differ by a variance only."""
    levels = problem.population.levels_of_features
    one = levels is not None and len(levels.fraction) == 1
    return 1 if one else len(problem.population.group_shares)


def pack(problem: MatrixProblem, law: MatrixOrder) -> Array:
    """θ of a law."""
    r, n = len(law.b), _own(problem)
    i = _upper(r)
    positive = np.concatenate([law.Q[:n], law.V[:n]])
    logs = _mapped(lambda values: np.log(np.maximum(values, 1e-300)), positive)
    scale = np.exp(0.5 * np.trace(logs[0]) / r)
    parts = [logs[:, i[0], i[1]], (law.A if problem.taught else law.m) / scale]
    parts += [law.b / (1 + scale)] if problem.intercept else []
    return np.concatenate([p.ravel() for p in parts])


def unpack(problem: MatrixProblem, theta: Array) -> MatrixOrder:
    """The law at θ."""
    p, r, n = problem, problem.n_classes - 1, _own(problem)
    G, i, half = len(p.population.group_shares), _upper(r), r * (r + 1) // 2
    logs = np.zeros((2 * n, r, r))
    logs[:, i[0], i[1]] = theta[: 2 * n * half].reshape(2 * n, half)
    logs = logs + np.triu(logs, 1).swapaxes(1, 2)
    Q, V = np.split(_mapped(np.exp, logs), 2)
    if n < G:
        s = p.population.levels_of_features.variance[0]  # type: ignore[union-attr]
        ratio = (s / s[0])[:, None, None]
        Q, V = ratio * Q, ratio * V
    scale = np.exp(0.5 * np.trace(logs[0]) / r)
    size = r if p.taught else G
    rest = scale * theta[2 * n * half :][: size * r].reshape(size, r)
    A, m = (rest, np.zeros((G, r))) if p.taught else (np.zeros((r, r)), rest)
    b = theta[len(theta) - r :] * (1 + scale) if p.intercept else np.zeros(r)
    return MatrixOrder(m, Q, V, b, A)


def start(problem: MatrixProblem) -> Array:
    """θ to begin with: small fields, V as in the first round of a weak pull."""
    p, r, T = problem, problem.n_classes - 1, problem.basis
    levels, full = p.population.levels_of_features, p.population.full_features
    if full is not None:
        s = np.trace(full[1], axis1=1, axis2=2) / full[1].shape[1]
    else:
        s = levels.fraction @ levels.variance  # type: ignore[union-attr]
    eye = np.eye(r) * s[:, None, None]
    V = max(1 / (p.ridge + 0.25 * p.alpha), 1e-6)
    b = np.log(p.weight * p.population.class_shares) @ T if p.intercept else np.zeros(r)
    return pack(p, MatrixOrder(0.3 * T, eye, V * eye, b, 0.3 * np.eye(r)))


def matrix_rounds(problem: MatrixProblem, fields: Fields) -> Iterator[MatrixOrder]:
    """The law of a student that knows nothing, then after each plain round, without end."""
    p, G, r = problem, len(problem.population.group_shares), problem.n_classes - 1
    square = np.zeros((G, r, r))
    none = MatrixConjugates(square[:, 0], square, square, np.zeros((r, r)))
    law = weights_side(p.population, p.R, none, p.ridge, np.zeros(r))
    while True:
        yield law
        hats = fields(law).hats if law.Q.any() else _without_spread(p, law)
        b = law.b
        if p.intercept:
            b = b + np.linalg.solve(hats.V.sum(0), hats.m.sum(0))
        law = weights_side(p.population, p.R, hats, p.ridge, b)


def _without_spread(problem: MatrixProblem, law: MatrixOrder) -> MatrixConjugates:
    """Of fields that do not vary: one point for each label, and −∂f by differences around it."""
    p, channel, r = problem, problem.population.label_channel, len(law.b)
    m, Q, V, M = (np.zeros_like(each) for each in (law.m, law.Q, law.V, law.A))
    around = _STEP * np.concatenate([np.zeros((1, r)), np.eye(r), -np.eye(r)])
    for c in range(len(law.m)):
        labels, chance = np.array([c]), np.ones(1)
        if channel is not None:
            told = label_chances(channel, (p.population.offsets @ p.basis)[None], p.R)
            labels, chance = np.arange(r + 1), told.Z[0]
        y, at = np.repeat(labels, len(around)), np.tile(law.m[c] + law.b + around, (len(labels), 1))
        f = matrix_pull(p.loss, at, y, law.V[c], p.weight[y]).f.reshape(len(labels), -1, r)
        m[c], Q[c] = chance @ f[:, 0], (chance * f[:, 0].T) @ f[:, 0]
        V[c] = np.tensordot(chance, f[:, r + 1 :] - f[:, 1 : r + 1], 1) / (2 * _STEP)
        if channel is not None:
            M = f[:, 0].T @ told.slopes[0]
    return MatrixAverages.of(p, m, Q, (V + V.swapaxes(1, 2)) / 2, M, 0.0, 0.0).hats


class Solved(NamedTuple):
    """The law, its vector, the averages there, whether it arrived, and at which nodes."""

    law: MatrixOrder
    theta: Array
    averages: MatrixAverages
    converged: bool
    fields: Fields


def _clipped(step: Array, longest: float) -> Array:
    return step * min(1.0, longest / max(float(np.abs(step).max()), 1e-300))


@dataclass
class Anderson:
    """Memory of steps and residuals, kept from one level of accuracy to the next.

    Many unknowns (points): a longer memory, and shorter steps.
    """

    problem: MatrixProblem
    steps: list[Array] = field(default_factory=list)
    changes: list[Array] = field(default_factory=list)

    @cached_property
    def linear(self) -> list[MatrixOrder]:
        """The law, if it is known in closed form."""
        try:
            return [linear_law(self.problem)] if is_linear(self.problem) else []
        except np.linalg.LinAlgError:  # rounding left none
            return []

    def solve(
        self, fields: Fields, theta: Array, *, tol: float, shift: Any = 0.0, max_rounds: int = 200
    ) -> Solved:
        """θ = round(θ) + shift, until a step is below `tol`."""
        if self.linear:
            law = self.linear[0]
            return Solved(law, pack(self.problem, law), fields(law), True, fields)
        before: tuple[Array, Array] | None = None
        many, full = self.problem.sampled, self.problem.population.full_features is not None
        depth, longest = (20, _LONGEST / 2) if many else (min(_DEPTH, len(theta)), _LONGEST)
        longest = min(longest, _CAREFUL) if self.problem.loss.scale_free else longest
        part, converged = _DAMPED if many and full else 1.0, False
        for _ in range(max_rounds):
            law = unpack(self.problem, theta)
            averages = fields(law)
            residual = self.residual(law, averages, theta)
            residual = None if residual is None else residual + shift
            if residual is None or (before is not None and averages.missed > _LEFT):
                del self.steps[:], self.changes[:]  # which led where no nodes are
                break
            size = float(np.abs(residual).max())
            if before is not None and self.changes and size > _WORSE * np.abs(before[1]).max():
                # Back, and a plain round.
                theta, before = before[0] + _clipped(before[1], longest), None
                del self.steps[:], self.changes[:]
                continue
            if before is not None:
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
        return Solved(law, theta, averages, converged, fields)

    def _scale_free(self, law: MatrixOrder, hats: MatrixConjugates, b: Array) -> MatrixOrder:
        """A round of hard margins, whose pulls are ∝ 1/V: all but V is taken at S = V as it is."""
        p, one = self.problem, self.problem.population.levels_of_features
        s = one.variance[0]  # type: ignore[union-attr]
        half = _mapped(np.sqrt, law.V[0] / s[0])
        held = (np.linalg.inv(half @ half) - p.ridge * np.eye(len(b))) / s.sum()
        after = weights_side(p.population, p.R, hats._replace(V=0 * hats.V + held), p.ridge, b)
        bound = half @ np.einsum("c,cij->ij", s, hats.V) @ half
        free = _mapped(lambda v: np.maximum(v, _FREE), np.eye(len(b)) - bound) / p.ridge
        return after._replace(V=s[:, None, None] * free)

    def residual(self, law: MatrixOrder, averages: MatrixAverages, theta: Array) -> Array | None:
        """The step of one round; None where it is not a law."""
        p, b = self.problem, law.b
        try:
            if p.intercept:
                move = np.linalg.solve(averages.hats.V.sum(0), averages.hats.m.sum(0))
                b = b + (np.clip(move, -1.0, 1.0) if p.sampled else move)
            after = weights_side(p.population, p.R, averages.hats, p.ridge, b)
            if p.loss.scale_free and _own(p) == 1:
                after = self._scale_free(law, averages.hats, b)
            residual = pack(p, after) - theta
        except np.linalg.LinAlgError:
            return None
        return residual if np.isfinite(residual).all() else None
