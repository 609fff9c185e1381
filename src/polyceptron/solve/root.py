"""Roots of a few equations F(θ) = 0: Newton's method with damping and Broyden's updates.

Each step solves J·step = −F(θ), where J is the Jacobian ∂F/∂θ. In the order of `DampedNewton.run`:

1. J is computed by forward differences, unless one from near by is at hand.
2. A step below the tolerance ends the search, if the step after it is much shorter still.
3. A longer step is shortened until it lowers the residual enough.
4. J is corrected by Broyden's rank-one update, or dropped if the step gained less than a half.

The unknowns of this package are logarithms of order parameters, so that a step of 1 is a factor e,
and the scale of every constant below is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array

Residual = Callable[[Array], Array]  # θ (n,) → F (n,)

LARGEST_UNKNOWN = 500.0  # |θ|: e^±500 covers every ridge that can be given
DIFFERENCE_STEP = 1e-5  # in θ: rounding (1e-11 over it) and curvature then both cost about 1e-5
# A residual below this may be what rounding leaves of it; above, F jumps between coarse nodes
# (test_newton_ends_where_coarse_nodes_jump).
ROUNDING_OF_RESIDUAL = 1e-4
GOOD_REDUCTION = 0.3  # of a step from one to the next: a root is near, the Jacobian still serves
# Of a residual by a step: below it Broyden's correction is worth more than a new Jacobian, which
# costs as many evaluations as there are unknowns. 0.45 and 0.6 take the fewest for the curves of
# four to a hundred classes.
REDUCTION_WORTH_CORRECTING = 0.5
# Least singular value of J above which no direction is nearly flat, and a small residual is a sign
# of a root (test_a_root_is_not_taken_on_the_word_of_a_stiff_jacobian).
LEAST_SLOPE = 0.03


class Root(NamedTuple):
    """Where a search for F(θ) = 0 ended.

    Attributes
    ----------
    theta : array (n,)
    residual : array (n,)
        F there.
    jacobian : array (n, n)
        An approximation of ∂F/∂θ there.
    converged : bool
    level : int
        The level of accuracy of the rule by which F was computed.
    """

    theta: Array
    residual: Array
    jacobian: Array
    converged: bool
    level: int = 0

    def step(self) -> Array:
        """Return Newton's next step (n,), which the search did not take."""
        return np.asarray(np.linalg.solve(self.jacobian, -self.residual))


def no_root(theta: Array) -> Root:
    """Return a search that failed at θ."""
    return Root(theta, np.full_like(theta, math.nan), np.eye(len(theta)), False)


def is_in_range(theta: Array) -> bool:
    """Return whether the exponentials of all unknowns can be computed with."""
    return bool(np.isfinite(theta).all() and np.abs(theta).max() < LARGEST_UNKNOWN)


def has_no_flat_direction(jacobian: Array) -> bool:
    """Return whether F changes clearly in every direction: then a short step is a sign of a root.

    Parameters
    ----------
    jacobian : array (n, n)
    """
    return float(np.linalg.norm(jacobian, -2)) > LEAST_SLOPE


def jacobian_at(
    residual: Residual, theta: Array, value: Array, first: Array | None = None
) -> Array:
    """Return ∂F/∂θ by forward differences.

    Parameters
    ----------
    residual : callable
        θ (n,) → F (n,).
    theta : array (n,)
    value : array (n,)
        F at θ.
    first : array (n,), optional
        The first column, if it is known.

    Returns
    -------
    array (n, n)
    """
    columns = [] if first is None else [first]
    for i in range(len(columns), len(theta)):
        shifted = theta.copy()
        shifted[i] += DIFFERENCE_STEP
        columns.append((residual(shifted) - value) / DIFFERENCE_STEP)
    return np.stack(columns, axis=1)


def newton(
    residual: Residual,
    theta: Array,
    *,
    tol: float = 1e-9,
    jacobian: Array | None = None,
    chord: bool = False,
) -> Root:
    """Solve F(θ) = 0, until the next step, which is not taken, is below the tolerance.

    Parameters
    ----------
    residual : callable
        θ (n,) → F (n,).
    theta : array (n,)
        Where the search begins.
    tol : float
        Of θ.
    jacobian : array (n, n), optional
        ∂F/∂θ from near by.
    chord : bool
        Accept a small residual and a short step as a root, even if the Jacobian is from elsewhere
        and may be too steep: the caller counts what is left.

    Returns
    -------
    Root

    Examples
    --------
    >>> found = newton(lambda x: np.expm1(x) - 1.0, np.array([0.0]))
    >>> found.converged, round(float(found.theta[0]), 8)
    (True, 0.69314718)
    """
    return DampedNewton(residual, theta, tol, jacobian, chord).run()


@dataclass(frozen=True)
class _Direction:
    """Newton's step (n,) at the present θ, and the singular value decomposition behind it."""

    step: Array
    inverse: Array  # of the Jacobian (n, n)
    axes: Array  # right singular vectors of the Jacobian, as rows (n, n)
    least_slope: float  # least singular value of the Jacobian

    @classmethod
    def of(cls, jacobian: Array, value: Array) -> _Direction:
        """Return the direction for F = `value`; its step is NaN where the Jacobian is singular."""
        known = jacobian
        if not np.isfinite(jacobian).all():
            known = np.zeros_like(jacobian)
        U, singular_values, axes = np.linalg.svd(known)
        inverse = math.nan * U
        if singular_values[-1] > 0:
            inverse = (axes.T / singular_values) @ U.T
        return cls(-inverse @ value, inverse, axes, float(singular_values[-1]))

    @property
    def length(self) -> float:
        """The largest change of an unknown."""
        return float(np.abs(self.step).max())


