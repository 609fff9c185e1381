"""Interior-point method for the hard margin, min ½‖W‖²_F with JW ≥ 1, of few unknowns.

With margin − 1 = s and multipliers a,

    W = Jᵀa,    JW − 1 = s,    a∘s = 0,    a, s ≥ 0,

is followed from a∘s = μ to μ → 0 (predictor and corrector of Mehrotra). A step solves with
I + Jᵀdiag(a/s)J in the k − 1 differences to the last class: a matrix of (k−1)d unknowns, whatever
the data's conditioning, on which conjugate gradients would stall.
The column of an intercept is a weight that does not count in ‖W‖².
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from polyceptron.algorithms.design import Design
from polyceptron.numerics import AnyArray, Array

_LARGEST = 1e12  # entry of X/√d, or its inverse: squares in single precision hold no more
_ROUGH = 1e-2  # duality gap over ‖W‖² above which single precision will do
_BACK = 0.99  # of the way to the closest wall


def suits(design: Design, n_classes: int) -> bool:
    """Whether it is quicker than the augmented Lagrangian: measured, by a factor 1.3 to 14."""
    n, d = design.shape
    few = (n_classes - 1) * d <= 960 and float(n) * d * n_classes * d <= 3e10  # products of a step
    return few and n >= 4 * d and design.may_be_copied


def central_path(
    design: Design, y: NDArray[np.int64], n_classes: int, *, free: bool = False
) -> Iterator[tuple[int, Array]]:
    """Steps and multipliers (k, n), 0 where s is the larger, whenever these have settled."""
    rows = design.scaled_rows(np.arange(y.size))
    if not 1 / _LARGEST < np.abs(rows).max() < _LARGEST:
        return
    path = _Path(rows, y, n_classes, free)
    before = np.zeros_like(path.own)
    for steps in range(1, 41):
        if not path.step() or not path.separable():
            return
        active = path.a > path.s
        if np.count_nonzero(active != before) <= 0.03 * np.count_nonzero(active):
            yield steps, np.where(active, path.a, 0.0)
        before = active


class _Path:
    """W (k, d), slacks s and multipliers a (k, n); the label's own row of both is idle."""

    def __init__(self, rows: Array, y: NDArray[np.int64], k: int, free: bool) -> None:
        self.rows, self.y, self.k, self.samples = rows, y, k, np.arange(y.size)
        self.pull = np.ones(rows.shape[1])
        self.pull[-1] = 0.0 if free else 1.0  # the last column is an intercept's
        self.own = np.zeros((k, y.size), dtype=bool)
        self.own[y, self.samples] = True
        self.members = [np.flatnonzero(y == c) for c in range(k)]
        self.parts = [rows[members] for members in self.members]
        self.rough = [part.astype(np.float32) for part in self.parts]
        self.length = float(np.sqrt((rows**2).sum(1).max()))
        # Least squares on the margins, moved inside.
        unit = 1 / float(np.mean((rows**2).sum(1)))
        weight = np.where(self.own, 0.0, unit)
        self.W = self._solve(self._factor(weight, self.parts), self.back(weight))
        margins = self.margins(self.W)
        self.s = margins - 1
        self.a = unit * (1 - margins)
        self.s += max(-1.5 * float(self.s.min(initial=0.0, where=~self.own)), 0.0) + 0.01
        self.a += max(-1.5 * float(self.a.min(initial=0.0, where=~self.own)), 0.0) + 0.01 * unit
        self._idle()
        product = float((self.a * self.s).sum())
        self.s += 0.5 * product / float(self.a.sum())
        self.a += 0.5 * product / float(self.s.sum(where=~self.own))
        self._idle()

    def _idle(self) -> None:
        self.a[self.own], self.s[self.own] = 0.0, 1.0

    def margins(self, W: Array) -> Array:
        """z_y − z_h (k, n)."""
        z = W @ self.rows.T
        return np.asarray(z[self.y, self.samples] - z)

    def back(self, a: Array) -> Array:
        """Jᵀa (k, d)."""
        pull = -a
        pull[self.y, self.samples] = a.sum(0)
        return np.asarray(pull @ self.rows)

    def separable(self) -> bool:
        """False when a convex combination of the constraints is all but zero."""
        return float(np.linalg.norm(self.back(self.a))) > 1e-7 * self.length * float(self.a.sum())

    def _factor(self, weight: Array, parts: list[AnyArray]) -> Any:
        """The Cholesky factor of I + Jᵀdiag(weight)J in differences to the last class."""
        k, d = self.k, self.rows.shape[1]
        dtype = parts[0].dtype
        weight = weight.astype(dtype)
        matrix = np.zeros((k, d, k, d), dtype=dtype)
        for c, (members, part) in enumerate(zip(self.members, parts, strict=True)):
            weighted = part[:, None, :] * weight[:, members].T[:, :, None]
            product = (part.T @ weighted.reshape(len(part), k * d)).reshape(d, k, d)
            matrix[c] -= product  # Σ x w_h xᵀ over the samples of the class: w_c is 0
            matrix[:, :, c] -= product.swapaxes(0, 1)
        diagonal = -matrix.sum(2)
        for c in range(k - 1):
            matrix[c, :, c] = diagonal[c]
        same = np.arange(d)
        unit = self.pull[:, None, None] * (np.eye(k - 1) - 1 / k)
        matrix[:-1, same, :-1, same] += unit.astype(dtype)
        flat = matrix[:-1, :, :-1].reshape((k - 1) * d, (k - 1) * d)
        return scipy.linalg.cho_factor(flat, overwrite_a=True, check_finite=False)

    def _solve(self, factor: Any, right: Array) -> Array:
        """W (k, d) with columns that sum to zero, as those of the right-hand side do."""
        flat = scipy.linalg.cho_solve(factor, right[:-1].ravel(), check_finite=False)
        W = np.zeros_like(right)
        W[:-1] = flat.reshape(self.k - 1, -1)
        return W - W.mean(0)

    def step(self) -> bool:
        """One predictor and corrector; False where rounding ends the path."""
        count = self.own.size - self.y.size
        dual = self.pull * self.W - self.back(self.a)
        primal = np.where(self.own, 0.0, self.margins(self.W) - 1 - self.s)
        mu = float((self.a * self.s).sum()) / count
        weight = self.a / self.s  # 0 for the label's own
        try:
            rough = mu * count > _ROUGH * float((self.pull * self.W**2).sum())
            factor = self._factor(weight, self.rough if rough else self.parts)
        except np.linalg.LinAlgError:
            return False

        def towards(product: Array) -> tuple[Array, Array, Array]:
            product = np.where(self.own, 0.0, product / self.s)
            dW = self._solve(factor, -dual - self.back(product + weight * primal))
            ds = np.where(self.own, 0.0, self.margins(dW) + primal)
            return dW, ds, -product - weight * ds

        _, ds, da = towards(self.a * self.s)
        far = min(_reach(self.s, ds), _reach(self.a, da))
        there = float(((self.a + far * da) * (self.s + far * ds)).sum(where=~self.own)) / count
        dW, ds, da = towards(self.a * self.s + ds * da - mu * (there / mu) ** 3)
        far = min(1.0, _BACK * min(_reach(self.s, ds), _reach(self.a, da)))
        self.W, self.s, self.a = self.W + far * dW, self.s + far * ds, self.a + far * da
        return bool(np.isfinite(self.W).all()) and far > 1e-8


def _reach(x: Array, dx: Array) -> float:
    """The largest step, 1/0.99 at most, that leaves x ≥ 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return min(1 / _BACK, float(np.min(-x / dx, where=dx < 0, initial=np.inf)))
