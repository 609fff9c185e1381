"""Error and log-loss of a classifier on samples it has not seen, and where they go with more data.

At growing numbers n of training samples both are measured by cross-validation. Laws of the form

    ε(n) ≈ a u(n) + c,      a, c ≥ 0, u falling

are fitted by least squares of the relative residuals, for each u of a grid:

    pow3    u = n^(−p)                      pow4    u = (n + q)^(−p)
    mmf4    u = 1/(1 + (n/q)^p)             last    no change: a = 0, c the last point

What each counts for follows from hidden points: the last one, two and three are forecast from those
before, and a law weighs as the mean square of the misses in ln ε to the power −2. The forecast is
the weighted mean of the laws in ln ε. Its band holds 90 of 100 of what the laws say of curves drawn
again. One is drawn from the folds and, in them, the samples. Since K folds tell of their spread
with K − 1 degrees of freedom, its distance from the measured curve in ln ε is stretched by
√((K − 1)/χ²), as Student's; and since no mistake among N samples is not a rate of 0, the half
mistake that is added to all counts (Jeffreys) is drawn from its law, Γ(1/2).
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array

Whole = NDArray[np.int64]
_TINY = 1e-15  # a probability below which losses count no more


@dataclass(frozen=True)
class MeasuredErrors:
    """Training sizes (s,), and of the N samples held out, fold after fold, how they fared.

    `wrong` (s, N) is 0 or 1 with NaN where a fit failed, `fold` (N,) the number of its fold,
    `training` (s, folds) the error on the samples learnt from. If probabilities were asked for,
    `losses` (s, N) are minus the logarithms of the labels', and at the largest size `chances`
    (N, k) are all of them; `index` (N,) says which samples these are.
    """

    sizes: Whole
    wrong: Array
    fold: Whole
    training: Array
    chances: Array
    losses: Array
    index: Whole

    @property
    def folds(self) -> Array:
        """The error of each fold, (s, folds)."""
        each = [self.wrong[:, self.fold == i].mean(1) for i in range(self.fold.max() + 1)]
        return np.stack(each, axis=1)

    @property
    def errors(self) -> Array:
        """The mean over the folds, (s,)."""
        return np.asarray(np.nanmean(self.folds, axis=1))


def measure_errors(
    clf: Any,
    X: Any,
    y: NDArray[Any],
    train_sizes: Any = None,
    cv: Any = 5,
    random_state: Any = 0,
    n_jobs: int | None = None,
    *,
    chances: bool = False,
    progress: Callable[[str], None] = lambda text: None,
) -> MeasuredErrors:
    """Fit parts of the training samples of each fold, each part in the next, every class in it.

    `train_sizes` are counts, or shares of the largest that there is. Sizes at which nothing could
    be fitted (of one class only, for example) are left out.
    """
    from joblib import Parallel, delayed
    from sklearn.model_selection import StratifiedKFold, check_cv
    from sklearn.utils import check_random_state

    if isinstance(cv, int):
        rare = int(np.unique(y, return_counts=True)[1].min())
        if not 2 <= cv <= rare:
            raise InvalidInput(
                f"cv must be from 2 to the number of samples of the rarest class, {rare} of "
                f"{len(y)}, got {cv}: give more samples, or fewer folds"
            )
        cv = StratifiedKFold(cv, shuffle=True, random_state=random_state)
    splits = list(check_cv(cv, y, classifier=True).split(X, y))
    most = min(len(train) for train, _ in splits)
    sizes = np.atleast_1d(np.geomspace(0.1, 1.0, 6) if train_sizes is None else train_sizes)
    shares = sizes.dtype.kind == "f"
    allowed = sizes.size and sizes.dtype.kind in "iuf"
    if not (allowed and ((sizes > 0) & (sizes <= (1 if shares else most))).all()):
        raise InvalidInput(
            f"training sizes are counts from 1 to {most} or shares above 0 up to 1.0, got "
            f"{train_sizes}"
        )
    sizes = np.unique((np.maximum(sizes * most, 1) if shares else sizes).astype(np.int64))
    rng = check_random_state(random_state)
    work = []
    for train, test in splits:
        order = train[rng.permutation(train.size)]  # random, but for one of each class at its start
        first = order[np.unique(y[order], return_index=True)[1]]
        order = np.concatenate([first, order[~np.isin(order, first)]])
        work.append(delayed(_one_fold)(clf, X, y, order, test, sizes, chances))
    found = []
    for one in Parallel(n_jobs=n_jobs, return_as="generator")(work):
        found.append(one)
        progress(f"measuring the learning curve, {len(found)} of {len(splits)} parts done")
    wrong, training, given, losses = zip(*found, strict=True)
    held_out = np.repeat(np.arange(len(splits)), [test.size for _, test in splits])
    everything = np.concatenate(wrong, axis=1)
    kept = np.isfinite(everything).any(1)
    if not kept.any():
        raise InvalidInput("the classifier could not be fitted at any of the training sizes")
    return MeasuredErrors(
        sizes[kept],
        everything[kept],
        held_out,
        np.stack(training, 1)[kept],
        np.concatenate(given),
        np.concatenate(losses, axis=1)[kept],
        np.concatenate([test for _, test in splits]),
    )


def _one_fold(
    clf: Any, X: Any, y: NDArray[Any], order: Whole, test: Whole, sizes: Whole, chances: bool
) -> tuple[Array, Array, Array, Array]:
    """Columns of `MeasuredErrors`: wrong (s, t), training (s,), chances (t, k), losses (s, t)."""
    from sklearn.base import clone

    classes, label = np.unique(y), np.searchsorted(np.unique(y), y[test])
    wrong, losses = np.full((2, sizes.size, test.size), np.nan)
    training, given = np.full(sizes.size, np.nan), np.zeros((test.size, classes.size))
    X = X.iloc if hasattr(X, "iloc") else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of convergence, ridges and categories
        for row, size in enumerate(sizes):
            part = order[:size]
            try:
                fit = clone(clf).fit(X[part], y[part])
            except ValueError:  # so few samples hold one class only
                continue
            if chances:
                given[:, np.searchsorted(classes, fit.classes_)] = fit.predict_proba(X[test])
                losses[row] = -np.log(np.maximum(given[np.arange(test.size), label], _TINY))
                wrong[row] = given.argmax(1) != label
            else:
                wrong[row] = fit.predict(X[test]) != y[test]
            training[row] = np.mean(fit.predict(X[part]) != y[part])
    return wrong, training, given, losses


BAND = (0.05, 0.95)
REACH = 10  # times the data: further no curve is known to go on
_DRAWS = 200


def _laws(first: float, last: float) -> dict[str, tuple[Callable[..., Array], Array]]:
    """By name, u(n, p, q) and the grid (m, 2) of its p and q for points from `first` to `last`."""

    def power(n: Array, p: Array, q: Array) -> Array:
        return np.asarray(((n + q) / (first + q)) ** -p)

    def pairs(p: Array, q: Any) -> Array:
        return np.stack([x.ravel() for x in np.meshgrid(p, q)], axis=1)

    shifts = first * np.array([-0.7, -0.4, 0.5, 2.0, 8.0, 30.0])
    middles = np.geomspace(first / 10, 30 * last, 20)
    return {
        "pow3": (power, pairs(np.geomspace(0.05, 3.0, 120), [0.0])),
        "pow4": (power, pairs(np.geomspace(0.05, 3.0, 20), shifts)),
        "mmf4": (lambda n, p, q: 1 / (1 + (n / q) ** p), pairs(np.geomspace(0.2, 3, 20), middles)),
        "last": (power, np.zeros((1, 2))),
    }


@dataclass(frozen=True)
class Forecast:
    """Of each law p, q, a, c (r + 1, 4), of the curve and of curves drawn again, and its weight.

    `ends` are the first and last size; `least` is added to ε before logarithms; `best` is what more
    data do not make worse, `most` the reach.
    """

    laws: dict[str, Array] = field(repr=False)
    weights: dict[str, float]
    ends: tuple[float, float]
    least: float
    best: float
    most: float

    def __call__(self, n: Any) -> Array:
        """At numbers of samples n (m,): with more data it is never worse than was measured."""
        logs = sum(weight * self._logs(name, n)[0] for name, weight in self.weights.items())
        found = np.maximum(np.exp(logs) - self.least, 0.0).reshape(np.shape(n))
        return np.where(np.asarray(n) >= self.ends[1], np.minimum(found, self.best), found)

    def band(self, n: Any) -> tuple[Array, Array]:
        """Ends of the band at n (m,)."""
        logs = np.concatenate([self._logs(name, n)[1:] for name in self.weights])
        weights = np.repeat([*self.weights.values()], _DRAWS)
        ends = np.quantile(logs, BAND, axis=0, weights=weights, method="inverted_cdf")
        low, high = (np.maximum(np.exp(x) - self.least, 0).reshape(np.shape(n)) for x in ends)
        value = self(n)
        return np.minimum(low, value), np.maximum(high, value)

    def _logs(self, name: str, n: Any) -> Array:
        """ln(ε + least) of a law, (r + 1, m)."""
        n = np.asarray(n, dtype=float).ravel()
        if n.max() > self.most:
            raise InvalidInput(
                f"a forecast for {n.max():g} samples is refused: at most {REACH} times the data, "
                f"{self.most:g} samples"
            )
        p, q, a, c = self.laws[name].T[:, :, None]
        u = _laws(*self.ends)[name][0](n, p, q)
        return np.asarray(np.log(np.maximum(a * u + c, 0) + self.least))


def forecast(
    sizes: Any, scores: Array, least: float, n_samples: float, *, fold: Any = None, seed: int = 0
) -> Forecast:
    """From scores (s, N) at sizes n (s,), of samples held out in a `fold` (N,) each.

    Without `fold` each column is one. `least` is half a count of held-out samples, `n_samples` the
    number of all.
    """
    n, rng = np.asarray(sizes, dtype=float), np.random.default_rng(seed)
    fold = np.arange(scores.shape[1]) if fold is None else fold
    groups = [np.flatnonzero(fold == i) for i in range(int(fold.max()) + 1)]
    counts = np.ones((_DRAWS + 1, fold.size))  # how often each sample is drawn
    for drawn in counts[1:]:
        chosen = (groups[i] for i in rng.integers(0, len(groups), len(groups)))
        rows = np.concatenate([rng.choice(group, group.size) for group in chosen])
        drawn[:] = np.bincount(rows, minlength=fold.size)
    with np.errstate(invalid="ignore"):  # a draw may hold failed folds only
        means = counts @ np.nan_to_num(scores).T / (counts @ ~np.isnan(scores).T)
    logs, free = np.log(means + least), max(len(groups) - 1, 1)
    logs[1:] = logs[0] + (logs[1:] - logs[0]) * np.sqrt(free / rng.chisquare(free, (_DRAWS, 1)))
    half = 2 * least * rng.gamma(0.5, size=(_DRAWS, 1))
    means[1:] = np.maximum(np.exp(logs[1:]) - least, 0) + half - least
    laws, missed, logs = {}, {}, np.log(means + least)
    for name, (shape, grid) in _laws(n[0], n[-1]).items():
        u = shape(n, *grid.T[:, :, None])
        laws[name] = _fit(u, grid, means, least, name == "last")
        gaps = []
        for hidden in range(1, 4):
            if n.size - hidden >= 3:
                p, q, a, c = _fit(u[:, :-hidden], grid, means[:, :-hidden], least, name == "last").T
                ahead = a[:, None] * shape(n[-hidden:], p[:, None], q[:, None]) + c[:, None]
                gaps.append(np.log(np.maximum(ahead, 0) + least) - logs[:, -hidden:])
        few = 0.0 if name in ("pow3", "last") else math.inf  # of too few points nothing is hidden
        missed[name] = float(np.nanmean(np.hstack(gaps) ** 2)) if gaps else few
    weight = np.array([(miss + 1e-6) ** -2 for miss in missed.values()])
    weights = dict(zip(laws, (weight / weight.sum()).tolist(), strict=True))
    falling = -isotonic_regression(-np.nan_to_num(means[0], nan=1.0)).x
    best = min(float(falling[-1]), means[0][0], means[0][-1])
    return Forecast(laws, weights, (n[0], n[-1]), least, best, REACH * float(n_samples))


def _fit(u: Array, grid: Array, errors: Array, least: float, constant: bool) -> Array:
    """p, q, a, c (r, 4) of errors (r, s): for each u (m, s) the rest is linear, u is searched."""
    seen = np.isfinite(errors)
    errors = np.where(seen, errors, 0.0)
    weight = np.where(seen, 1 / (errors + least), 0.0) ** 2
    if constant or u.shape[1] == 1:
        flat = np.tile([*grid[0], 0.0, 0.0], (len(errors), 1))
        flat[:, 3] = errors[:, -1]
        return flat
    one, both, square = weight.sum(1)[:, None], weight @ u.T, weight @ (u**2).T
    along, total = (weight * errors) @ u.T, (weight * errors).sum(1)[:, None]
    determinant = one * square - both**2
    with np.errstate(divide="ignore", invalid="ignore"):
        a = (one * along - both * total) / determinant
        c = (square * total - both * along) / determinant
    # Two points leave c open, and c is not negative: then the law has a alone; a < 0 has c alone.
    alone = ~(c >= 0) if u.shape[1] > 2 else np.full(c.shape, True)
    c, a = np.where(alone, 0.0, c), np.where(alone, along / square, a)
    rising = ~(a > 0)
    c, a = np.where(rising, total / one, c), np.where(rising, 0.0, a)
    rest = a**2 * square + 2 * a * c * both + c**2 * one - 2 * a * along - 2 * c * total
    best, rows = rest.argmin(1), np.arange(len(errors))
    return np.column_stack([grid[best], a[rows, best], c[rows, best]])
