"""A first descent in single precision: weights from which Newton's method has little left to do.

L-BFGS from zero. A step takes two products with X, in single precision half as dear as in double,
where a Newton step takes two in double and some in single. Its length is that of the parabola along
the direction D, whose bend is that of the objective at the fields z of the last point,

    t = −⟨G, D⟩ / (Σ_μ ℓ''_μ z_D² + λ‖D‖²),    z_D = XD/√d,

which costs no further product. Nothing here is certified, and nothing needs to be: the descent ends
where the gradient is small or a step does not pay, and Newton's method goes on in double precision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from polyceptron.data.design import Design
from polyceptron.fit.solvers.newton_step import (
    Preconditioner,
    by_feature,
    diagonal_preconditioner,
    dots,
)
from polyceptron.fit.solvers.objectives import Evaluation, Objective
from polyceptron.numerics import AnyArray, Array

MOST_STEPS = 30
STEPS_REMEMBERED = 8
# Share of the first gradient at which Newton's method takes over: it is quick from there, and the
# rounding of single precision is a tenth of it on a million samples.
SHARE_LEFT_TO_NEWTON = 1e-4
# A descent that has not come so far in five steps is a slow one, and is left to Newton's method.
SHARE_LEFT_BY_FIVE_STEPS = 0.3
SINGLE_EPS = float(np.finfo(np.float32).eps)


class _Pair(NamedTuple):
    """A step s and the change t of the gradient along it, (1, r, d) both, with ⟨s, t⟩."""

    step: AnyArray
    change: AnyArray
    product: float


def single_descent_serves(design: Design, objective: Objective) -> bool:
    """Return whether a descent in single precision is the quicker beginning: smooth, in memory."""
    smooth = objective.smoothness is not None and not objective.kinked
    return smooth and design.single_is_quicker and not design.reading_is_dear


@dataclass
class SingleDescent:
    """L-BFGS of one problem in single precision, from zero.

    Attributes
    ----------
    ridges : array (1,) or (1, d)
        λ, or that of each feature.
    goal_share : float
        The descent may end where ‖gradient‖ is below this share of λ‖U‖.
    U, G : array (1, r, d)
        Weights and the gradient there.
    Z : array (1, r, n)
        Fields.
    here : Evaluation
    pull : array (1, 1, 1) or (1, 1, d)
        The ridges, beside U.
    ease : callable or None
        Divides by the diagonal of the Hessian at zero, where features are uneven.
    norms : list of float
        Of the gradients so far.
    pairs : list of _Pair
        What the last steps showed of the Hessian.
    stuck : bool
        Whether the last step did not pay.
    """

    design: Design
    objective: Objective
    ridges: Array
    goal_share: float
    U: AnyArray = field(init=False)
    Z: AnyArray = field(init=False)
    G: AnyArray = field(init=False)
    here: Evaluation = field(init=False)
    pull: AnyArray = field(init=False)
    ease: Preconditioner | None = field(init=False)
    norms: list[float] = field(default_factory=list)
    pairs: list[_Pair] = field(default_factory=list)
    stuck: bool = False

    def __post_init__(self) -> None:
        r = self.objective.basis.shape[1]
        self.pull = by_feature(self.ridges).astype(np.float32)
        self.U = np.zeros((1, r, self.design.dimension), np.float32)
        self.Z = np.zeros((1, r, self.design.n_samples), np.float32)
        self.here = self.objective.evaluate(self.Z.copy())
        self.G = self.design.back(self.here.residual)
        curvature = self.objective.curvature(self.here, np.float32)
        self.ease = diagonal_preconditioner(self.design, curvature, self.ridges, np.float32)
        self.norms.append(float(np.linalg.norm(self.G)))

    @property
    def goes_on(self) -> bool:
        """Whether another step is worth its two products."""
        norm = self.norms[-1]
        n_steps = len(self.norms) - 1
        if self.stuck or n_steps == MOST_STEPS or not 0 < norm < math.inf:
            return False
        if norm <= SHARE_LEFT_TO_NEWTON * self.norms[0]:
            return False
        if n_steps >= 5 and norm > SHARE_LEFT_BY_FIVE_STEPS * self.norms[-6]:
            return False
        goal = self.goal_share * float(np.linalg.norm(self.pull * self.U))
        return norm > goal

    @np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore")
    def step(self) -> None:
        """Take one step to the bottom of the parabola along a direction, unless that is higher."""
        D = self._direction()
        slope = float(dots(self.G, D)[0])
        ZD = self.design.fields(D)
        bent, _ = self.objective.curvature(self.here, np.float32)(ZD.copy())
        bend = float(dots(ZD, bent)[0]) + float(dots(self.pull * D, D)[0])
        if not (slope < 0 < bend):
            self.stuck = True
            return
        length = np.float32(-slope / bend)
        U = self.U + length * D
        Z = self.Z + length * ZD
        there = self.objective.evaluate(Z.copy())
        highest = (1 + SINGLE_EPS) * self._value(self.U, self.here)
        if not (self._value(U, there) <= highest and np.isfinite(U).all()):
            self.stuck = True
            return
        G = self.design.back(there.residual) + self.pull * U
        self._learn(U - self.U, G - self.G)
        self.U = U
        self.Z = Z
        self.G = G
        self.here = there
        self.norms.append(float(np.linalg.norm(G)))

    def _value(self, U: AnyArray, there: Evaluation) -> float:
        """Return the objective at weights U (1, r, d), with the losses evaluated there."""
        return float(there.value[0]) + 0.5 * float(dots(self.pull * U, U)[0])

    def _learn(self, step: AnyArray, change: AnyArray) -> None:
        """Remember the change of the gradient along a step."""
        product = float(dots(step, change)[0])
        if product > 0:
            self.pairs.append(_Pair(step, change, product))
            del self.pairs[:-STEPS_REMEMBERED]

    def _direction(self) -> AnyArray:
        """Return the direction (1, r, d) of L-BFGS, by its two loops."""
        q = -self.G
        parts: list[float] = []
        for s, t, product in reversed(self.pairs):
            part = float(dots(s, q)[0]) / product
            parts.append(part)
            q -= np.float32(part) * t
        q = self._eased(q)
        if self.pairs:
            last = self.pairs[-1]
            q *= np.float32(last.product / float(dots(last.change, self._eased(last.change))[0]))
        for s, t, product in self.pairs:
            q += np.float32(parts.pop() - float(dots(t, q)[0]) / product) * s
        return q

    def _eased(self, r: AnyArray) -> AnyArray:
        """Return r (1, r, d) over the diagonal of the Hessian, where features are uneven."""
        if self.ease is None:
            return r
        return self.ease(r, np.zeros(1, np.int64))
