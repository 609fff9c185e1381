"""Where a measured learning curve goes with more data: laws through its points, and their band.

Laws of the form

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
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array

BAND = (0.05, 0.95)
REACH = 10  # times the data: further no curve is known to go on
N_DRAWS = 200  # curves drawn again, of each law, for the band
MOST_HIDDEN = 3  # points at the end of the curve that are forecast from those before
FEWEST_FITTED = 3  # points from which a law is fitted to judge it by hidden ones
SMALLEST_SQUARED_MISS = 1e-6  # of ln ε: below it laws weigh the same
# Laws with two shape parameters are not used where too few points can be hidden to judge them.
LAWS_OF_FEW_POINTS = ("pow3", "last")

Shape = Callable[[Array, Array, Array], Array]  # u(n, p, q)


@dataclass(frozen=True)
class _Law:
    """A shape u(n, p, q) and the grid (m, 2) of its p and q that is searched."""

    shape: Shape
    grid: Array

    def on_grid(self, n: Array) -> Array:
        """Return u (m, s) at sizes n (s,), for each p and q of the grid."""
        return self.shape(n, self.grid[:, :1], self.grid[:, 1:])


def _laws(first: float, last: float) -> dict[str, _Law]:
    """Return the laws by name, for points from sizes `first` to `last`."""

    def power(n: Array, p: Array, q: Array) -> Array:
        """Return a power law of n + q, 1 at the first size."""
        return np.asarray(((n + q) / (first + q)) ** -p)

    def sigmoid(n: Array, p: Array, q: Array) -> Array:
        """Return a curve that falls from 1 to 0 around n = q."""
        return np.asarray(1 / (1 + (n / q) ** p))

    shifts = first * np.array([-0.7, -0.4, 0.5, 2.0, 8.0, 30.0])
    middles = np.geomspace(first / 10, 30 * last, 20)
    return {
        "pow3": _Law(power, _pairs(np.geomspace(0.05, 3.0, 120), np.zeros(1))),
        "pow4": _Law(power, _pairs(np.geomspace(0.05, 3.0, 20), shifts)),
        "mmf4": _Law(sigmoid, _pairs(np.geomspace(0.2, 3, 20), middles)),
        "last": _Law(power, np.zeros((1, 2))),
    }


def _pairs(p: Array, q: Array) -> Array:
    """Return every pair of p and q, (m, 2)."""
    return np.stack([values.ravel() for values in np.meshgrid(p, q)], axis=1)


@dataclass(frozen=True)
class Forecast:
    """The error at any number of samples by a weighted mean of laws, with its band.

    Attributes
    ----------
    laws : dict
        By name p, q, a, c of a law, (r + 1, 4): of the curve, and of the r curves drawn again.
    weights : dict
        By name the weight of a law; they sum to 1.
    ends : (float, float)
        The first and last size that was measured.
    least : float
        Half a count, added to ε before logarithms are taken.
    best : float
        The error above which no forecast for more data goes.
    most : float
        The largest number of samples for which a forecast is given.
    """

    laws: dict[str, Array] = field(repr=False)
    weights: dict[str, float]
    ends: tuple[float, float]
    least: float
    best: float
    most: float

    def __call__(self, n: Any) -> Array:
        """Return ε at numbers of samples n (m,), with more data never worse than was measured."""
        logs = sum(weight * self._logs(name, n)[0] for name, weight in self.weights.items())
        values = np.maximum(np.exp(logs) - self.least, 0.0).reshape(np.shape(n))
        return np.where(np.asarray(n) >= self.ends[1], np.minimum(values, self.best), values)

    def band(self, n: Any) -> tuple[Array, Array]:
        """Return the lower and the upper end of the band at n (m,)."""
        logs = np.concatenate([self._logs(name, n)[1:] for name in self.weights])
        weights = np.repeat([*self.weights.values()], N_DRAWS)
        ends = np.quantile(logs, BAND, axis=0, weights=weights, method="inverted_cdf")
        low, high = np.maximum(np.exp(ends) - self.least, 0)
        value = self(n)
        return (
            np.minimum(low.reshape(value.shape), value),
            np.maximum(high.reshape(value.shape), value),
        )

    def _logs(self, name: str, n: Any) -> Array:
        """Return ln(ε + least) of a law at n (m,), (r + 1, m)."""
        n = np.asarray(n, dtype=float).ravel()
        if n.max() > self.most:
            raise InvalidInput(
                f"a forecast for {n.max():g} samples is refused: at most {REACH} times the data, "
                f"{self.most:g} samples"
            )
        p, q, a, c = self.laws[name].T[:, :, None]
        u = _laws(*self.ends)[name].shape(n, p, q)
        return np.asarray(np.log(np.maximum(a * u + c, 0) + self.least))


def forecast(
    sizes: Any, scores: Array, least: float, n_samples: float, *, fold: Any = None, seed: int = 0
) -> Forecast:
    """Fit laws to scores that were measured at growing numbers of samples.

    Parameters
    ----------
    sizes : array_like (s,)
        Numbers of training samples n, rising.
    scores : Array (s, N)
        Errors or losses of N held-out samples, or of N folds; NaN where a fit failed.
    least : float
        Half a count of held-out samples.
    n_samples : float
        The number of all samples.
    fold : array_like (N,), optional
        The fold of each held-out sample; without it each column is a fold.
    seed : int
        Of the curves drawn again.
    """
    n = np.asarray(sizes, dtype=float)
    rng = np.random.default_rng(seed)
    if fold is None:
        fold = np.arange(scores.shape[1])
    means = _drawn_means(scores, fold, least, rng)
    fitted: dict[str, Array] = {}
    squared_misses: dict[str, float] = {}
    for name, law in _laws(n[0], n[-1]).items():
        fitted[name] = _fit(law.on_grid(n), law.grid, means, least, name == "last")
        squared_misses[name] = _squared_miss(law, name, n, means, least)
    weight = np.array([(miss + SMALLEST_SQUARED_MISS) ** -2 for miss in squared_misses.values()])
    weights = dict(zip(fitted, (weight / weight.sum()).tolist(), strict=True))
    measured = means[0]
    falling = -isotonic_regression(-np.nan_to_num(measured, nan=1.0)).x
    best = min(float(falling[-1]), measured[0], measured[-1])
    return Forecast(fitted, weights, (n[0], n[-1]), least, best, REACH * float(n_samples))


def _drawn_means(scores: Array, fold: Any, least: float, rng: np.random.Generator) -> Array:
    """Return the mean scores (r + 1, s): as measured, then of r curves drawn again.

    Folds are drawn with replacement and, in them, samples. The distances from the measured curve
    in ln ε are stretched as Student's t, and half a count is drawn from Γ(1/2).
    """
    groups = [np.flatnonzero(fold == i) for i in range(int(fold.max()) + 1)]
    times_drawn = np.ones((N_DRAWS + 1, fold.size))
    for drawn in times_drawn[1:]:
        chosen = [groups[i] for i in rng.integers(0, len(groups), len(groups))]
        samples = np.concatenate([rng.choice(group, group.size) for group in chosen])
        drawn[:] = np.bincount(samples, minlength=fold.size)
    with np.errstate(invalid="ignore"):  # a draw may hold failed folds only
        means = times_drawn @ np.nan_to_num(scores).T / (times_drawn @ ~np.isnan(scores).T)
    degrees = max(len(groups) - 1, 1)
    logs = np.log(means + least)
    stretch = np.sqrt(degrees / rng.chisquare(degrees, (N_DRAWS, 1)))
    stretched = logs[0] + (logs[1:] - logs[0]) * stretch
    half_count = 2 * least * rng.gamma(0.5, size=(N_DRAWS, 1))
    means[1:] = np.maximum(np.exp(stretched) - least, 0) + half_count - least
    return np.asarray(means)


def _squared_miss(law: _Law, name: str, n: Array, means: Array, least: float) -> float:
    """Return the mean square of the misses in ln ε of hidden points at the end of the curve."""
    logs = np.log(means + least)
    u = law.on_grid(n)
    misses = []
    for hidden in range(1, MOST_HIDDEN + 1):
        if n.size - hidden < FEWEST_FITTED:
            continue
        before = _fit(u[:, :-hidden], law.grid, means[:, :-hidden], least, name == "last")
        p, q, a, c = before.T[:, :, None]
        ahead = a * law.shape(n[-hidden:], p, q) + c
        misses.append(np.log(np.maximum(ahead, 0) + least) - logs[:, -hidden:])
    if misses:
        return float(np.nanmean(np.hstack(misses) ** 2))
    if name in LAWS_OF_FEW_POINTS:
        return 0.0
    return math.inf


def _fit(u: Array, grid: Array, errors: Array, least: float, constant: bool) -> Array:
    """Return p, q, a, c (r, 4) of the law nearest to each curve of errors (r, s).

    For each u (m, s) of the grid (m, 2) the least squares of (a u + c − ε)/(ε + least) are linear
    in a and c; the u of least squares is taken. `constant` laws have a = 0 and c the last point.
    """
    seen = np.isfinite(errors)
    errors = np.where(seen, errors, 0.0)
    weight = np.where(seen, 1 / (errors + least), 0.0) ** 2
    if constant or u.shape[1] == 1:
        flat = np.tile([*grid[0], 0.0, 0.0], (len(errors), 1))
        flat[:, 3] = errors[:, -1]
        return flat
    # Weighted sums over sizes: of 1, u and u² (r, m), and of ε and uε.
    sum_1 = weight.sum(1)[:, None]
    sum_u = weight @ u.T
    sum_uu = weight @ (u**2).T
    sum_e = (weight * errors).sum(1)[:, None]
    sum_ue = (weight * errors) @ u.T
    determinant = sum_1 * sum_uu - sum_u**2
    with np.errstate(divide="ignore", invalid="ignore"):
        a = (sum_1 * sum_ue - sum_u * sum_e) / determinant
        c = (sum_uu * sum_e - sum_u * sum_ue) / determinant
    # Two points leave c open, and c is not negative: then the law has a alone; a < 0 has c alone.
    without_c = ~(c >= 0)
    if u.shape[1] <= 2:
        without_c = np.full(c.shape, True)
    a = np.where(without_c, sum_ue / sum_uu, a)
    c = np.where(without_c, 0.0, c)
    without_a = ~(a > 0)
    c = np.where(without_a, sum_e / sum_1, c)
    a = np.where(without_a, 0.0, a)
    squares = a**2 * sum_uu + 2 * a * c * sum_u + c**2 * sum_1 - 2 * a * sum_ue - 2 * c * sum_e
    best = squares.argmin(1)
    rows = np.arange(len(errors))
    return np.column_stack([grid[best], a[rows, best], c[rows, best]])
