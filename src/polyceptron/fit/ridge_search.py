"""Which ridge predicts best: fields of samples that a fit has not seen, along a path of λ.

    min_U Σ_μ s_μ ℓ(z_μ, y_μ) + (λ/2) Σ_j ρ_j ‖u_j‖²,    z = Ux̂,  x̂ = x/√d

with x the features scaled by *all* samples and ρ the share of the ridge that each feature bears.
Samples that are held out must not be seen by the scaling either: dividing a feature by the
deviation σ_j of the training samples is ρ_j = σ_j², in units of the deviation of all, and centring
it is the business of the intercept, whose share is next to nothing. Two ways to held-out fields z̃:

folds: the fits to the training rows of each fold are problems side by side, which differ in their
    weights of the samples and their ρ, and share every read of X.
leave-one-out: one fit of all samples, and for each a Newton step without it,

    z̃_μ = z_μ + (1 − u A_μH_μ)⁻¹ (u A_μg_μ + x̂_μᵀK⁻¹λ(ρ − ρ₋μ)U),   A_μ = x̂_μᵀK⁻¹x̂_μ,

    K = Σ_ν s_ν x̂_νx̂_νᵀ ⊗ H_ν + λρ, with g and H the loss's slope and curvature at z_μ, A_μ the r×r
    leverage of the sample and ρ₋μ the shares without it (if much less, as of rare columns, K⁻¹ has
    K⁻¹λ(ρ − ρ₋μ)K⁻¹ more); u is the part of the sample's weight that is left out, so that a sample
    of weight 3 is three samples. The step is right where the fields move little; samples that it
    moves far are fitted anew without, and where those are too many the answer is left to folds.

The path goes down by decades and ends where the score has become clearly worse than the best; it
goes on where the best is at an end, and at last halfway to the better one of the two beside it.
Where classes can be told apart, the score of few samples falls for ever and knows nothing of what a
mistake would cost: ridges are compared with half a sample more, a mistaken one. Each λ starts from
the polynomial in ln λ through the nearest minimisers, and ends loosely: the
constants below say at which gain. A held-out sample whose class the training rows do not have is
not scored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from polyceptron.data.checks import Labels, Samples
from polyceptron.data.design import Design, weights_or_ones
from polyceptron.data.stored_designs import ArrayDesign
from polyceptron.errors import InvalidInput
from polyceptron.fit.solvers import newton, newton_step
from polyceptron.fit.solvers.erm_fit import through_nearest
from polyceptron.fit.solvers.many_classes import FEWEST_CLASSES
from polyceptron.fit.solvers.objectives import LossObjective, Objective
from polyceptron.fit.solvers.softmax_objective import OBJECTIVES
from polyceptron.numerics import AnyArray, Array
from polyceptron.problem.losses import Loss

Score = Callable[[Array, Labels], Array]  # fields (m, k) and labels to numbers (m,), low is good
Split = tuple[Labels, Labels]  # rows to fit, and rows that are held out

RIDGE_RATIO = 0.1  # of one ridge of a path to the one before
RIDGE_LIMITS = 0.9e-9, 1.1e6  # how far the path may go on, in units of the features' variance
MISTAKEN_SAMPLES_ADDED = 0.5  # where ridges are compared: see the module's docstring
SMALLEST_FALL_OF_SCORE = (
    1e-3  # of the score from one ridge to the next, for which going on is worth while
)
DENSE = 120  # d·r up to which a matrix of that size is cheaper than products with X
NUMBERS_THAT_GAIN_NOTHING_IN_SINGLE = (
    5_000  # numbers in all fields up to which single precision saves nothing
)

# Of the objective, by which the last step lowers it; of the gradient, left by inner solves.
ENDS_OF_FOLD_FITS = 1e-3, 0.25
ENDS_OF_WHOLE_FITS = (
    1e-4,
    0.1,
)  # fits of all, and refits: the step after one that gains so little gains nothing
SCORE_ERRORS_OF_LAST_STEP = 0.2  # standard errors by which it may move the score of the folds
FIELD_MOVE_OF_LAST_STEP = 0.1  # by which it may move the field of the sample left out
ERRORS_ABOVE_BEST_TO_STOP = (
    3.0,
    1.0,
)  # standard errors above the best that end a path: ridges given, and its own
# Standard errors of the difference by which another scaling than the first has to be better. Over
# 206 fits to 100 and 300 samples of 40 tables the mean log-loss was lowest for 1 of 1, 1.5, 2, 3;
# 'global' of features of one unit, which the digits of scikit-learn have, stays up to 2.
CLEAR = 1.0
CLEAR_OF_ONE_UNIT = 2.0
ERRORS_ABOVE_BEST_TO_GIVE_UP = (
    3.0  # standard errors of the difference above the best: such a fit is not gone on with
)
LARGEST_MOVE_OF_ONE_STEP = 0.5  # move of a field that is too large for one Newton step
SHARE_OF_RIDGE_LOST_WITH_A_SAMPLE = (
    0.05  # of the ridge on a feature, lost with one sample, that the matrix has to know of
)
MAX_OPERATIONS_OF_REFITS = 3e8  # operations of one Newton step of all refits
MAX_NUMBERS_OF_A_CHUNK = 4_000_000  # numbers in the weighted rows of those made at once


class HeldOutProblem(NamedTuple):
    """What is fitted and how it is judged.

    `samples` have features scaled by all of them, a column of equal entries last if there is an
    `intercept`, and the weights of the loss. `counts` (n,) say how often each sample is there, for
    the scaling; `share` (n,) weighs the score. `scaling`: 'standard', 'global' or 'none'. The
    scores of `also` are noted beside the one that decides.
    """

    samples: Samples
    loss: Loss
    score: Score
    counts: Array
    share: Array
    scaling: str
    intercept: bool
    also: Mapping[str, Score] = MappingProxyType({})

    def shares(self, first: Array, second: Array) -> Array:
        """ρ (L, d) from the weighted means of x̂_j (L, d) and of x̂_j² (L, d)."""
        d, rho = self.samples.design.dimension - self.intercept, np.ones(first.shape)
        spread = self.samples.design.dimension * (second - first**2)[:, :d]
        if self.intercept:
            rho[:, d] = 1e-6
            spread *= d / (d + 1)  # features are stretched so that x̂ is the same with a column more
        if self.scaling == "standard":
            rho[:, :d] = np.where(spread > 1e-10, spread, 1.0)
        elif self.scaling == "global":
            rho[:, :d] = np.maximum(spread.mean(1, keepdims=True), 1e-10)
        return rho


def even_splits(y: Labels, count: Any, seed: Any) -> list[Split]:
    """Each class dealt over the folds as evenly as it goes; a rare one is not in every fold."""
    from sklearn.utils import check_random_state

    if count < 2:
        raise InvalidInput(f"cv must be 2 folds or more, got {count}")
    order, count = check_random_state(seed).permutation(y.size), min(int(count), y.size)
    dealt = np.empty(y.size, dtype=np.int64)
    dealt[order[np.argsort(y[order], kind="stable")]] = np.arange(y.size) % count
    return [(np.flatnonzero(dealt != i), np.flatnonzero(dealt == i)) for i in range(count)]


def score_of(loss: Loss, scoring: str, shift: Array) -> Score:
    """Errors, or −ln of the label's probability; where there is none, the loss itself."""
    if scoring == "accuracy":
        return lambda z, y: ((z + shift).argmax(1) != y).astype(float)

    def log_loss(z: Array, y: Labels) -> Array:
        p = np.asarray(loss.probabilities(z))[np.arange(y.size), y]
        return -np.log(np.maximum(p, np.finfo(float).tiny))

    y = np.arange(shift.size)
    z = np.random.default_rng(0).standard_normal((y.size, y.size))
    itself = loss.probabilities(z) is None or np.allclose(loss.value(z, y), log_loss(z, y))
    value = loss.value if itself else log_loss  # exact also where probabilities underflow
    return lambda z, y: value(z + shift, y)


