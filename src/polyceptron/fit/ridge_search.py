"""Which ridge predicts best: fields of samples that a fit has not seen, along a path of λ.

    min_U Σ_μ s_μ ℓ(z_μ, y_μ) + (λ/2) Σ_j ρ_j ‖u_j‖²,    z = Ux̂,  x̂ = x/√d

with x the features scaled by *all* samples and ρ the share of the ridge that each feature bears.
Samples that are held out must not be seen by the scaling either: dividing a feature by the
deviation σ_j of the training samples is ρ_j = σ_j², in units of the deviation of all, and centring
it is the business of the intercept, whose share is next to nothing. Fields of held-out samples come
from folds (`fold_fits`) or from an approximate leave-one-out (`leave_one_out`).

The path goes down by decades and ends where the score has become clearly worse than the best; it
goes on where the best is at an end, and at last halfway to the better one of the two beside it.
Where classes can be told apart, the score of few samples falls for ever and knows nothing of what a
mistake would cost: ridges are compared with half a sample more, a mistaken one. The constants below
say at which gain the path and each fit end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from polyceptron.data.checks import Labels
from polyceptron.errors import InvalidInput
from polyceptron.fit.fold_fits import Folds
from polyceptron.fit.held_out_problem import HeldOutProblem, RidgeScore, Split
from polyceptron.fit.leave_one_out import LeaveOneOut
from polyceptron.fit.ridge_walk import POINTS_OF_EXTRAPOLATION
from polyceptron.fit.solvers.erm_fit import through_nearest
from polyceptron.numerics import Array

RIDGE_RATIO = 0.1  # of one ridge of a path to the one before
RIDGES_OF_A_PATH = 6  # from 1 down, in units of the features' variance, before the path goes on
RIDGE_LIMITS = 0.9e-9, 1.1e6  # how far the path may go on, in units of the features' variance
MISTAKEN_SAMPLES_ADDED = 0.5  # where ridges are compared: see the module's docstring
SMALLEST_FALL_OF_SCORE = 1e-3  # from one ridge to the next, for which going on is worth while
# Standard errors above the best that end a path: one of ridges that were given, and our own.
ERRORS_ABOVE_BEST_TO_STOP = 3.0, 1.0
# Standard errors of the difference by which another scaling than the first has to be better; to the
# first, the features for each sample are added, since few samples do not show the tails of many
# features. Over 160 fits to 50 to 500 samples of 60 tables the mean log-loss was lower than with
# 1, 1.5 or 2 alone (`benchmarks/scaling.py`); 'global' of features of one unit, which the digits of
# scikit-learn have, stays up to 2.
CLEAR = 1.0
CLEAR_OF_ONE_UNIT = 2.0
MAX_OPERATIONS_OF_REFITS = 3e8  # operations of one Newton step of all refits


class HeldOutFits(Protocol):
    """Fits that predict the samples held out of them."""

    method: str
    n_train: float
    sound: bool

    def held_out(self, ridge: float, best: RidgeScore | None) -> tuple[Array, Labels, Array]:
        """Return fields (m, k) of held-out samples, their rows (m,), and weights (d, k)."""

    def start(self, ridge: float) -> Array | None:
        """Return weights (d, k) of the minimiser of all samples, if that costs little."""


class Rival(NamedTuple):
    """The best ridge of another scaling, in units of its features' variance, and its score."""

    ridge: float
    score: RidgeScore


class Downhill(NamedTuple):
    """The factor from the best ridge to the next one beyond it, and the fall of the score there.

    Both are 0 unless the best is at an end of those tried.
    """

    factor: float
    fall: float


