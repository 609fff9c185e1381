"""What one label teaches: the channel's information I and entropy Ψ_out at overlap q = 1 − v.

With ω ~ N(0, q) in each class and Z_l = η' + (1 − kη')P_l the probability of label l, where P_l is
that of the largest utility,

    I(q)     = (1/r) E Σ_l ‖∇Z_l‖²/Z_l = (2/r) dΨ_out/dq          so that q̂ = α I    (eq. SE_BO)
    Ψ_out(q) = E Σ_l Z_l ln Z_l = Ψ₀ + excess                                (eq. free_entropyBO)
    Ψ₀       = t ln t + (k−1) η' ln η',   t = 1 − (k−1)η'                     (utilities known)
    excess   = E Σ_l [Z_l ln Z_l − P_l t ln t − (1 − P_l) η' ln η']

Only near class boundaries, within the channel's width, is there anything to learn; the excess lives
there, so that nothing cancels as v → 0. Two and three classes use the panels of empirical risk
minimisation with the channel itself as the student (`FEW`, `PosteriorScore`). With four and
more the excess alone is computed, and its slope gives I:

Student fields are g_h ~ N(0, 1) in units of √q; lengths of utilities are in units of the channel's
width w, τ = w²/q. By symmetry class 1 is the label. Measured from the best competitor it is at x,
and with F the law of a utility around its field

    P(x) = ∫ F′(C − x) F(C) ∏_h F(C + δ_h) dC,      δ_h ≥ 0 the gaps of the other competitors.

The m best competitors are integrated over (order statistics, a tensor rule). The N = k − 1 − m
others are independent below the last of them. P is a product over them, so with any few of them
known and the rest averaged P is again one integral over C, and the mean of f = Z ln Z over all N is

    E f = f_∅ + N (E f_1 − f_∅) + ½N(N−1) (E f_2 − 2 E f_1 + f_∅) + …

with f_1, f_2 that when one or two of them are known. What one competitor tells about the label is
nearly independent of what another tells: the third term is a per mille of the second, the fourth
is left out. Nothing is left out for k ≤ m + 3, and the cost does not depend on k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtri_exp, xlog1py, xlogy

from polyceptron.errors import InvalidInput
from polyceptron.numerics import TINY, Array
from polyceptron.numerics.panels import legendre_rule
from polyceptron.problem.channels import Channel
from polyceptron.problem.channels.channel import UtilityLaw
from polyceptron.problem.order import ScalarOrder
from polyceptron.sides.fields.integrand import FEW, PosteriorScore

NO_OVERLAP = 1e-12  # q that stands for 0


def known_entropy(channel: Channel, n_classes: int) -> float:
    """Return Ψ₀ = Σ_l Z_l ln Z_l with known utilities; it is 0 unless labels are also guessed."""
    guess = channel.guess(n_classes)
    top = 1 - (n_classes - 1) * guess
    return float(xlogy(top, top) + (n_classes - 1) * xlogy(guess, guess))


def few_moments(channel: Channel, v: float, n_classes: int) -> tuple[float, float]:
    """Return I and the excess of two or three classes at residual variance v.

    Both err by 3e-11 or less; guesses soften the integrand, and a coarser level will do.
    """
    law = ScalarOrder.bayes(min(max(v, 1e-20), 1 - NO_OVERLAP))
    student = PosteriorScore(channel, n_classes)
    level = 4
    if channel.guess(n_classes) >= 0.005:
        level = 3
    averages = FEW[n_classes].place(student, channel, n_classes, law, level)(law)
    return float(averages.Q[0]), -float(averages.loss[0])


@dataclass(frozen=True)
class InformationNodes:
    """How many of each kind the rule of many classes has.

    Attributes
    ----------
    best : int
        Competitors that are integrated over.
    gaps : int
        Nodes for each but the first of these.
    step : float
        Of the first, in standard deviations.
    bath : int
        Nodes for one of the others.
    pairs : int
        Nodes for each of two of the others; of wide channels two thirds of them.
    """

    best: int = 1
    gaps: int = 20
    step: float = 0.6
    bath: int = 32
    pairs: int = 18

    def pairs_at(self, root: float) -> int:
        """Return the nodes for each of two competitors at √τ: the wider a channel, the smoother."""
        if root < 0.4:
            return self.pairs
        return 2 * self.pairs // 3


USUAL_NODES = InformationNodes()


def many_excess(
    channel: Channel, v: float, n_classes: int, nodes: InformationNodes = USUAL_NODES
) -> float:
    """Return the excess of four or more classes at residual variance v.

    Parameters
    ----------
    channel : Channel
        The law of one utility must be known.
    v : float
        1 − q.
    n_classes : int
    nodes : InformationNodes
    """
    law = channel.utility_law(v)
    if law is None:
        raise InvalidInput(
            f"Bayes-optimal theory of {n_classes} classes needs the law of one utility, which the "
            f"noise {channel.name!r} does not define (`utility_law`)"
        )
    return _ManyClasses(channel, v, n_classes, nodes, law).excess()


class _Bath(NamedTuple):
    """Nodes of one competitor below the last known one, at s of its values and c levels C."""

    weight: Array  # (s, n)
    F: Array  # F(C + δ), (s, n, c)
    mean: Array  # of F over the nodes, (s, c)


class _ManyClasses:
    """The grids of x and C, and the sum over the best competitors (module docstring).

    Shapes: s values of the best competitors, n nodes of another, c levels C, x label fields.
    """

    def __init__(
        self,
        channel: Channel,
        v: float,
        n_classes: int,
        nodes: InformationNodes,
        law: UtilityLaw,
    ) -> None:
        q = max(1 - v, NO_OVERLAP)
        self.nodes = nodes
        self.law = law
        self.n_classes = n_classes
        self.width = channel.width(v)
        self.root = self.width / math.sqrt(q)  # √τ
        self.guess = channel.guess(n_classes)
        self.scale = 1 - n_classes * self.guess
        self.top = 1 - (n_classes - 1) * self.guess
        self.best = best_others(n_classes, self.root, nodes)
        self.n_unknown = n_classes - 1 - self.best.fields.shape[1]
        reach = min(22.0, law.high / self.width)
        self.x_step = min(0.3, 0.5 / self.root)
        self.x = self._label_fields(reach)
        self.C = self._winning_levels(reach)
        # P against the best competitor only, at each x.
        self.P_alone = channel.utility_gaps((self.width * self.x)[None], v).z
        self.first_F = np.exp(law.values(self.width * self.C)[0])

    def _label_fields(self, reach: float) -> Array:
        """Return x (x,): the label's field is a normal variable, never further than ±7.8/√τ."""
        farthest = 7.8
        nearest_fields = self.best.fields[:, 0]
        low = max(-reach, -(farthest + float(nearest_fields.max())) / self.root)
        high = min(reach, (farthest - float(nearest_fields.min())) / self.root)
        first = math.floor(low / self.x_step)
        last = math.ceil(high / self.x_step)
        return np.asarray(np.arange(first, last + 1) * self.x_step, float)

    def _winning_levels(self, reach: float) -> Array:
        """Return C (c,), and set the kernel F′(C − x) dC (c, x).

        ∏F steepens slowly with k, and is nothing on the far left.
        """
        step = 0.4 / (1 + 0.4 * math.log(self.n_classes / 4))
        lowest = max(self.law.low / self.width, -7.5)
        indices = np.arange(math.floor(lowest / step), math.ceil(reach / step))
        C = np.asarray(indices * step, float)
        log_F, hazard = self.law.values(self.width * (C[:, None] - self.x))
        self.kernel: Array = step * self.width * np.exp(log_F) * hazard
        return C

    def excess(self) -> float:
        """Return the excess, summed over the best competitors in chunks of a cache's size."""
        n_pairs = self.nodes.pairs_at(self.root)
        numbers_of_a_value = n_pairs * (n_pairs + 1) // 2 * self.x.size
        chunk = max(1, 1_000_000 // numbers_of_a_value)
        total = 0.0
        for start in range(0, len(self.best.weight), chunk):
            total += self._sum_over(self.best.part(slice(start, start + chunk)))
        return self.n_classes * total * self.root * self.x_step / math.sqrt(2 * math.pi)

    def _sum_over(self, best: BestOthers) -> float:
        """Return the sum over values of the best competitors and over x."""
        g = best.fields[:, :1]
        density = np.exp(-0.5 * (g + self.root * self.x) ** 2) * best.weight[:, None]
        gaps = (g - best.fields[:, 1:])[:, :, None] / self.root
        log_product = self.law.values(self.width * (gaps + self.C))[0].sum(1)
        if self.n_unknown == 0:
            return float((density * self._value(self._Z(log_product))).sum())
        bath = self._bath(best, self.nodes.bath)
        log_product = log_product + self.n_unknown * np.log(bath.mean)
        Z = self._Z(log_product)
        product = (self.first_F * np.exp(log_product))[:, None, :]
        share = (self.scale / Z)[:, None, :]
        one = ((product * (bath.F / bath.mean[:, None, :] - 1)) @ self.kernel) * share
        value = self._value(Z)
        value += self.n_unknown * Z * np.einsum("nbx,nb->nx", _excess_entropy(one), bath.weight)
        if self.n_unknown > 1:
            pairs = 0.5 * self.n_unknown * (self.n_unknown - 1)
            value += pairs * Z * self._synergy(best, product, share)
        return float((density * value).sum())

    def _Z(self, log_product: Array) -> Array:
        """Return the probability of the label (s, x) from the competitors' ln ∏F (s, c)."""
        beyond_best = (self.first_F * np.expm1(log_product)) @ self.kernel
        P = np.maximum(self.P_alone + beyond_best, TINY)
        return np.asarray(self.guess + self.scale * P)

    def _value(self, Z: Array) -> Array:
        """Return Z ln Z less its mean where the utilities are known, (s, x)."""
        P = (Z - self.guess) / self.scale
        known = P * xlogy(self.top, self.top) + (1 - P) * xlogy(self.guess, self.guess)
        return np.asarray(xlogy(Z, Z) - known)

    def _bath(self, best: BestOthers, n: int) -> _Bath:
        """Return n nodes of one competitor below the last known one."""
        log_u, weight = layered_rule(n, layer(best.log_cdf, self.root))
        delta = (best.fields[:, :1] - ndtri_exp(best.log_cdf[:, None] + log_u)) / self.root
        F = np.exp(self.law.values(self.width * (delta[:, :, None] + self.C))[0])
        return _Bath(weight, F, np.maximum(np.einsum("nbc,nb->nc", F, weight), TINY))

    def _synergy(self, best: BestOthers, product: Array, share: Array) -> Array:
        """Return what two competitors tell beyond what each of them tells, over Z, (s, x)."""
        bath = self._bath(best, self.nodes.pairs_at(self.root))
        i, j = np.triu_indices(bath.weight.shape[1])
        off = bath.F / bath.mean[:, None, :] - 1
        one = ((product * off) @ self.kernel) * share
        two = ((product * off[:, i] * off[:, j]) @ self.kernel) * share
        two += one[:, i] + one[:, j]
        twice_but_equal = np.where(i == j, 1, 2)
        pair_weight = bath.weight[:, i] * bath.weight[:, j] * twice_but_equal
        told_by_two = np.einsum("nbx,nb->nx", _excess_entropy(two), pair_weight)
        told_by_one = np.einsum("nbx,nb->nx", _excess_entropy(one), bath.weight)
        return np.asarray(told_by_two - 2 * told_by_one)


def _excess_entropy(excess: Array) -> Array:
    """Return (1 + e) ln(1 + e): what Z(1 + e) ln Z(1 + e) has above Z ln Z, over Z, for mean 0."""
    excess = np.maximum(excess, -1.0)
    return np.asarray(xlog1py(1 + excess, excess))


class BestOthers(NamedTuple):
    """Nodes of the best of k − 1 normals."""

    fields: Array  # (s, best)
    log_cdf: Array  # ln Φ of the last of them (s,)
    weight: Array  # (s,)

    def part(self, rows: slice) -> BestOthers:
        """Return some of the nodes."""
        return BestOthers(*(column[rows] for column in self))


def best_others(k: int, root: float, nodes: InformationNodes) -> BestOthers:
    """Return nodes of the best of the k − 1 competitors at √τ."""
    grid = np.linspace(-12, 12, 4801)
    # As τ → 0 the label must sit beside the best competitor: its density is one more factor φ.
    log_p = -0.5 * grid**2 * (1 + 1 / (1 + 3 * root**2)) + (k - 2) * log_ndtr(grid)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = float(p @ grid)
    spread = nodes.step * math.sqrt(float(p @ grid**2) - mean**2)
    g = mean + spread * np.arange(-math.ceil(8 / nodes.step), math.ceil(24 / nodes.step))
    weight = spread * (k - 1) * np.exp(-0.5 * g**2 + (k - 2) * log_ndtr(g))
    weight = weight / math.sqrt(2 * math.pi)
    log_cdf = log_ndtr(g)
    fields = g[:, None]
    for j in range(2, min(nodes.best, k - 1) + 1):
        log_u, w = layered_rule(nodes.gaps, (k - j) * layer(log_cdf, root))
        log_cdf = (log_cdf[:, None] + log_u / (k - j)).ravel()
        weight = (weight[:, None] * w).ravel()
        fields = np.column_stack([np.repeat(fields, nodes.gaps, axis=0), ndtri_exp(log_cdf)])
    keep = weight > 1e-13 * weight.max()
    return BestOthers(fields[keep], log_cdf[keep], weight[keep])


def layered_rule(n: int, size: Array) -> tuple[Array, Array]:
    """Return ln u and weights (s, n), 0 < u < 1: layers of width `size` (s,) at 1, and at 0.

    Nodes crowd at 1 within the layer, and as the cube of the distance towards 0.
    """
    nodes, weights = legendre_rule(n)
    r = 1 - nodes
    size = np.asarray(size, float)[:, None]
    rate = np.log1p(1 / size)
    u = (1 + size) * -np.expm1(-rate * r**3)
    w = 3 * r**2 * weights * rate * (1 - u + size)
    return np.log(u), w / w.sum(1, keepdims=True)


def layer(log_cdf: Array, root: float) -> Array:
    """Return the width in u (n,) of what lies within √τ of a competitor at ln Φ.

    It is at most a tail's length.
    """
    g = ndtri_exp(log_cdf)
    hazard = np.exp(-0.5 * g**2 - log_cdf) / math.sqrt(2 * math.pi)
    return 2 / (1 / -np.expm1(log_cdf) + 1 / (hazard * root))