def label_probability(loss: Loss, shift: Array) -> Score | None:
    """Return the score p_y, which priors have moved; None for a loss without probabilities."""
    if loss.probabilities(np.zeros((1, shift.size))) is None:
        return None

    def probability(z: Array, y: Labels) -> Array:
        p = np.asarray(loss.probabilities(z + shift))
        return np.asarray(p[np.arange(y.size), y])

    return probability


def choose_ridge(
    search: HeldOutProblem,
    ridges: Sequence[float] | None,
    splits: list[Split] | None,
    fallback: list[Split] | None = None,
    *,
    between: bool = False,
    size: float = 1.0,
    rival: tuple[float, RidgeScore] | None = None,
) -> RidgeSearch:
    """Scores along the ridges, and the best; leave-one-out without `splits`.

    Without `ridges` the path finds its own, in units of the variance `size` of the features; if
    there is a `rival`, near its best ridge, in such units, and while it may beat that. With
    `between` the best may lie between two of those tried. `fallback` are splits in place of a
    leave-one-out that cannot be relied on.
    """
    if ridges is not None and not (len(ridges) and min(ridges) > 0):
        raise InvalidInput(f"ridges must be numbers above 0, at least one, got {ridges!r}")
    most = math.inf if fallback is None else MAX_OPERATIONS_OF_REFITS
    way: Any = LeaveOneOut(search, most) if splits is None else Folds(search, splits)
    path = RidgeSearch(search, way, own=ridges is None)
    try:
        if ridges is not None:
            path.down(
                sorted({float(ridge) for ridge in ridges}, reverse=True),
                ERRORS_ABOVE_BEST_TO_STOP[0],
            )
        else:
            path.find(size, rival)
    except KeyboardInterrupt:
        if not path.tried:
            raise
        path.interrupted = True
    if fallback is not None and not (path.chosen.sound or path.interrupted):
        return choose_ridge(search, ridges, fallback, between=between, size=size, rival=rival)
    path.between = between and ridges is None and not path.interrupted
    return path