def choose_ridge(
    problem: HeldOutProblem,
    ridges: Sequence[float] | None,
    splits: list[Split] | None,
    fallback: list[Split] | None = None,
    *,
    between: bool = False,
    size: float = 1.0,
    rival: Rival | None = None,
) -> RidgeSearch:
    """Return the scores along the ridges, and the best ridge.

    Parameters
    ----------
    problem : HeldOutProblem
        What is fitted and scored.
    ridges : sequence of float, optional
        Ridges above 0. Without them the path finds its own.
    splits : list of (array, array), optional
        Rows to fit and rows held out of each fold; leave-one-out without.
    fallback : list of (array, array), optional
        Splits in place of a leave-one-out that cannot be relied on.
    between : bool, default=False
        Whether the best may lie between two of those tried.
    size : float, default=1.0
        Variance of the features, the unit of the path's own ridges.
    rival : Rival, optional
        The path stays near its best ridge, and goes on while it may beat that.
    """
    if ridges is not None and not (len(ridges) and min(ridges) > 0):
        raise InvalidInput(f"ridges must be numbers above 0, at least one, got {ridges!r}")
    budget = math.inf
    if fallback is not None:
        budget = MAX_OPERATIONS_OF_REFITS
    fits: HeldOutFits = LeaveOneOut(problem, budget) if splits is None else Folds(problem, splits)
    path = RidgeSearch(problem, fits, own=ridges is None)
    try:
        if ridges is not None:
            falling = sorted({float(ridge) for ridge in ridges}, reverse=True)
            path.down(falling, ERRORS_ABOVE_BEST_TO_STOP[0])
        else:
            path.find(size, rival)
    except KeyboardInterrupt:
        if not path.tried:
            raise
        path.interrupted = True
    if fallback is not None and not (path.chosen.sound or path.interrupted):
        return choose_ridge(problem, ridges, fallback, between=between, size=size, rival=rival)
    path.between = between and ridges is None and not path.interrupted
    return path