@dataclass(frozen=True)
class _Trial:
    """A point θ + scale·step that lowers the residual enough."""

    scale: float
    value: Array  # F there (n,)
    remaining: Array  # the step that would follow with the same Jacobian, up to its sign (n,)
    reduction: float  # of the residual, or of the step where F is nearly flat


@dataclass
class DampedNewton:
    """The state of one search; `run` is the loop, and each other method one of its steps."""

    residual: Residual
    theta: Array
    tol: float
    jacobian: Array | None = None  # None: to be computed
    chord: bool = False
    jacobian_is_fresh: bool = False  # computed at the present θ
    value: Array = field(init=False)  # F at the present θ

    def __post_init__(self) -> None:
        self.value = self.residual(self.theta)

    def run(self) -> Root:
        """Return where the search ended."""
        for _ in range(40):
            jacobian = self._current_jacobian()
            direction = _Direction.of(jacobian, self.value)
            if direction.length < self.tol:
                if self._confirms_root(direction):
                    return self._root(True)
                self.jacobian = None
                continue
            trial = self._shortened_step(direction)
            if trial is None and self.jacobian_is_fresh:
                return self._root(self._residual_is_rounding())
            if trial is None:
                self.jacobian = None
                continue
            if self._residual_jumps(direction, trial):
                return self._root(False)
            self.theta = self.theta + trial.scale * direction.step
            change = trial.value - self.value
            self.value = trial.value
            if self._what_remains_is_negligible(direction, trial):
                return self._root(True)
            self._update_jacobian(jacobian, direction, trial, change)
        return self._root(False)

    def _root(self, converged: bool) -> Root:
        jacobian = self.jacobian
        if jacobian is None:
            jacobian = np.eye(len(self.theta))
        return Root(self.theta, self.value, jacobian, converged)

    def _current_jacobian(self) -> Array:
        """Return the Jacobian, computed here if there is none."""
        if self.jacobian is None:
            self.jacobian = jacobian_at(self.residual, self.theta, self.value)
            self.jacobian_is_fresh = True
        return self.jacobian

    def _size(self) -> float:
        return float(np.abs(self.value).max())

    def _confirms_root(self, direction: _Direction) -> bool:
        """Return whether a short step shows a root.

        A Jacobian from elsewhere may be too steep and its step too short: then the step is taken,
        and the one after it must be much shorter.
        """
        if self.jacobian_is_fresh:
            return True
        if self.chord and self._size() < self.tol:
            return True
        after = self.residual(self.theta + direction.step)
        next_length = np.abs(direction.inverse @ after).max()
        if not next_length < GOOD_REDUCTION * direction.length:
            return False
        self.theta = self.theta + direction.step
        self.value = after
        return True

    def _shortened_step(self, direction: _Direction) -> _Trial | None:
        """Return the longest of a few steps that lowers the residual; None without any.

        Each is a third of the one before. A Jacobian from elsewhere is soon given up.

        Where F is nearly flat in a direction, the residual may rise, and what must fall is the
        length of the next step.
        """
        length = direction.length
        if not math.isfinite(length):
            return None
        scale = 1.0
        if length > 0:
            longest = 1.5  # a factor 4.5 of an order parameter
            scale = min(1.0, longest / length)
        n_trials = 2
        if self.jacobian_is_fresh:
            n_trials = 8
        size = self._size()
        for _ in range(n_trials):
            after = self.residual(self.theta + scale * direction.step)
            remaining = direction.inverse @ after
            if direction.least_slope > LEAST_SLOPE:
                reduction = np.abs(after).max() / size
            else:
                reduction = np.abs(remaining).max() / length
            if reduction < 1 - 0.1 * scale:
                return _Trial(scale, after, remaining, float(reduction))
            scale /= 3
        return None

    def _residual_is_rounding(self) -> bool:
        """Return whether a residual that no step lowers is as good as 0."""
        return self._size() < min(1e3 * self.tol, ROUNDING_OF_RESIDUAL)

    def _residual_jumps(self, direction: _Direction, trial: _Trial) -> bool:
        """Return whether F jumps here, as on coarse nodes: over a short step it would be straight.

        To close in on the jump would take many steps and lead to no root.
        """
        if not self.jacobian_is_fresh or direction.least_slope <= LEAST_SLOPE:
            return False
        short = direction.length < 0.02
        return short and self._size() > ROUNDING_OF_RESIDUAL and trial.reduction > 0.5

    def _what_remains_is_negligible(self, direction: _Direction, trial: _Trial) -> bool:
        """Return whether the next step is below the tolerance, and much shorter along each axis.

        The second condition matters for axes along which F is nearly flat.
        """
        taken = np.abs(direction.axes @ direction.step)
        remaining = np.abs(direction.axes @ trial.remaining)
        if not remaining.max() < self.tol:
            return False
        negligible = 1e-3 * self.tol
        return bool((remaining < GOOD_REDUCTION * taken + negligible).all())

    def _update_jacobian(
        self, jacobian: Array, direction: _Direction, trial: _Trial, change: Array
    ) -> None:
        """Correct the Jacobian by what F did (Broyden), or drop it after a step of little gain."""
        self.jacobian_is_fresh = False
        if not trial.reduction < REDUCTION_WORTH_CORRECTING:
            self.jacobian = None
            return
        step = trial.scale * direction.step
        surprise = change - trial.scale * (jacobian @ direction.step)
        self.jacobian = jacobian + np.outer(surprise, step) / (step @ step)
