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

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtri_exp, xlogy

from polyceptron.errors import InvalidInput
from polyceptron.numerics import AnyArray
from polyceptron.numerics.panels import legendre_rule
from polyceptron.problem.channels import Channel
from polyceptron.problem.order import ScalarOrder
from polyceptron.sides.fields.integrand import FEW, PosteriorScore

_OFTEN, _LEVELS = 0.005, (4, 3)  # of the panels, by whether guesses soften them: 3e-11 or better
_SURE = 1e-12  # stands for no overlap
_LEAST = 1e-300
_ALMOST_ONE = 1 - 1e-15
_FAR, _SMOOTH = 7.8, 0.4  # fields that are never met; √τ from which two thirds of pairs are enough


def known_entropy(channel: Channel, n_classes: int) -> float:
    """Ψ₀: Σ_l Z_l ln Z_l when the utilities are known; 0 unless labels are also guessed."""
    a = channel.guess(n_classes)
    top = 1 - (n_classes - 1) * a
    return float(xlogy(top, top) + (n_classes - 1) * xlogy(a, a))


def few_moments(channel: Channel, v: float, n_classes: int) -> tuple[float, float]:
    """I and the excess of two or three classes at residual variance v."""
    law = ScalarOrder.bayes(min(max(v, 1e-20), 1 - _SURE))
    student = PosteriorScore(channel, n_classes)
    level = _LEVELS[channel.guess(n_classes) >= _OFTEN]
    found = FEW[n_classes].place(student, channel, n_classes, law, level)(law)
    return float(found.Q[0]), -float(found.loss[0])


@dataclass(frozen=True)
class InformationNodes:
    """How many of each kind the rule of many classes has."""

    best: int = 1  # competitors integrated over
    gaps: int = 20  # nodes for each but the first of these
    step: float = 0.6  # of the first, in standard deviations
    bath: int = 32  # for one of the others
    pairs: int = 18  # and for each of two; of wide channels two thirds


_NODES = InformationNodes()