class RidgeSearch:
    """Ridges tried, from large to small, and where to go from there.

    Parameters
    ----------
    problem : HeldOutProblem
        What is fitted and scored.
    fits : HeldOutFits
        The fits that predict held-out samples.
    own : bool
        Whether the path finds its own ridges.

    Attributes
    ----------
    tried : list of RidgeScore
        From the largest ridge to the smallest.
    interrupted : bool
        Whether the user stopped it.
    between : bool
        Whether the best ridge may lie between those tried.
    """

    def __init__(self, problem: HeldOutProblem, fits: HeldOutFits, *, own: bool) -> None:
        self.problem = problem
        self.fits = fits
        self.own = own
        self.method = fits.method
        self.tried: list[RidgeScore] = []
        self.interrupted = False
        self.between = False

    def run(self, ridge: float) -> RidgeScore:
        """Fit at a ridge, score the samples held out, and return the score."""
        best = None
        if self.own and self.tried:
            best = self.chosen
        fields, at, weights = self.fits.held_out(ridge, best)
        problem = self.problem
        y = problem.samples.y[at]
        share = problem.share[at]
        of_label = np.arange(fields.shape[1]) == y[:, None]
        likeliest_other = np.where(of_label, -math.inf, fields).argmax(1)
        mistaken = np.average(problem.score(fields, likeliest_other), weights=share)
        share_of_mistaken = 0.0
        if self.own:
            share_of_mistaken = MISTAKEN_SAMPLES_ADDED
        score = RidgeScore(
            ridge=ridge,
            values=np.append(problem.score(fields, y), mistaken),
            at=at,
            share=np.append(share, share_of_mistaken),
            weights=weights,
            sound=self.fits.sound,
            also={name: further(fields, y) for name, further in problem.also.items()},
        )
        self.tried = sorted([*self.tried, score], key=lambda tried: -tried.ridge)
        n_tried = len(self.tried)
        n_expected = max(n_tried, 12)
        problem.samples.design.watch.step(n_tried, n_expected, math.inf, 0.0, score.mean)
        return score

    @property
    def chosen(self) -> RidgeScore:
        """Return the best score, that of the largest ridge of equals."""
        return min(self.tried, key=lambda tried: tried.judged)

    def down(self, ridges: Sequence[float], enough: float) -> None:
        """Try falling ridges, until those since the best are worse by `enough` errors in all."""
        worse = 0.0
        for ridge in ridges:
            score = self.run(ridge)
            if score is self.chosen:
                worse = 0.0
            else:
                worse += score.above(self.chosen)
            if worse > enough:
                break

    def find(self, size: float, rival: Rival | None) -> None:
        """Go by decades to where the score is lowest, and halfway to the better one beside it.

        With a rival, the path starts at its best ridge, and ends once one more such fall of the
        score would not beat it by the standard error that another scaling needs.
        """
        ridges = RIDGE_RATIO ** np.arange(float(RIDGES_OF_A_PATH))
        if rival is not None:
            ridges = rival.ridge * RIDGE_RATIO ** np.array([-0.5, 0.0])
        self.down((size * ridges).tolist(), ERRORS_ABOVE_BEST_TO_STOP[1])
        smallest, largest = RIDGE_LIMITS
        while True:
            downhill = self.downhill()
            ridge = self.chosen.ridge * downhill.factor
            if rival is not None and self._out_of_reach(rival.score, downhill.fall):
                return
            if not smallest <= ridge / size <= largest:
                break
            self.run(ridge)
        self._try_beside_best()

    def _out_of_reach(self, rival: RidgeScore, fall: float) -> bool:
        """Return whether one more fall of the score would not beat the rival clearly."""
        above, error = self.chosen.apart(rival)
        return above + CLEAR * error >= fall

    def _try_beside_best(self) -> None:
        """Try the ridge halfway from the best to the better one beside it, if it has two."""
        best = self.chosen
        i = self.tried.index(best)
        if 0 < i < len(self.tried) - 1:
            beside = min(self.tried[i - 1], self.tried[i + 1], key=lambda tried: tried.judged)
            self.run(math.sqrt(best.ridge * beside.ridge))

    def downhill(self) -> Downhill:
        """Return where the score falls on beyond the best of all tried, and by how much."""
        if len(self.tried) < 2:
            return Downhill(0.0, 0.0)
        best = self.chosen
        ends = (
            (self.tried[0], self.tried[1], 1 / RIDGE_RATIO),
            (self.tried[-1], self.tried[-2], RIDGE_RATIO),
        )
        for end, beside, factor in ends:
            fall = beside.judged - end.judged
            if best is end and fall > SMALLEST_FALL_OF_SCORE:
                return Downhill(factor, fall)
        return Downhill(0.0, 0.0)

    @property
    def n_train(self) -> float:
        """Return the mean number of samples of the fits that samples are held out of."""
        return self.fits.n_train

    @property
    def edge(self) -> str:
        """Return 'smallest' or 'largest' if the score falls on beyond the best of all tried."""
        factor = self.downhill().factor
        if factor == 0:
            return ""
        if factor < 1:
            return "smallest"
        return "largest"

    @property
    def start(self) -> Array:
        """Return weights (d, k) near the minimiser at the best ridge."""
        start = self.fits.start(self.best)
        if start is not None:
            return start
        points = [(math.log(tried.ridge), tried.weights) for tried in self.tried]
        return through_nearest(points, math.log(self.best), POINTS_OF_EXTRAPOLATION)

    @property
    def best(self) -> float:
        """Return the ridge chosen, or the lowest point of the parabola in ln λ around it."""
        i = self.tried.index(self.chosen)
        if not self.between or not 0 < i < len(self.tried) - 1:
            return self.chosen.ridge
        around = self.tried[i - 1 : i + 2]
        log_ridges = np.log([tried.ridge for tried in around])
        scores = np.array([tried.judged for tried in around])
        bend, slope, _ = np.polyfit(log_ridges - log_ridges[1], scores, 2)
        if bend > 0 and scores[1] == scores.min():
            return float(np.exp(log_ridges[1] - slope / (2 * bend)))
        return self.chosen.ridge