class RidgeSearch:
    """Ridges tried, from large to small, and where to go from there.

    `chosen` is the one that is best, `best` the best ridge, `between` those tried if it may be.
    """

    def __init__(self, search: HeldOutProblem, way: Folds | LeaveOneOut, *, own: bool) -> None:
        self.search, self.way, self.own, self.method = search, way, own, way.method
        self.tried: list[RidgeScore] = []
        self.interrupted = self.between = False

    def run(self, ridge: float) -> RidgeScore:
        best = self.chosen if self.own and self.tried else None
        fields, at, weights = self.way.held_out(ridge, best)
        score, y, share = self.search.score, self.search.samples.y[at], self.search.share[at]
        rest = np.where(np.arange(fields.shape[1]) == y[:, None], -math.inf, fields)
        missed = np.average(score(fields, rest.argmax(1)), weights=share)
        values, share = (
            np.append(score(fields, y), missed),
            np.append(share, MISTAKEN_SAMPLES_ADDED * self.own),
        )
        also = {name: also_score(fields, y) for name, also_score in self.search.also.items()}
        here = RidgeScore(ridge, values, at, share, weights, self.way.sound, also)
        self.tried = sorted([*self.tried, here], key=lambda one: -one.ridge)
        count = len(self.tried)
        self.search.samples.design.watch.step(count, max(count, 12), math.inf, 0.0, here.mean)
        return here

    @property
    def chosen(self) -> RidgeScore:
        """The best, of equals the largest ridge."""
        return min(self.tried, key=lambda one: one.judged)

    def down(self, ridges: Sequence[float], enough: float) -> None:
        """One after the other, until those since the best are worse by `enough` in all."""
        worse = 0.0
        for ridge in ridges:
            here = self.run(ridge)
            worse = 0.0 if here is self.chosen else worse + here.above(self.chosen)
            if worse > enough:
                break

    def find(self, size: float, rival: tuple[float, RidgeScore] | None) -> None:
        """Go by decades to where the score is lowest, and halfway to the better one beside it.

        Beside a rival from its best ridge on, while one more such fall of the score may beat it by
        the standard error that another scaling needs.
        """
        ridges = RIDGE_RATIO ** np.arange(6.0)
        if rival is not None:
            ridges = rival[0] * RIDGE_RATIO ** np.array([-0.5, 0.0])
        self.down((size * ridges).tolist(), ERRORS_ABOVE_BEST_TO_STOP[1])
        while True:
            (factor, fall), best = self.downhill(), self.chosen
            if rival is not None and np.dot(best.apart(rival[1]), (1, CLEAR)) >= fall:
                return
            if not RIDGE_LIMITS[0] <= best.ridge * factor / size <= RIDGE_LIMITS[1]:
                break
            self.run(best.ridge * factor)
        i = self.tried.index(best)
        if 0 < i < len(self.tried) - 1:
            beside = min(self.tried[i - 1], self.tried[i + 1], key=lambda one: one.judged)
            self.run(math.sqrt(best.ridge * beside.ridge))

    def downhill(self) -> tuple[float, float]:
        """Return the factor to the next ridge beyond the best, and the fall of the score there.

        Both are 0 unless the best is at an end of those tried.
        """
        scores, best = [one.judged for one in self.tried], self.chosen
        ends = ((0, 1, 1 / RIDGE_RATIO), (-1, -2, RIDGE_RATIO)) if len(scores) > 1 else ()
        for end, beside, factor in ends:
            if (
                best is self.tried[end]
                and (fall := scores[beside] - scores[end]) > SMALLEST_FALL_OF_SCORE
            ):
                return factor, fall
        return 0.0, 0.0

    @property
    def n_train(self) -> float:
        """Return the mean number of samples of the fits that samples are held out of."""
        return self.way.n_train

    @property
    def edge(self) -> str:
        """Return 'smallest' or 'largest' if the score falls on beyond the best of all tried."""
        return {0.0: "", RIDGE_RATIO: "smallest", 1 / RIDGE_RATIO: "largest"}[self.downhill()[0]]

    @property
    def start(self) -> Array:
        """Weights (d, k) near the minimiser at the best ridge."""
        if isinstance(way := self.way, LeaveOneOut) and way.walk.rows is not None:
            way.walk.enough = 1e-10  # a step is one small solve
            if self.search.intercept and way.turn.shape[0] == way.turn.shape[1]:
                way.walk.shares[:, -1] = 0.0  # as the certified fit has it
            way.walk.solve(self.best)
            return (way.walk.objective.basis @ (way.walk.U[0] @ way.turn)).T
        points = [(math.log(one.ridge), one.weights) for one in self.tried]
        return through_nearest(points, math.log(self.best), 3)

    @property
    def best(self) -> float:
        """The ridge chosen, or the lowest point of the parabola in ln λ around it."""
        i = self.tried.index(self.chosen)
        if self.between and 0 < i < len(self.tried) - 1:
            three = self.tried[i - 1 : i + 2]
            t, s = np.log([one.ridge for one in three]), np.array([one.judged for one in three])
            bend, slope, _ = np.polyfit(t - t[1], s, 2)
            if bend > 0 and s[1] == s.min():
                return float(np.exp(t[1] - slope / (2 * bend)))
        return self.chosen.ridge


