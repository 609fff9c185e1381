"""Where the solution curve passes given sample ratios, all of them at once.

On every stretch between two folds α is monotone in q̂, so each α is met at most once there: a
root in ln q̂ on the stretch. Each crossing comes with its uncertainty, and with a doubt where a
fold is closer than the curve's own uncertainty: then the branch may end before this α.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.theory.bayes_optimal.curve_points import CurvePoints
from polyceptron.theory.bayes_optimal.curve_shape import Branch, SolutionCurve

Array = NDArray[Any]
_TINY = 1e-300
_STEPS, _CLOSE = 128, 1e-15  # of ln q̂: the most steps, and when two of them are one


@dataclass(frozen=True)
class Crossing:
    """A fixed point at α: where it is, what it says, and how far that can be trusted.

    A `ghost` is the fold of a branch that the mean curve has lost just below this α: within the
    uncertainty of the curve the branch may still be there.
    """

    stable: bool
    q_hat: float
    v: float
    free_entropy: float
    free_entropy_uncertainty: float
    error: float
    clean_error: float
    uncertainty: float
    ghost: bool = False


def crossings(curve: SolutionCurve, alphas: list[float]) -> list[list[Crossing]]:
    """For each α > 0 its fixed points in the order of overlap."""
    found: list[list[Crossing]] = [[] for _ in alphas]
    for far in (False, True):
        wanted = [n for n, a in enumerate(alphas) if curve.near_enough(a) is not far]
        if wanted:
            _cross(curve, alphas, wanted, far, found)
    return found


def _cross(
    curve: SolutionCurve,
    alphas: list[float],
    wanted: list[int],
    far: bool,
    found: list[list[Crossing]],
) -> None:
    """Add to `found` the crossings of the wanted α on the near or on the far curve."""
    branches, folds = curve.branches(far=far), _folds(curve, far)
    met = [
        (n, i)
        for n in wanted
        for i, b in enumerate(branches)
        if min(b.alpha_low, b.alpha_high) < alphas[n] <= max(b.alpha_low, b.alpha_high)
    ]
    if met:
        stretch = np.array([i for _, i in met])
        at = _meet(curve, [branches[i] for i in stretch], np.array([alphas[n] for n, _ in met]))
        parts = np.stack(_trust(curve, at, folds, stretch))
        for column, (n, i) in enumerate(met):
            q_hat, v, phi = (float(a[column]) for a in (at.q_hat, at.v, at.free_entropy))
            phi_error, error, clean, uncertainty = (float(a) for a in parts[:, column])
            found[n].append(
                Crossing(branches[i].rising, q_hat, v, phi, phi_error, error, clean, uncertainty)
            )
    for fold in folds:
        for n in wanted:
            if fold.maximum and 0 < np.log(alphas[n] / fold.alpha) <= fold.uncertainty:
                found[n].append(fold.ghost)


@dataclass(frozen=True)
class Fold:
    """A turning point of the curve: α there with its relative uncertainty, and its fixed point."""

    maximum: bool
    after: int  # the stretch that ends here
    alpha: float
    uncertainty: float
    ghost: Crossing


def _folds(curve: SolutionCurve, far: bool) -> list[Fold]:
    """Every fold of the curve, in the order of q̂."""
    ends = curve.branches(far=far)[:-1]
    if not ends:
        return []
    at = curve.points(np.exp(np.array([branch.high for branch in ends])))
    u = curve.alpha_uncertainty(at)
    errors, clean = curve.errors(at.v), curve.clean_errors(at.v)
    entropy = curve.entropy_uncertainty(at)
    return [
        Fold(
            branch.rising,
            i,
            float(at.alpha[i]),
            float(u[i]),
            Crossing(
                True,
                float(at.q_hat[i]),
                float(at.v[i]),
                float(at.free_entropy[i]),
                float(entropy[i]),
                float(errors[i]),
                float(clean[i]),
                np.inf,
                ghost=True,
            ),
        )
        for i, branch in enumerate(ends)
    ]


def _meet(curve: SolutionCurve, branches: list[Branch], alpha: Array) -> CurvePoints:
    """Where each branch has its α (n,), all at once.

    False position on ln α, nearly straight in ln q̂; the end that stays counts less at each step
    (Anderson and Björck), and now and then the stretch is halved.
    """

    def above(found: Array) -> Array:
        return np.asarray(np.log(np.clip(found, _TINY, 1 / _TINY) / alpha))

    x0, x1 = (np.array([getattr(b, end) for b in branches]) for end in ("low", "high"))
    f0, f1 = (
        above(np.array([getattr(b, end) for b in branches])) for end in ("alpha_low", "alpha_high")
    )
    for count in range(1, _STEPS):
        share = f1 / np.where(f1 == f0, 1.0, f1 - f0) if count % 6 else 0.5
        x = x1 + (x0 - x1) * share
        f = above(curve.alpha(np.exp(x)))
        moved, crossed = np.abs(x - x1), (f > 0) != (f1 > 0)
        weight = 1 - f / np.where(f1 == 0, 1.0, f1)
        stay = f0 * np.where(weight > 0, weight, 0.5)
        x0, f0 = np.where(crossed, x1, x0), np.where(crossed, f1, stay)
        x1, f1 = x, f
        if np.all((np.minimum(moved, np.abs(x - x0)) < _CLOSE * (1 + np.abs(x))) | (f == 0)):
            break
    return curve.points(np.exp(x1))


def _trust(
    curve: SolutionCurve, at: CurvePoints, folds: list[Fold], stretch: Array
) -> tuple[Array, Array, Array, Array]:
    """Uncertainty of Φ, ε, its clean version, and the uncertainty of ε, each (n,)."""
    gap = np.full(at.alpha.shape, np.inf)
    for fold in folds:
        beside = (stretch == fold.after) | (stretch == fold.after + 1)
        distance = np.abs(np.log(at.alpha / fold.alpha))
        gap[beside] = np.minimum(gap[beside], distance[beside])
    return (
        curve.entropy_uncertainty(at),
        curve.errors(at.v),
        curve.clean_errors(at.v),
        curve.error_uncertainty(at, gap),
    )
