"""The path of one-pass SGD: weights of each level of the spectrum as functions of α = n/d.

A feature of variance s has weights w = μ(s) w* + noise, per class direction with

    dμ/dα = η s (M − C μ)                          overlap with the teacher, of variance θ there
    db/dα = −2 η s C b + η² s Q                     variance of the noise

    m = ⟨sθ μ⟩,     q = ⟨sθ μ²⟩ + ⟨s b⟩,     q − m² = Var_{sθ}(μ) + ⟨s b⟩

where M, C and Q are the averages of a step (`pull`) and ⟨·⟩ is the mean over features. For
independent features (s = θ = 1) this is dm/dα = η(M − Cm), dq/dα = 2η(Mm − Cq) + η²Q, which are
the equations of the overlaps, because E f·z* = r(M − mC) and E f·z = r(mM − qC).

The integration runs over u = √α: next to α = 0 the gradient of a hinge varies as √q. It goes in
pieces that do not depend on the α that are asked for, so that no row depends on the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.integrate import OdeSolution, solve_ivp

from polyceptron.errors import ComputationFailed
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import AnyTeacher
from polyceptron.theory.one_pass.pull import SMALL_STEP, Step, StepAverages, step_averages

FIRST_PIECE_ENDS = 8.0  # α; each further piece ends at 8 times as much
RELATIVE_TOLERANCE = 1e-7  # of the integration, in one step
SAMPLED_RELATIVE_TOLERANCE = 1e-4  # where averages have an error of about 1e-4
ABSOLUTE_SHARE = 1e-4  # of the relative tolerance: weights of this size count as 0
LARGEST_NOISE = 1e30  # b at which weights that grow without bound are given up


@dataclass(frozen=True)
class OnePassState:
    """The law of the fields at one α: the value, then the other estimates, each (1 + others,)."""

    m: Array
    residual: Array  # q − m²
    tau: Array

    @property
    def order(self) -> ScalarOrder:
        """The law of the fields as order parameters, with V = 0."""
        m = float(self.m[0])
        return ScalarOrder(float(self.tau[0]), m * m + float(self.residual[0]), 0.0)


@dataclass
class OnePassPath:
    """The weights from α = 0 on; pieces are integrated when they are asked for.

    The state holds μ at the eigenvalues `signal_values` (i,) and b at `noise_values` (j,), for the
    value and for each other estimate of the averages. Others are driven by their own averages,
    taken along the path of the value.
    """

    step: Step
    rate: float
    decay_scale: float
    signal_values: Array  # s (i,)
    signal_weights: Array  # of the mean weighted with sθ, sum 1
    noise_values: Array  # s (j,)
    noise_weights: Array  # of the mean over features
    n_estimates: int
    _pieces: list[OdeSolution] = field(default_factory=list)
    _ends: list[float] = field(default_factory=lambda: [0.0])  # of the pieces, in α
    _last: tuple[float, StepAverages] | None = None

    def at(self, alpha: float) -> OnePassState:
        """Return the law of the fields at α; raise `ComputationFailed` where weights overflow."""
        while self._ends[-1] < alpha:
            self._integrate_next_piece()
        if alpha == 0:
            return self._law(self._start())
        number = int(np.searchsorted(self._ends[1:], alpha))
        return self._law(self._pieces[number](math.sqrt(alpha)))

    def _start(self) -> Array:
        """Return weights of 0."""
        return np.zeros(self.n_estimates * (len(self.signal_values) + len(self.noise_values)))

    def _law(self, state: Array) -> OnePassState:
        """Return the law of the fields of a state."""
        mu, b = self._split(state)
        m = mu @ self.signal_weights
        spread = (mu - m[:, None]) ** 2 @ self.signal_weights
        residual = spread + self.noise_values * np.maximum(b, 0.0) @ self.noise_weights
        tau = np.divide(m, np.sqrt(residual), out=np.zeros_like(m), where=residual > 0)
        return OnePassState(m, residual, tau)

    def _split(self, state: Array) -> tuple[Array, Array]:
        """Return μ (estimates, i) and b (estimates, j) of a state."""
        table = state.reshape(self.n_estimates, -1)
        n_signal = len(self.signal_values)
        return table[:, :n_signal], table[:, n_signal:]

    def _rate_at(self, u: float) -> float:
        """Return the factor η(α) dα/du of all derivatives by u = √α."""
        return 2 * u * self.rate / (1 + u * u / self.decay_scale)

    def _averages(self, u: float, state: Array) -> StepAverages:
        """Return the averages of a step for the law of the value; the last ones are kept."""
        averages = self.step(self._law(state).order)
        self._last = (u, averages)
        return averages

    def _slope(self, u: float, state: Array) -> Array:
        """Return the derivatives of the state by u."""
        mu, b = self._split(state)
        M, C, Q = (average[:, None] for average in self._averages(u, state))
        eta = self.rate / (1 + u * u / self.decay_scale)
        d_mu = self.signal_values * (M - C * mu)
        d_b = self.noise_values * (eta * Q - 2 * C * b)
        return self._rate_at(u) * np.hstack([d_mu, d_b]).ravel()

    def _jacobian(self, u: float, state: Array) -> Array:
        """Return the diagonal of the Jacobian as one band, the averages held still."""
        if self._last is None or self._last[0] != u:
            self._averages(u, state)
        assert self._last is not None
        C = self._last[1].C[:, None]
        diagonal = np.hstack([-C * self.signal_values, -2 * C * self.noise_values])
        return self._rate_at(u) * diagonal.reshape(1, -1)

    def _integrate_next_piece(self) -> None:
        """Integrate from the end of the last piece to the next end."""
        low = self._ends[-1]
        high = FIRST_PIECE_ENDS
        start = self._start()
        if self._pieces:
            high = low * FIRST_PIECE_ENDS
            start = self._pieces[-1](math.sqrt(low))
        tolerance = RELATIVE_TOLERANCE
        if self.step.sampled:
            tolerance = SAMPLED_RELATIVE_TOLERANCE
        settings: dict[str, Any] = {
            "method": "LSODA",
            "dense_output": True,
            "events": _Overflow(),
            "rtol": tolerance,
            "atol": ABSOLUTE_SHARE * tolerance,
            "jac": self._jacobian,
            "lband": 0,
            "uband": 0,
        }
        found = solve_ivp(self._slope, (math.sqrt(low), math.sqrt(high)), start, **settings)
        if found.status != 0 or found.sol is None:
            raise ComputationFailed(
                f"the weights of one-pass SGD grow beyond all bounds before alpha = {high:g}"
            )
        self._pieces.append(found.sol)
        self._ends.append(high)


class _Overflow:
    """The event that ends an integration: weights as large as `LARGEST_NOISE`."""

    terminal = True

    def __call__(self, u: float, state: Array) -> float:
        return LARGEST_NOISE - float(np.abs(state).max())


def _n_estimates(step: Step) -> int:
    """Return how many estimates a step gives, the value among them."""
    return len(step(ScalarOrder(0.5, 1.0, SMALL_STEP)).M)


@lru_cache(maxsize=64)
def one_pass_path(
    teacher: AnyTeacher, loss: Loss, rate: float, decay_scale: float = math.inf
) -> OnePassPath:
    """Return the path of SGD with the rate η(α) = rate/(1 + α/decay_scale) for a teacher."""
    step = step_averages(teacher, loss)
    features = teacher.features
    signal_values, signal_weights = features.field_quadrature
    noise_values, noise_weights = features.feature_quadrature
    return OnePassPath(
        step,
        rate,
        decay_scale,
        signal_values,
        signal_weights,
        noise_values,
        noise_weights,
        _n_estimates(step),
    )


@lru_cache(maxsize=64)
def largest_stable_rate(teacher: AnyTeacher, loss: Loss) -> float:
    """Return the constant rate above which weights grow without bound, infinite if there is none.

    Where weights are large, Q ≈ gq with a constant g, and b = ηsQ/(2sC) is in balance at
    q = ⟨s b⟩ = η g q ⟨s⟩/(2C) only for η = 2C/g, since ⟨s⟩ = 1. A loss with a bounded gradient
    has g = 0.
    """
    step = step_averages(teacher, loss)
    if step.gradient_is_bounded:
        return math.inf
    rates = []
    for q in (1e6, 1e8):
        averages = step(ScalarOrder(1e-3, q, 0.0))
        rates.append(2 * float(averages.C[0]) * q / float(averages.Q[0]))
    bounded_gradient = rates[1] > 2 * rates[0]
    if bounded_gradient:
        return math.inf
    return rates[1]