@dataclass(frozen=True, eq=False)
class RidgeScore:
    """A ridge, scores of the samples `at` (m,) held out and what these count for, and the fit.

    The last of the scores (m + 1,) is that of a mistaken sample: what it is on average if the label
    is the likeliest other class. `weights` (d, k) are near the minimiser: a start for it; `sound`:
    whether they can be relied on. `also` are further scores of the samples, each (m,).
    """

    ridge: float
    values: Array
    at: Labels
    share: Array
    weights: Array
    sound: bool
    also: dict[str, Array]

    @cached_property
    def mean(self) -> float:
        return float(np.average(self.values[:-1], weights=self.share[:-1]))

    @property
    def standard_error(self) -> float:
        return _error(self.values[:-1] - self.mean, self.share[:-1])

    @cached_property
    def judged(self) -> float:
        """The mean with the mistaken sample, by which ridges are compared."""
        return float(np.average(self.values, weights=self.share))

    def apart(self, other: RidgeScore) -> tuple[float, float]:
        """Return by how much it is judged worse, and the error of that, by samples if it can be."""
        above = self.judged - other.judged
        if not np.array_equal(self.at, other.at):
            return above, math.hypot(self.standard_error, other.standard_error)
        return above, _error(self.values - other.values - above, self.share)

    def above(self, other: RidgeScore) -> float:
        """Return by how many standard errors of the difference it is judged worse."""
        above, error = self.apart(other)
        return above / max(error, 1e-300)


