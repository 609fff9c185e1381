"""The features' covariance in its eigenbasis, and how the teacher's weights lie along it.

    x ~ N(0, Σ),   s_i   eigenvalues of Σ              θ_i   variance of the teacher's weights there

The paper has independent inputs of unit variance: one level, s = θ = 1 (`isotropic`).

The overall scales of the inputs and of the teacher's fields do not change the labels, so we fix
⟨s⟩ = 1 and ⟨sθ⟩ = 1, the variance of the teacher's fields; ⟨·⟩ is the mean over features. Features
with equal (s_i, θ_i) form one level, which has a fraction of the features. Directions without
variance (s = 0) have no level: the fractions of the others then sum to less than 1 (`rank`).

The teacher's fields may have a part that no linear function of the features shows, the `hidden`
share of their variance. It acts as Gaussian noise on the fields.

From data (`Spectrum.from_data`), n samples μ of r directions that vary: u_iμ are the whitened
coordinates in the eigenbasis, (1/n) Σ_μ u_iμ u_jμ = δ_ij, and p_h is the share of class h. The
least-squares fit of the one-hot labels has the coefficients c_ih = (1/n) Σ_μ u_iμ (1[y_μ = h] −
p_h). By Stein's lemma their means are proportional to √s_i W*_ih for Gaussian inputs. The variance
of c_ih is σ_h²/n, where σ_h² = RSS_h/(n − r − 1) is that of what the fit leaves of class h, RSS_h
its sum of squares (one degree of freedom went into the mean). So with a factor C, over drawn data,

    E Σ_h c_ih² = C s_iθ_i + noise,      noise = Σ_h RSS_h / (n(n − r − 1))

The noise of estimation is subtracted. If the estimate of a direction is then negative, it is
averaged with its neighbours until their mean is positive; the total is unchanged.

From a name (`as_spectrum`), a CSV file or a list of eigenvalues:

    isotropic                      independent features of unit variance
    power:A:D[:B]                  s_i ∝ i^(−A), i = 1 … D; θ equal, or sθ ∝ i^(−B)
    levels:SxF[@T],...             eigenvalue S for a fraction F of the features, signal T
    marchenko-pastur:RATIO         the sample covariance of RATIO = features/samples
    random-features:NONLIN:RATIO   φ = σ(Fg), RATIO features for each of the latent Gaussian inputs

Random features are equivalent to a linear map plus noise: with κ₁ = E zσ(z) and κ_*² what is left
of the variance, Σ = κ₁²FFᵀ + κ_*²I. If the teacher is linear in g, the best linear student sees the
share κ₁²μ/(κ₁²μ + κ_*²) of its field along an eigenvector of FFᵀ with eigenvalue μ, which is sθ up
to its scale; the rest is hidden from it.
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.checks import as_numbers
from polyceptron.data.labels import class_labels
from polyceptron.errors import InvalidInput
from polyceptron.files import read_text
from polyceptron.numerics import Array
from polyceptron.numerics.special import local_gauss
from polyceptron.problem.registry import Entry, Registry

__all__ = ["FEATURES", "Spectrum", "as_spectrum", "isotropic"]

RELATIVE_ZERO = 1e-10  # eigenvalues below this share of the largest are rounding and count as 0
MOST_LEVELS_IN_A_NAME = 40
MOST_FEATURES_OF_A_POWER_LAW = 100_000
# Steps of φ of a trapezoidal rule for the law of Marchenko and Pastur. Its relative error falls as
# min(c, 1/c)^401 with the ratio c: rounding up to 0.9 and from 1.1 on, 2e-4 at 0.99, 2.5e-3 at 1.
N_NODES_OF_MARCHENKO_PASTUR = 400
N_NODES_OF_MOMENTS = 60  # on each side of 0, of Gauss's rule
LEVEL_COLUMNS = ("eigenvalue", "signal", "fraction")  # of a spectrum's CSV file
_SPECTRA_BY_NAME: dict[str, Spectrum] = {}  # of this process: those with too many levels for a name


class Spectrum:
    """The levels of the features' covariance, and the variance of the teacher's weights on each.

    Parameters
    ----------
    eigenvalues : array_like
        s_i ≥ 0, one for each feature or level.
    signal : array_like, optional
        θ_i ≥ 0, the variance of the teacher's weights there; by default equal for all.
    fraction : array_like, optional
        The share of the features that belongs to each; by default equal for all.
    name : str, optional
        How rows name this spectrum; by default a name that `as_spectrum` reads back.
    hidden : float
        Share of the variance of the teacher's fields that no feature shows.
    remark : str
        A sentence that `describe` adds.

    Attributes
    ----------
    eigenvalues, signal, fraction : array (l,)
        s, θ and the fraction of each level, largest s first, scaled to ⟨s⟩ = ⟨sθ⟩ = 1.
    power : array (l,)
        sθ, the variance of the teacher's fields along a direction of each level.
    mean_eigenvalue, mean_signal : float
        The scales that were divided out.
    rank : float
        The fraction of the directions that vary at all.
    flat : bool
        Whether sθ = 1 on every level and none is missing. A Bayes-optimal student can whiten the
        features, so that for it they are independent ones.

    Examples
    --------
    >>> two = Spectrum([10, 1], fraction=[0.2, 0.8])
    >>> [round(float(s), 4) for s in two.eigenvalues], round(two.mean_eigenvalue, 4)
    ([3.5714, 0.3571], 2.8)
    """

    def __init__(
        self,
        eigenvalues: ArrayLike,
        signal: ArrayLike | None = None,
        fraction: ArrayLike | None = None,
        *,
        name: str | None = None,
        hidden: float = 0.0,
        remark: str = "",
    ) -> None:
        s = _checked(eigenvalues, "eigenvalues")
        if s.size == 0:
            raise InvalidInput("a spectrum needs at least one eigenvalue, got none")
        theta = _checked_or_equal(signal, "signal", s.size)
        share = _checked_or_equal(fraction, "fraction", s.size)
        if not share.sum() > 0:
            raise InvalidInput("the fractions of a spectrum are all 0")
        if not 0 <= hidden < 1:
            raise InvalidInput(f"the hidden share of a teacher is from 0 to below 1, got {hidden}")
        share = share / share.sum()
        self.mean_eigenvalue = float(share @ s)
        if not 0 < self.mean_eigenvalue < math.inf:
            raise InvalidInput("the eigenvalues of a spectrum are all 0: no feature varies")
        s = s / self.mean_eigenvalue
        self.mean_signal = float(share @ (s * theta)) * self.mean_eigenvalue
        if not 0 < self.mean_signal < math.inf:
            raise InvalidInput("the signal is 0 wherever a feature varies: there is no rule")
        theta = theta * (self.mean_eigenvalue / self.mean_signal)
        self.eigenvalues, self.signal, self.fraction = _levels_of(s, theta, share)
        self.power: Array = self.eigenvalues * self.signal
        for part in (self.eigenvalues, self.signal, self.fraction, self.power):
            part.setflags(write=False)
        self.rank = _total(self.fraction)
        self.flat = self.rank == 1 and bool((np.abs(self.power - 1) < 1e-13).all())
        self.isotropic = self.flat and bool((self.eigenvalues == 1).all())
        self.hidden = float(hidden)
        self.remark = remark
        self.name: str = self._readable_name() if name is None else name

    @cached_property
    def feature_quadrature(self) -> tuple[Array, Array]:
        """Nodes s (n,) and weights (n,): Σ w g(s) ≈ ⟨g(s)⟩ for g that is smooth in ln s.

        Few levels are their own nodes. Where there are many, the axis of ln s is cut into short
        intervals and the levels of each are replaced by Gauss's rule for them, which integrates the
        smooth functions of the theory to rounding (`local_gauss` has the numbers).
        """
        return local_gauss(self.eigenvalues, self.fraction)

    @cached_property
    def field_quadrature(self) -> tuple[Array, Array]:
        """Nodes s (n,) and weights (n,): Σ w g(s) ≈ ⟨sθ g(s)⟩, a mean over the teacher's field."""
        return local_gauss(self.eigenvalues, self.fraction * self.power)

    def at(self, dimension: int) -> tuple[Array, Array]:
        """Return s (d,) and θ (d,) of d features, largest first.

        Feature i has the mean over the i-th of d equal parts of the spectrum.
        """
        if self.isotropic:
            return np.ones(dimension), np.ones(dimension)
        s = self._means(self.eigenvalues, dimension)
        power = self._means(self.power, dimension)
        with np.errstate(invalid="ignore", divide="ignore"):
            return s, np.where(s > 0, power / s, 0.0)

    def _means(self, values: Array, dimension: int) -> Array:
        """Return the means (d,) of values (l,) over d equal parts of the features."""
        ends = np.concatenate([[0.0], np.cumsum(self.fraction)])
        edges = np.linspace(0.0, 1.0, dimension + 1)
        below = np.concatenate([[0.0], np.cumsum(self.fraction * values)])
        return np.maximum(np.diff(np.interp(edges, ends, below)) * dimension, 0.0)

    def deviations(self, dimension: int) -> Array:
        """Return √s (d, 1), which turns weights into those of features of unit variance."""
        return np.asarray(np.sqrt(self.at(dimension)[0])[:, None])

    def table(self) -> str:
        """Return the levels as CSV text that `as_spectrum` reads.

        The columns are eigenvalue, signal and fraction, and for a teacher with a hidden part
        `hidden`, the same number in every line.
        """
        columns = (self.eigenvalues.tolist(), self.signal.tolist(), self.fraction.tolist())
        levels: list[tuple[float, ...]] = list(zip(*columns, strict=True))
        if self.rank < 1:
            levels.append((0.0, 0.0, 1 - self.rank))
        names = list(LEVEL_COLUMNS)
        if self.hidden > 0:
            names.append("hidden")
            levels = [(*level, self.hidden) for level in levels]
        lines = [",".join(repr(number) for number in level) for level in levels]
        return "\n".join([",".join(names), *lines, ""])

    @classmethod
    def from_data(cls, X: ArrayLike, y: ArrayLike | None = None) -> Spectrum:
        """Return the spectrum of the covariance of X (n, d), and with y (n,) the signal along it.

        Parameters
        ----------
        X : array_like of shape (n, d)
        y : array_like of shape (n,), optional
            Labels; without them the signal is equal in all directions.

        Returns
        -------
        Spectrum
        """
        A = _checked_samples(X)
        n, d = A.shape
        A = A - A.mean(0)
        if d <= n:
            values, vectors = np.linalg.eigh(A.T @ A / n)
        else:
            values = np.concatenate([np.linalg.eigvalsh(A @ A.T / n), np.zeros(d - n)])
        values = np.where(values > RELATIVE_ZERO * values.max(), values, 0.0)
        wider = f"whose noise widens it by about {2 * (d / n) ** 0.5:.0%}"
        spread = f"from {n} samples of {d} features, {wider}"
        if y is None:
            return cls(values, remark=spread)
        classes, index = np.unique(class_labels(y, n), return_inverse=True)
        if n <= d + 1:
            needed = f"needs more than {d + 1} samples, got {n}"
            raise InvalidInput(f"the signal along {d} features {needed}")
        varies = values > 0
        whitened = A @ (vectors[:, varies] / np.sqrt(values[varies]))
        fit = _signal_of_labels(whitened, np.eye(classes.size)[index])
        signal = np.zeros(d)
        signal[varies] = fit.power / values[varies]
        removed = f"{fit.removed:.1%} of the fitted signal was noise of estimation and is removed"
        return cls(values, signal, remark=f"{spread}; {removed}")

    def _readable_name(self) -> str:
        """Return a name that reads back: the levels themselves, or a digest of too many."""
        if self.isotropic and self.hidden == 0:
            return "isotropic"
        if len(self.eigenvalues) <= MOST_LEVELS_IN_A_NAME and self.hidden == 0 and self.rank == 1:
            parts = (self.eigenvalues, self.fraction, self.signal)
            levels = zip(*(part.tolist() for part in parts), strict=True)
            return "levels:" + ",".join(f"{s!r}x{f!r}@{t!r}" for s, f, t in levels)
        name = f"spectrum#{self.digest}"
        _SPECTRA_BY_NAME[name] = self
        return name

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits, a hash of all numbers to nine figures."""
        parts = (self.eigenvalues, self.signal, self.fraction, [self.hidden])
        text = " ".join(f"{x:.8e}" for part in parts for x in part)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def _values(self) -> tuple[str | float | bytes, ...]:
        arrays = (self.eigenvalues, self.signal, self.fraction)
        return (self.name, self.hidden, *(part.tobytes() for part in arrays))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spectrum) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    def __repr__(self) -> str:
        return f"Spectrum({self.describe()})"

    def describe(self) -> str:
        """Return the levels and the normalisation in words."""
        s = self.eigenvalues
        n = len(s)
        parts = [self.name] if len(self.name) < 60 else []
        if n > 1:
            parts.append(f"{n} levels from {s[-1]:.3g} to {s[0]:.3g}")
        if self.rank < 1:
            parts.append(f"{1 - self.rank:.3g} of the directions without variance")
        if max(abs(self.mean_eigenvalue - 1), abs(self.mean_signal - 1)) > 1e-9:
            parts.append(
                f"eigenvalues divided by {self.mean_eigenvalue:.6g} to mean 1, "
                f"fields by {math.sqrt(self.mean_signal):.6g} to variance 1"
            )
        if self.hidden > 0:
            parts.append(f"{self.hidden:.4g} of the teacher hidden, which acts as noise")
        if self.remark:
            parts.append(self.remark)
        return "; ".join(parts)


@lru_cache(maxsize=1)
def isotropic() -> Spectrum:
    """Return the spectrum of independent features of unit variance."""
    return Spectrum(np.ones(1), name="isotropic")


class _FittedSignal(NamedTuple):
    """The signal sθ (r,) along r directions, and the share of the fit that was noise."""

    power: Array
    removed: float


def _checked_samples(X: ArrayLike) -> Array:
    """Return X (n, d) as finite numbers, of 2 samples or more."""
    samples = as_numbers(X, "X").astype(float)
    if samples.ndim != 2 or samples.shape[0] < 2 or samples.shape[1] < 1:
        known = f"(samples, features) with 2 samples or more, got {samples.shape}"
        raise InvalidInput(f"X must be {known}")
    if not np.isfinite(samples).all():
        raise InvalidInput("X must be finite")
    return samples


def _signal_of_labels(whitened: Array, one_hot: Array) -> _FittedSignal:
    """Return Σ_h c_ih² − noise (r,) of least squares on U (n, r) and one-hot labels (n, k).

    A fit is refused only if noise alone explains all of it: a signal hardly above the noise passes,
    and its remark says how much was removed.
    """
    n, r = whitened.shape
    target = one_hot - one_hot.mean(0)
    c = whitened.T @ target / n
    raw = (c**2).sum(1)
    residual_squares = float(((target - whitened @ c) ** 2).sum())  # Σ_h RSS_h
    noise = residual_squares / (n * (n - r - 1))  # the sum over h of the variances of c_ih
    removed = r * noise / float(raw.sum())
    if not removed < 1:
        raise InvalidInput("the labels show no linear signal beyond the noise of estimation")
    return _FittedSignal(_pooled(raw - noise), removed)


def _levels_of(s: Array, theta: Array, share: Array) -> tuple[Array, Array, Array]:
    """Return s, θ and fraction (l,) of the levels of equal (s, θ), largest first.

    Features without variance, and levels without features, are left out.
    """
    keep = (s > 0) & (share > 0)
    pairs, place = np.unique(np.stack([-s[keep], -theta[keep]]), axis=1, return_inverse=True)
    fraction = np.asarray(np.bincount(place.ravel(), weights=share[keep]), dtype=float)
    if len(fraction) == 1 and _total(fraction) == 1:  # independent features: exactly 1
        return np.ones(1), np.ones(1), np.ones(1)
    return -pairs[0], -pairs[1], fraction


def _total(fraction: Array) -> float:
    """Return the sum of the fractions (l,), 1 exactly where only rounding tells it from 1."""
    total = float(fraction.sum())
    return 1.0 if abs(total - 1) < 1e-12 else total


def _checked_or_equal(values: ArrayLike | None, what: str, size: int) -> Array:
    """Return the values as an array (size,) of numbers of 0 or more; all 1 if none are given."""
    if values is None:
        return np.ones(size)
    return _checked(values, what, size)


def _checked(values: ArrayLike, what: str, size: int | None = None) -> Array:
    """Return the values as an array (size,) of finite numbers of 0 or more."""
    array = np.atleast_1d(as_numbers(values, f"the {what} of a spectrum")).astype(float)
    if array.ndim != 1:
        raise InvalidInput(f"the {what} of a spectrum must be a list, got shape {array.shape}")
    if size is not None and array.size != size:
        raise InvalidInput(f"a spectrum of {size} eigenvalues has {array.size} values of {what}")
    bad = array[~(np.isfinite(array) & (array >= 0))]
    if bad.size:
        raise InvalidInput(
            f"the {what} of a spectrum must be finite numbers of 0 or more, got {float(bad[0])!r}"
        )
    return array


def _pooled(values: Array) -> Array:
    """Return values (r,), averaged over blocks of neighbours whose means are all positive.

    Blocks begin at the first value (the smallest eigenvalue of `from_data`) and end as soon as
    their sum is positive. A last block that is not positive joins the one before.
    """
    blocks: list[list[float]] = [[]]
    for value in values.tolist():
        if sum(blocks[-1]) > 0:
            blocks.append([])
        blocks[-1].append(value)
    while len(blocks) > 1 and sum(blocks[-1]) <= 0:
        blocks[-2:] = [blocks[-2] + blocks[-1]]
    return np.concatenate([np.full(len(block), np.mean(block)) for block in blocks])


FEATURES: Registry[Spectrum] = Registry("features", Spectrum)


def as_spectrum(features: Any) -> Spectrum:
    """Return a `Spectrum`, or the one of a registered name, a CSV file, or a list of eigenvalues.

    >>> as_spectrum([2.0, 1.0]).name
    'levels:1.3333333333333333x0.5@1.0,0.6666666666666666x0.5@1.0'
    """
    if isinstance(features, np.ndarray | list | tuple):
        return Spectrum(features)
    text = features if isinstance(features, str) else ""
    if isinstance(features, Path) or "#" in text or text.lower().endswith(".csv"):
        return _read_file(str(features))
    try:
        return FEATURES.read(features)
    except InvalidInput:
        raise
    except (TypeError, ValueError):
        raise InvalidInput(
            f"cannot read the features {features!r}: allowed are {FEATURES.help}, or the path of "
            "a CSV file"
        ) from None


def _read_file(text: str) -> Spectrum:
    """Return the spectrum of 'path.csv', or of 'path.csv#digest' if its numbers are the same."""
    path, _, digest = text.partition("#")
    if text in _SPECTRA_BY_NAME:
        return _SPECTRA_BY_NAME[text]
    if path == "spectrum":
        raise InvalidInput(
            f"the features {text!r} were made in another process: write them to a CSV file "
            "(Spectrum.table) and give its path"
        )
    found = _parse_table(read_text(path, "spectrum file"), path)
    if digest and digest != found.digest:
        raise InvalidInput(
            f"the spectrum file {path!r} is not the one that was used before ({digest}): its "
            f"numbers now have the digest {found.digest}"
        )
    found.name = f"{path}#{found.digest}"
    return found


def _parse_table(text: str, path: str) -> Spectrum:
    """Return the spectrum of a table with the columns of `Spectrum.table`, in any order."""
    lines = [line for line in csv.reader(text.splitlines()) if line]
    head: list[str] = []
    if lines:
        head = [name.strip().lower() for name in lines[0]]
    missing = [name for name in ("eigenvalue", "signal") if name not in head]
    if missing:
        raise InvalidInput(
            f"the spectrum file {path!r} needs the columns eigenvalue and signal (and may have "
            f"fraction and hidden), but has no {' and no '.join(missing)}"
        )
    places = {name: head.index(name) for name in (*LEVEL_COLUMNS, "hidden") if name in head}
    rows = [_numbers_of_line(line, places, i, path) for i, line in enumerate(lines[1:], 2)]
    columns = [[row[name] for row in rows] for name in LEVEL_COLUMNS if name in head]
    return Spectrum(*columns, hidden=_hidden_of_lines(rows, path))


def _hidden_of_lines(rows: list[dict[str, float]], path: str) -> float:
    """Return the hidden share of the teacher, which all lines of a table state alike."""
    shares = {row.get("hidden", 0.0) for row in rows}
    if len(shares) > 1:
        raise InvalidInput(
            f"the column hidden of the spectrum file {path!r} must have one number in all lines, "
            f"got {len(shares)} different ones"
        )
    return shares.pop() if shares else 0.0


def _numbers_of_line(
    line: list[str], places: dict[str, int], number: int, path: str
) -> dict[str, float]:
    """Return the numbers of one line of a table by the names of their columns."""
    numbers = {}
    for name, place in places.items():
        try:
            numbers[name] = float(line[place])
        except (ValueError, IndexError):
            raise InvalidInput(
                f"line {number} of the spectrum file {path!r} has no number for {name}"
            ) from None
    return numbers


def power_law(exponent: float, n_features: float, signal_exponent: float | None = None) -> Spectrum:
    """Return s_i ∝ i^(−a) of d features, with sθ ∝ i^(−b), by default with equal θ."""
    if not (n_features == int(n_features) and 1 <= n_features <= MOST_FEATURES_OF_A_POWER_LAW):
        raise InvalidInput(
            f"a power law has from 1 to {MOST_FEATURES_OF_A_POWER_LAW} features, "
            f"got {_short(n_features)}"
        )
    for value in (exponent, signal_exponent or 0.0):
        if not (math.isfinite(value) and 0 <= value <= 20):
            raise InvalidInput(f"the exponent of a power law is from 0 to 20, got {_short(value)}")
    i = np.arange(1.0, int(n_features) + 1)
    s = i**-exponent
    name = f"power:{_short(exponent)}:{int(n_features)}"
    if signal_exponent is None:
        return Spectrum(s, name=name)
    theta = i ** (exponent - signal_exponent)
    return Spectrum(s, theta, name=f"{name}:{_short(signal_exponent)}")


def marchenko_pastur(ratio: float) -> Spectrum:
    """Return the law of the eigenvalues of a sample covariance, features/samples = c."""
    s, fraction, rank = _mp_law(_check_ratio(ratio))
    eigenvalues = np.append(s, 0.0)
    weights = np.append(fraction, 1 - rank)
    return Spectrum(eigenvalues, None, weights, name=f"marchenko-pastur:{_short(ratio)}")


def _mp_law(ratio: float) -> tuple[Array, Array, float]:
    """Return nodes s = 1 + c + 2√c cos φ, weights 2 sin²φ/(πs)·dφ, and the weight of s > 0.

    The weights are normalised to that weight, min(1, 1/c).
    """
    n = N_NODES_OF_MARCHENKO_PASTUR
    phi = np.arange(1, n + 1) * math.pi / (n + 1)
    s = 1 + ratio + 2 * math.sqrt(ratio) * np.cos(phi)
    weight = np.sin(phi) ** 2 / s
    rank = min(1.0, 1 / ratio)
    return s, weight * (rank / weight.sum()), rank


NONLINEARITIES: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0.0),
}


def random_features(nonlinearity: str, ratio: float | str) -> Spectrum:
    """Return centred features σ(Fg) of Gaussian g, `ratio` of them for each latent input.

    The teacher is linear in g.
    """
    if nonlinearity not in NONLINEARITIES:
        allowed = " and ".join(NONLINEARITIES)
        raise InvalidInput(
            f"unknown nonlinearity {nonlinearity!r} of random features: allowed are {allowed}"
        )
    ratio = _check_ratio(float(ratio))
    linear, nonlinear = moments(NONLINEARITIES[nonlinearity])
    mu, fraction, rank = _mp_law(ratio)
    mu = np.append(mu, 0.0)
    fraction = np.append(fraction, 1 - rank)
    s = linear**2 * mu + nonlinear
    seen_share = linear**2 * mu / s  # of the variance of the teacher's field along a feature
    # The mean over features times features/latent is the mean over latent directions.
    hidden = max(0.0, 1 - ratio * float(fraction @ seen_share))
    name = f"random-features:{nonlinearity}:{_short(ratio)}"
    return Spectrum(s, seen_share / s, fraction, name=name, hidden=hidden)


def moments(sigma: Callable[[Array], Array]) -> tuple[float, float]:
    """Return κ₁ = E zσ(z) and κ_*² = Var σ(z) − κ₁² for a standard normal z.

    Gauss–Legendre on [−12, 0] and [0, 12], so that a kink at 0 costs no accuracy.
    """
    x, w = np.polynomial.legendre.leggauss(N_NODES_OF_MOMENTS)
    z = np.concatenate([6 * (x - 1), 6 * (x + 1)])
    weight = np.tile(6 * w, 2) * np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    value = sigma(z)
    mean = float(weight @ value)
    linear = float(weight @ (z * value))
    square = float(weight @ value**2)
    return linear, square - mean**2 - linear**2


def _check_ratio(ratio: float) -> float:
    """Return the ratio if it is in the range that the tables of eigenvalues cover."""
    if not (math.isfinite(ratio) and 1e-3 <= ratio <= 1e3):
        raise InvalidInput(f"a ratio of features is from 0.001 to 1000, got {_short(ratio)}")
    return float(ratio)


def _short(value: float) -> str:
    """Return a number without a trailing '.0'."""
    return repr(float(value)).removesuffix(".0")


def _read_levels(behind_name: str) -> Spectrum:
    """Return the spectrum whose levels stand behind the name, like ':10x0.2@1,1x0.8'."""
    s = []
    fraction = []
    theta = []
    for part in behind_name[1:].split(","):
        left, _, signal = part.partition("@")
        value, _, share = left.lower().partition("x")
        s.append(float(value))
        fraction.append(float(share) if share else 1.0)
        theta.append(float(signal) if signal else 1.0)
    return Spectrum(s, theta, fraction, name=f"levels{behind_name}")


# `Entry` says what its arguments are. The maker takes the numbers of `example` alone, with which
# menus and tests make a spectrum; `read` takes all text behind the name, with every parameter.
FEATURES.add(
    Entry("isotropic", "independent features of unit variance", isotropic, label="isotropic"),
    Entry(
        "power",
        "eigenvalues i^(-A) of D features",
        power_law,
        parameters=("a", "d[:b]"),
        example=(1.2, 200),
        label="power law",
        read=lambda behind_name: power_law(*map(float, behind_name[1:].split(":"))),
    ),
    Entry(
        "levels",
        "eigenvalue S of a fraction F, signal T",
        lambda: _read_levels(":4x0.2,0.25x0.8"),
        parameters=("variances x shares",),
        label="two levels",
        written="levels:4x0.1,0.67x0.9",
        read=_read_levels,
    ),
    Entry(
        "marchenko-pastur",
        "a sample covariance of this many features for each sample",
        marchenko_pastur,
        parameters=("ratio",),
        example=(0.5,),
        label="Marchenko–Pastur",
    ),
    Entry(
        "random-features",
        "tanh or relu of this many random projections of each latent input",
        lambda ratio: random_features("tanh", ratio),
        parameters=("tanh|relu", "ratio"),
        example=(2.0,),
        label="random features",
        read=lambda behind_name: random_features(*behind_name[1:].lower().split(":")),
    ),
)