def many_excess(
    channel: Channel, v: float, n_classes: int, nodes: InformationNodes = _NODES
) -> float:
    """The excess of four or more classes at residual variance v."""
    k, q = n_classes, max(1 - v, _SURE)
    law = channel.utility_law(v)
    if law is None:
        raise InvalidInput(
            f"Bayes-optimal theory of {k} classes needs the law of one utility, which the noise "
            f"{channel.name!r} does not define (`utility_law`)"
        )
    width = channel.width(v)
    root = width / math.sqrt(q)
    a = channel.guess(k)
    scale, top = 1 - k * a, 1 - (k - 1) * a
    fields, log_cdf, weight = best_others(k, root, nodes)
    rest = k - 1 - fields.shape[1]
    reach = min(22.0, law.high / width)
    x_step = min(0.3, 0.5 / root)
    # The label's own field is a normal variable: x is never further from −g/√τ.
    low = max(-reach, -(_FAR + float(fields[:, 0].max())) / root)
    high = min(reach, (_FAR - float(fields[:, 0].min())) / root)
    x: AnyArray = np.arange(math.floor(low / x_step), math.ceil(high / x_step) + 1) * x_step
    # The winning utility C: ∏F steepens slowly with k, and is nothing on the far left.
    C_step = 0.4 / (1 + 0.4 * math.log(k / 4))
    lowest = max(law.low / width, -7.5)
    C: AnyArray = np.arange(math.floor(lowest / C_step), math.ceil(reach / C_step)) * C_step
    log_F, hazard = law.values(width * (C[:, None] - x))
    kernel = C_step * width * np.exp(log_F) * hazard
    alone = channel.utility_gaps((width * x)[None], v).z  # P against the best competitor only
    first_F = law.values(width * C)[0]

    def below(g: AnyArray, log_last: AnyArray, n: int) -> tuple[AnyArray, AnyArray, AnyArray]:
        """F (·, n, C) of competitors below the last known one, its mean, and the n weights."""
        log_u, w = layered_rule(n, layer(log_last, root))
        delta = (g - ndtri_exp(log_last[:, None] + log_u)) / root
        F = np.exp(law.values(width * (delta[:, :, None] + C))[0])
        return F, np.maximum(np.einsum("nbc,nb->nc", F, w), _LEAST), w

    total = 0.0
    n_pairs = nodes.pairs if root < _SMOOTH else 2 * nodes.pairs // 3
    i, j = np.triu_indices(n_pairs)
    chunk = max(1, 1_000_000 // (len(i) * x.size))
    for start in range(0, len(weight), chunk):
        part = slice(start, start + chunk)
        g, known = fields[part, :1], fields[part, 1:]
        density = np.exp(-0.5 * (g + root * x) ** 2) * weight[part, None]
        log_known = law.values(width * ((g - known)[:, :, None] / root + C))[0].sum(1)
        if rest:
            F, mean, w = below(g, log_cdf[part], nodes.bath)
            log_known += rest * np.log(mean)
        P = np.maximum(alone + (np.exp(first_F) * np.expm1(log_known)) @ kernel, _LEAST)
        Z = a + scale * P
        value = xlogy(Z, Z) - P * xlogy(top, top) - (1 - P) * xlogy(a, a)
        if rest:
            product = np.exp(first_F + log_known)[:, None, :]
            share = (scale / Z)[:, None, :]
            one = ((product * (F / mean[:, None, :] - 1)) @ kernel) * share
            value += rest * Z * np.einsum("nbx,nb->nx", _told(one), w)
        if rest > 1:
            F, mean, w = below(g, log_cdf[part], n_pairs)
            off = F / mean[:, None, :] - 1
            one = ((product * off) @ kernel) * share
            two = ((product * off[:, i] * off[:, j]) @ kernel) * share + one[:, i] + one[:, j]
            both = w[:, i] * w[:, j] * np.where(i == j, 1, 2)
            synergy = np.einsum("nbx,nb->nx", _told(two), both)
            synergy -= 2 * np.einsum("nbx,nb->nx", _told(one), w)
            value += 0.5 * rest * (rest - 1) * Z * synergy
        total += float((density * value).sum())
    return k * total * root * x_step / math.sqrt(2 * math.pi)


def _told(excess: AnyArray) -> AnyArray:
    """(1 + e) ln(1 + e): what Z(1 + e) ln Z(1 + e) has above Z ln Z, over Z, for e of mean 0."""
    excess = np.maximum(excess, -_ALMOST_ONE)
    return np.asarray((1 + excess) * np.log1p(excess))


def best_others(
    k: int, root: float, nodes: InformationNodes
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Nodes of the best of k − 1 normals (n, best), ln Φ of the last (n,), and weights (n,)."""
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
    log_cdf, fields = log_ndtr(g), g[:, None]
    for j in range(2, min(nodes.best, k - 1) + 1):
        log_u, w = layered_rule(nodes.gaps, (k - j) * layer(log_cdf, root))
        log_cdf = (log_cdf[:, None] + log_u / (k - j)).ravel()
        weight = (weight[:, None] * w).ravel()
        fields = np.column_stack([np.repeat(fields, nodes.gaps, axis=0), ndtri_exp(log_cdf)])
    keep = weight > 1e-13 * weight.max()
    return fields[keep], log_cdf[keep], weight[keep]


def layered_rule(n: int, size: AnyArray) -> tuple[AnyArray, AnyArray]:
    """ln u and weights (s, n), 0 < u < 1: layers of width `size` (s,) at 1, as the cube to 0."""
    nodes, weights = legendre_rule(n)
    r = 1 - nodes
    size = np.asarray(size, float)[:, None]
    rate = np.log1p(1 / size)
    u = (1 + size) * -np.expm1(-rate * r**3)
    w = 3 * r**2 * weights * rate * (1 - u + size)
    return np.log(u), w / w.sum(1, keepdims=True)


def layer(log_cdf: AnyArray, root: float) -> AnyArray:
    """Width in u of what lies within √τ of a competitor at ln Φ, or within a tail's length (n,)."""
    g = ndtri_exp(log_cdf)
    hazard = np.exp(-0.5 * g**2 - log_cdf) / math.sqrt(2 * math.pi)
    return 2 / (1 / -np.expm1(log_cdf) + 1 / (hazard * root))