def _error(off: Array, share: Array) -> float:
    return float(np.sqrt((share**2 * off**2).sum()) / share.sum())


class Folds:
    """Fits to the training rows of each fold in turn."""

    method, sound = "cross-validation", True

    def __init__(self, search: HeldOutProblem, splits: list[Split]) -> None:
        self.search, (design, y, k) = search, search.samples
        rows = np.array([np.bincount(train, minlength=y.size) for train, _ in splits], float)
        self.n_train = float(rows.sum(1).mean())
        here = rows * search.counts
        self.tests = [
            test[np.bincount(y, weights, k)[y[test]] > 0]
            for (_, test), weights in zip(splits, here, strict=True)
        ]
        if not any(test.size for test in self.tests):
            self.tests = [test for _, test in splits]
        total = here.sum(1, keepdims=True)
        if (total == 0).any():
            raise InvalidInput("cv has a fold without training samples: every fold needs some")
        first, second = design.back(here) / total, design.back_squared(here) / total
        weights = rows * weights_or_ones(search.samples.weights, y.size)
        self.walk = Walk(search, design, weights, search.shares(first, second), ENDS_OF_FOLD_FITS)

    def held_out(self, ridge: float, best: RidgeScore | None) -> tuple[Array, Labels, Array]:
        """Fields (m, k) of the samples (m,) of all folds, and the folds' mean weights (d, k)."""
        basis, at = self.walk.objective.basis, np.concatenate(self.tests)
        y, share, scores = self.search.samples.y[at], self.search.share[at], list[Array]()

        def fields(Z: AnyArray) -> Array:
            return np.vstack([z[:, own].T for z, own in zip(Z, self.tests, strict=True)]) @ basis.T

        def still(before: AnyArray, Z: AnyArray, small: bool) -> bool:
            scores.extend(self.search.score(fields(z), y) for z in (before, Z)[bool(scores) :])
            first, last = scores[-2:]
            moved, mean = (np.average(x, weights=share) for x in (last - first, last))
            if best is not None and moved >= 0:  # one clearly above the best, and rising, is left
                off = last - best.values[:-1]
                worse = np.average(off, weights=share)
                if worse > ERRORS_ABOVE_BEST_TO_GIVE_UP * _error(off - worse, share):
                    return True
            return bool(
                small and abs(moved) <= SCORE_ERRORS_OF_LAST_STEP * _error(last - mean, share)
            )

        self.walk.solve(ridge, still)
        return fields(self.walk.Z), at, (basis @ self.walk.U.mean(0)).T


