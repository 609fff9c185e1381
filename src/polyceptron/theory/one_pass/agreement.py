"""How often a label drawn from the student's softmax is the teacher's.

    A = E p_y = P(argmax of the teacher's utilities = argmax of the student's utilities)

Both labels are the argmax of utilities: those of the student are its fields √q x plus Gumbel noise,
those of the teacher its fields plus its own noise, and teacher's fields and x have correlation ρ. A
teacher whose utilities are normal variables leaves one integral (`gumbel.disagreement`). For any
other, both fields of a class share a normal variable s of variance ρ, and have independent rests of
variance 1 − ρ. In units of the fields the two utilities C and t of a class have

    F(C, t) = ∫ φ_ρ(s) F_1(C − s) F_2(t − s) ds,      A = k ∫∫ f(C, t) F(C, t)^{k−1} dC dt

with φ_ρ the density of s, F_1 and F_2 the distribution functions of noise and rest, and f = ∂²F.
With u = C − s and D = t − C the integrals over s for all C and D are one product of matrices,

    f(C, C + D) = ∫ φ_ρ(C − u) f_1(u) f_2(u + D) du,

and F likewise. C is the utility with the narrower noise, be it the teacher's or the student's, so
that u stays in a short range. All integrals are sums over even steps, and F_1 and F_2 are needed at
even points only; the step of u is the finest, those of C and D are multiples of it.

Where both noises are much wider than the fields, p_l ≈ 1/k + √q(x_l − x̄)/k is all that counts, and
A = 1/k + √q ρ c(k − 1)/k with the channel's signal c.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array, gumbel
from polyceptron.problem.channels import Channel, SoftmaxNoise
from polyceptron.problem.channels.channel import UtilityLaw

# A below this ρ is linear between ρ = 0, where it is 1/k, and here: the curvature leaves 1e-7.
SMALLEST_CORRELATION = 1e-3
WIDEST_NOISE = 100.0  # of the fields; beyond it the expansion leaves 1e-8
# Of the width of the narrowest factor: halving it changes A by less than 1e-7
# (tests/unit/theory/test_one_pass.py::test_agreement_of_labels_by_finer_sums).
STEP_PER_WIDTH = 0.5
REACH_OF_SHARED_PART = 6.5  # standard deviations: beyond them lie 1e-10 of all samples
SMALLEST_LOG_F = -25.0  # left of it F counts as 0
LARGEST_LOG_F = -1e-11  # right of it F counts as 1
POINTS_TO_FIND_ENDS = 100


def label_agreement(channel: Channel, tau: float, slope: float, n_classes: int) -> float:
    """Return P(teacher's label = student's label), the student drawing from softmax(slope·x).

    Parameters
    ----------
    channel : Channel
        Draws the teacher's label.
    tau : float
        ρ/√(1 − ρ²), ρ the correlation of the teacher's fields with x, which has variance 1.
    slope : float
        √q.
    n_classes : int
    """
    k = n_classes
    share_guessed = k * channel.guess(k)
    seen = channel.utility_tau(tau)
    if seen is None:
        agree = agreement_of_utilities(channel, tau, slope, k)
    else:
        agree = 1 - gumbel.disagreement(slope, k, math.atan2(1.0, seen))
    return (1 - share_guessed) * agree + share_guessed / k


def agreement_of_utilities(
    channel: Channel, tau: float, slope: float, k: int, step_per_width: float = STEP_PER_WIDTH
) -> float:
    """Return P(argmax of both utilities agree) for noise of any law.

    Parameters
    ----------
    channel : Channel
        It has a `utility_law`.
    tau, slope : float
        As in `label_agreement`.
    k : int
    step_per_width : float
        Of the sums.
    """
    rho = tau / math.hypot(1.0, tau)
    if min(channel.width(1.0), SoftmaxNoise(slope).width(1.0)) > WIDEST_NOISE:
        return 1 / k + slope * rho * channel.utility_signal(k) * (k - 1) / k
    if rho >= SMALLEST_CORRELATION:
        return _summed(channel, tau, slope, k, step_per_width)
    smallest_tau = SMALLEST_CORRELATION / math.sqrt(1 - SMALLEST_CORRELATION**2)
    agree = _summed(channel, smallest_tau, slope, k, step_per_width)
    return 1 / k + rho / SMALLEST_CORRELATION * (agree - 1 / k)


def _summed(channel: Channel, tau: float, slope: float, k: int, step_per_width: float) -> float:
    """Return A at a correlation that is not too small."""
    sums = _sums_of(channel, tau, slope, k, step_per_width)
    density, both_below = sums.joint_law()
    product = density * np.minimum(both_below, 1.0) ** (k - 1)
    return k * sums.area_of_node * float(product.sum())


class _Noise(NamedTuple):
    """A law of noise and rest: F = 0 left of `low`, F = 1 right of `high`."""

    width: float
    law: UtilityLaw
    low: float
    high: float

    def at(self, y: Array) -> tuple[Array, Array]:
        """Return F and its density, both of the shape of y."""
        log_F, hazard = self.law.values(np.maximum(y, self.low))
        F = np.where(y < self.low, 0.0, np.exp(log_F))
        return F, F * hazard


class _Sums(NamedTuple):
    """The even points of u, C and D, as whole multiples of the step of u."""

    narrow: _Noise
    wide: _Noise
    shared_spread: float  # √ρ
    step: float
    u: Array  # (n,)
    C: Array  # (c,)
    D: Array  # (d,)

    @property
    def area_of_node(self) -> float:
        """The area in C and t of one node."""
        step_of_C = self.C[1] - self.C[0]
        step_of_D = self.D[1] - self.D[0]
        return float(step_of_C * step_of_D) * self.step**2

    def joint_law(self) -> tuple[Array, Array]:
        """Return f and F at each C and t = C + D, both (c, d)."""
        F_of_narrow, density_of_narrow = self.narrow.at(self.step * self.u)
        F_of_wide, density_of_wide = self._wide_at(self.u[:, None] + self.D)
        kernel = self._density_of_shared_part(self.C[:, None] - self.u)
        density = kernel @ (density_of_narrow[:, None] * density_of_wide)
        both_below = kernel @ (F_of_narrow[:, None] * F_of_wide)
        return density, both_below + self._far_below()[:, None]

    def _wide_at(self, places: Array) -> tuple[Array, Array]:
        """Return F and its density of the wider noise at places (n, d) in steps."""
        first = places[0, 0]
        n_steps = round(places[-1, -1] - first) + 1
        if n_steps > places.size:
            return self.wide.at(self.step * places)
        F, density = self.wide.at(self.step * np.arange(first, first + n_steps))
        numbers = (places - first).astype(np.intp)
        return F[numbers], density[numbers]

    def _density_of_shared_part(self, s: Array) -> Array:
        """Return the weight of s, in steps, in a sum."""
        scaled = s * (self.step / self.shared_spread)
        norm = self.step / (self.shared_spread * math.sqrt(2 * math.pi))
        return np.asarray(norm * np.exp(-0.5 * scaled**2))

    def _far_below(self) -> Array:
        """Return the sum over u beyond the last point (c,), where both F are 1."""
        reach = math.ceil(REACH_OF_SHARED_PART * self.shared_spread / self.step)
        s = np.arange(-reach, reach + 1, dtype=float)
        total = np.append(0.0, np.cumsum(self._density_of_shared_part(s)))
        n_below = np.clip(self.C - self.u[-1] + reach, 0, len(s)).astype(np.intp)
        return np.asarray(total[n_below])


def _sums_of(channel: Channel, tau: float, slope: float, k: int, step_per_width: float) -> _Sums:
    """Return the points of the sums, as close as the narrowest factors ask for."""
    hypotenuse = math.hypot(1.0, tau)
    shared = math.sqrt(tau / hypotenuse)
    rest = 1 / (hypotenuse * (hypotenuse + tau))  # 1 − ρ without cancellation
    of_both = [_noise(channel, rest), _noise(SoftmaxNoise(slope), rest)]
    narrow, wide = sorted(of_both, key=lambda noise: noise.width)
    # The largest of k normal variables is narrower than each of them.
    step_of_winner = step_per_width / max(1.0, math.sqrt(math.log(k)))
    step_of_C = step_of_winner * math.hypot(shared, narrow.width)
    step_of_D = step_of_winner * math.hypot(wide.width, min(narrow.width, shared))
    step_of_u = step_per_width * min(narrow.width, shared)
    step = min(step_of_u, step_of_C, step_of_D)
    reach = REACH_OF_SHARED_PART * shared
    C = _multiples(-reach + narrow.low, reach + narrow.high, step, step_of_C)
    D = _multiples(wide.low - narrow.high, wide.high - narrow.low, step, step_of_D)
    both_are_one = max(narrow.high, wide.high - step * float(D[0]))
    u = _multiples(narrow.low, min(both_are_one, narrow.high + 2 * reach), step, step)
    return _Sums(narrow, wide, shared, step, u, C, D)


def _multiples(low: float, high: float, unit: float, step: float) -> Array:
    """Return even whole numbers of units that cover low to high, at most `step` apart."""
    stride = max(1, math.floor(step / unit))
    return np.arange(math.floor(low / unit), math.ceil(high / unit) + stride, stride, dtype=float)


def _noise(channel: Channel, rest: float) -> _Noise:
    """Return the law of a channel's noise and the rest, with the ends beyond which F is 0 or 1."""
    law = channel.utility_law(rest)
    assert law is not None  # `step_averages` has asked
    y = np.linspace(law.low, law.high, POINTS_TO_FIND_ENDS)
    log_F, _ = law.values(y)
    first = max(int(np.searchsorted(log_F, SMALLEST_LOG_F)) - 1, 0)
    last = min(int(np.searchsorted(log_F, LARGEST_LOG_F)), POINTS_TO_FIND_ENDS - 1)
    return _Noise(channel.width(rest), law, float(y[first]), float(y[last]))