class LeaveOneOut:
    """One fit of all samples, a step without each, and refits where the step is large.

    `sound`: whether all of those that were due could be made, of `budget` operations a step.
    """

    method = "leave-one-out"

    def __init__(self, search: HeldOutProblem, budget: float) -> None:
        self.search, self.budget, self.sound = search, budget, True
        (design, y, k), counts = search.samples, search.counts
        self.n_train = float(y.size - 1)
        self.rest = np.minimum(counts, 1.0) / counts
        alone = np.bincount(y, counts, k)[y] <= (1 + 1e-12) * self.rest * counts
        self.at = np.arange(y.size) if alone.all() else np.flatnonzero(~alone)
        rows, out = design.scaled_rows(slice(None)), (self.rest * counts)[:, None]
        first, second, left = counts @ rows, counts @ rows**2, counts.sum() - out
        rho = search.shares(*(x[None] / counts.sum() for x in (first, second)))
        self.rho = search.shares((first - out * rows) / left, (second - out * rows**2) / left)
        self.turn = np.eye(len(rho[0]))
        if design.dimension > y.size:  # n directions hold all samples, whose shares do not change
            root = np.sqrt(rho[0])
            left_side, values, right = np.linalg.svd(rows / root, full_matrices=False)
            rows, self.turn = left_side * np.maximum(values, 1e-7 * values[0]), right / root
            rho, self.rho = np.ones((1, y.size)), np.ones((y.size, y.size))
        self.rows, self.design = rows, ArrayDesign(rows * math.sqrt(rows.shape[1]))
        self.walk = Walk(search, self.design, search.samples.weights, rho, ENDS_OF_WHOLE_FITS)

    def held_out(self, ridge: float, best: RidgeScore | None) -> tuple[Array, Labels, Array]:
        """Fields (n, k) of every sample, left out, and weights (d, k) of the fit of all."""
        walk = self.walk
        walk.solve(ridge)
        H, U = walk.matrices()[0], walk.U[0]
        K = np.linalg.inv(newton_step.whole_hessian(self.rows, H, ridge * walk.shares[0]))
        K = K.reshape(*U.shape, *U.shape)
        A = leverages(self.rows, K)
        g = walk.here.residual[0].T
        part = self.rest[:, None, None] * H
        lighter = ridge * (walk.shares[0] - self.rho)[:, None]
        eased = np.tensordot(lighter * U, K, 2)
        rare = np.flatnonzero(
            (lighter > SHARE_OF_RIDGE_LOST_WITH_A_SAMPLE * ridge * walk.shares[0]).any((1, 2))
        )
        eased[rare] = np.tensordot(lighter[rare] * (U + eased[rare]), K, 2)
        for a in range(len(K) if rare.size else 0):  # of these the matrix has the lighter ridge too
            seen = np.tensordot(self.rows[rare], K[:, :, a], ((1,), (1,)))  # (m, r, d)
            A[rare] += (lighter[rare] * seen) @ seen.swapaxes(1, 2)
        push = np.einsum("nab,nb->na", A, self.rest[:, None] * g)
        push += np.einsum("nad,nd->na", eased, self.rows)
        move = np.linalg.solve(np.eye(H.shape[1]) - A @ part, push[..., None])[..., 0]
        fields = walk.Z[0].T + move
        size = np.abs(move).max(1)
        far = self.at[size[self.at] > LARGEST_MOVE_OF_ONE_STEP]
        most = int(min(self.budget / (len(g) * U.size**2), far.size))
        self.sound = most == far.size
        far = far[np.argsort(-size[far], kind="stable")[:most]]
        chunks = -(-far.size * max(H.size, self.rows.size) // MAX_NUMBERS_OF_A_CHUNK)
        for chunk in np.array_split(far, chunks) if chunks else ():
            slope = g[chunk] + (H[chunk] @ move[chunk, :, None])[..., 0]
            pull = (self.rest[chunk, None] * slope)[..., None] * self.rows[chunk, None]
            each, whole = np.arange(chunk.size), self.search.samples.weights
            weights = np.tile(weights_or_ones(whole, len(g)), (chunk.size, 1))
            weights[each, chunk] *= 1 - self.rest[chunk]
            refit = Walk(self.search, self.design, weights, self.rho[chunk], ENDS_OF_WHOLE_FITS)
            refit.past = [(math.log(ridge), U + eased[chunk] + np.tensordot(pull, K, 2))]
            own = each[:, None], np.arange(len(U)), chunk[:, None]
            refit.solve(
                ridge,
                lambda a, b, ok, at=own: (
                    ok and np.abs((b - a)[at]).max() <= FIELD_MOVE_OF_LAST_STEP
                ),
            )
            fields[chunk] = refit.Z[own]
        basis = walk.objective.basis
        return (fields @ basis.T)[self.at], self.at, (basis @ (U @ self.turn)).T


def leverages(rows: Array, K: Array) -> Array:
    """A_μ = x̂ᵀK⁻¹x̂ (n, r, r) of rows x̂ (n, d), given K⁻¹ (r, d, r, d)."""
    r = len(K)
    A = np.empty((len(rows), r, r))
    for a, b in zip(*np.triu_indices(r), strict=True):
        A[:, a, b] = A[:, b, a] = np.einsum("ni,ni->n", rows @ K[a, :, b], rows)
    return A


class Walk:
    """Problems side by side, U (L, r, d), from one λ to the next; `shares` (L, d) are ρ.

    `ends`: of the objective, by which the last step lowers it; of the gradient, left by conjugate
    gradients. `weights` (n,) or (L, n) are those of the samples.
    """

    def __init__(
        self,
        search: HeldOutProblem,
        design: Design,
        weights: Any,
        shares: Array,
        ends: tuple[float, float],
    ) -> None:
        _, y, k = search.samples
        objective: Objective = LossObjective(search.loss, y, k, weights)
        if (own := OBJECTIVES.get(search.loss.solver)) is not None:
            objective = own(
                y, k, weights, k >= FEWEST_CLASSES and (k - 1) * design.dimension > DENSE
            )
        self.design, self.objective, self.shares = design, objective, shares
        self.enough, self.loose = ends
        r, d = objective.basis.shape[1], design.dimension
        large = (
            len(shares) * r * design.n_samples > NUMBERS_THAT_GAIN_NOTHING_IN_SINGLE
            and design.single_is_quicker
        )
        small = r * d <= DENSE and design.may_be_copied
        self.dtype = np.float32 if large and not small else np.float64
        self.U: AnyArray = np.zeros((len(shares), r, d), self.dtype)
        self.past: list[tuple[float, AnyArray]] = []
        self.rows = design.scaled_rows(slice(None)) if small else None

    def solve(
        self, ridge: float, still: Callable[..., Any] = lambda before, Z, small: small
    ) -> None:
        """Move to the minimisers at this λ, loosely; `still`: whether a step moved Z but little."""
        design, objective = self.design, self.objective
        ridges = ridge * self.shares
        pull: AnyArray = newton_step.by_feature(ridges).astype(self.dtype)
        t = math.log(ridge)
        U = through_nearest(self.past, t, 3) if self.past else np.zeros_like(self.U)
        Z = design.fields(U)
        here = objective.evaluate(Z.copy())
        for _ in range(60):
            G = design.back(here.residual) + pull * U
            if not G.any(axis=(1, 2)).all():
                break
            self.here = here
            if self.rows is None:
                how = np.full(len(G), self.loose), np.full(len(G), self.dtype == np.float64)
                D = newton_step.directions(design, objective, here, ridges, G, *how)
            else:  # the whole matrix is small
                whole = newton_step.whole_hessian(self.rows, self.matrices(), ridges)
                D = np.linalg.solve(whole, -G.reshape(len(G), -1, 1)).reshape(G.shape)
            total = here.value + 0.5 * newton_step.dots(pull * U, U)
            gain = -0.5 * newton_step.dots(G, D)
            before = Z
            step, here, Z = newton.line_search(design, objective, ridges, U, Z, here, G, D)
            U += (step[:, None, None] * D).astype(self.dtype, copy=False)
            if still(before, Z, (gain <= self.enough * total).all()):
                break
        self.U, self.Z, self.here = U, Z, here
        self.past.append((t, U))

    def matrices(self) -> AnyArray:
        """s_μH_μ of every sample where the walk stands, (L, n, r, r)."""
        bend = self.objective.curvature(self.here, np.float64)
        return newton_step.sample_matrices(bend, self.here.residual.shape)
