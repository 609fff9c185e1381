"""The law of margins u_y − max_{h≠y} u_h of T(ω + b), over all groups and labels.

Two and three classes: the fields side in trained gaps t (`matrix_graph`) has the density ρ = φ|J|Z
of a label's gaps, so that that of a margin x is a value, or one integral over the larger gap,

    p(x) = Σ_c p_c Σ_y ∫ds [ρ_cy(x, x + s) + ρ_cy(x + s, x)]

and fresh samples are those of V = 0. More classes, and hinges of three: points, whose weights are
shared between the two nearest margins of the grid.
"""

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.panels import panel_rule
from polyceptron.problem.losses import SquareLoss
from polyceptron.sides.matrix.fields import MatrixFields, MatrixOrder, MatrixProblem
from polyceptron.sides.matrix.graph import GraphFields, graph, graph_values, group_law
from polyceptron.sides.scores import FieldsDistribution, leading_nodes

_LEVEL, _POINTS, _REPLICATES = 2, 16, 8  # of the rule; log2 of all points; their replicates
_PANELS, _ORDER, _CLOSE = (12, 24, 48, 96, 192), 6, 1e-6  # until densities move by so little
_REACH, _TAIL = 8.3, 1e-5  # standard deviations of a gap; share of margins off the grid
_ON = 1e-6  # of an atom


def matrix_margins(
    problem: MatrixProblem, order: MatrixOrder, law: FieldsDistribution, x: Array | None
) -> tuple[Array, Array, Array, float, float]:
    """x (n,), by default 401 that hold nearly all, densities of fresh and training samples there,
    and the latter's atom, its mass and place."""
    loss, few = problem.loss, problem.n_classes <= 3
    trained, weight, widest = _trained(problem, order)
    if x is None or not few:
        fields, each, Z = leading_nodes(law)
        every = [(_least(fields, y), each.ravel() / len(each) * Z[:, y]) for y in range(len(Z.T))]
        own, chance = (np.concatenate(part) for part in zip(*every, strict=True))
        if x is None:
            ends = np.array([_ends(own, chance), _ends(trained, weight)])
            x = np.linspace(ends[:, 0].min(), ends[:, 1].max(), 401)
    fresh = _density(problem, order, x) if few else shared(x, own, chance)
    middle = float(weight @ trained)
    if np.abs(trained - middle).max() < _ON * (1 + abs(middle)):  # all are fitted exactly
        return x, fresh, np.zeros_like(x), 1.0, middle
    at = loss.margin_atom if loss.margin_floor is None else loss.margin_floor
    on = np.zeros(len(trained), bool) if at is None else np.abs(trained - at) < _ON
    if loss.margin_floor is not None:
        training = np.where(x > loss.margin_floor, fresh, 0.0)
    elif problem.sampled:
        training = shared(x, trained[~on], weight[~on])
    else:
        training = _density(problem, order, x, widest)
    return x, fresh, training, float(weight[on].sum()), 1.0 if at is None else at


def _least(fields: Array, label: int) -> Array:
    """The margin of a label at fields (n, k)."""
    return np.asarray(fields[:, label] - np.delete(fields, label, 1).max(1))


def _ends(margin: Array, weight: Array) -> Array:
    order = np.argsort(margin)
    sums = np.cumsum(weight[order])
    places = np.searchsorted(sums, sums[-1] * np.array([_TAIL, 1 - _TAIL]))
    return np.asarray(margin[order][np.minimum(places, len(order) - 1)])


def shared(x: Array, margin: Array, weight: Array) -> Array:
    """Weighted margins shared between the two nearest of a grid x (n,), per unit margin."""
    cell = np.clip(np.searchsorted(x, margin) - 1, 0, len(x) - 2)
    share = (margin - x[cell]) / (x[cell + 1] - x[cell])
    inside = (share >= 0) & (share <= 1)
    mass = np.zeros(len(x))
    np.add.at(mass, cell[inside], (weight * (1 - share))[inside])
    np.add.at(mass, cell[inside] + 1, (weight * share)[inside])
    return np.asarray(mass / np.gradient(x))


def _trained(problem: MatrixProblem, order: MatrixOrder) -> tuple[Array, Array, float]:
    """Margins (n,) of training samples at nodes, their weights, and the largest gap."""
    p, T = problem.population.group_shares, problem.basis
    margins, weights, widest = [], [], 0.0
    if not problem.sampled:
        for c, y, volume, g in GraphFields(problem, order, _LEVEL).blocks:
            density = graph_values(problem, group_law(problem, order, c), y, g, "plain")[0]
            margins.append(_least(g.u @ T.T, y))
            widest = max(widest, float(np.ptp(g.u @ T.T, axis=1).max()))
            weights.append(p[c] * volume * density)
    else:
        log2 = _POINTS - int(np.ceil(np.log2(_REPLICATES * problem.n_classes)))
        fields = MatrixFields.drawn(problem, log2, _REPLICATES)
        fields(order)
        for block, point in zip(fields.blocks, fields.near, strict=True):
            labels = np.tile(block.labels, _REPLICATES)
            for y in np.unique(labels).tolist():
                margins.append(_least(point[labels == y] @ T.T, y))
                weights.append(p[block.group] * block.weight.ravel()[labels == y] / _REPLICATES)
    return np.concatenate(margins), np.concatenate(weights), widest


def _density(problem: MatrixProblem, order: MatrixOrder, x: Array, widest: float = 0.0) -> Array:
    """Two or three classes, at x (n,): panels along the other gap, until they are enough.

    Of training samples, whose gaps are up to `widest`; without it of fresh ones.
    """
    p, k = problem.population.group_shares, problem.n_classes
    loss = problem.loss if widest else SquareLoss()  # any smooth one
    if not widest:
        order = order._replace(V=0 * order.V)
    laws = [group_law(problem, order, c) for c in range(len(p))]
    pairs = [(c, y) for c in range(len(p)) for y in (range(k) if problem.taught else (c,))]
    size = max(np.linalg.norm(at.shift) + _REACH / np.linalg.norm(at.inverse, -2) for at in laws)
    high = widest or np.sqrt(2) * size

    x = x - 1e-9 * (np.abs(x - 1) < 1e-10)  # where a hinge's square has a jump

    def value(t: Array) -> Array:
        found = np.zeros(len(t))
        for c, y in pairs:
            g = graph(loss, y, t, float(problem.weight[y]))
            found += p[c] * graph_values(problem, laws[c], y, g, "plain")[0]
        return found

    if k == 2:
        if loss.margin_atom is None:
            return value(x[:, None])
        t = x - loss.margin_atom  # its coordinate, which passes the atom from 0 to 1
        return value((t + np.where(t > 0, 1 + 1e-12, -1e-12))[:, None])
    found = np.zeros(len(x))
    for panels in _PANELS:
        before, reach = found, np.maximum(high - x, 1e-9)[:, None]
        kink = np.clip(1 - x[:, None], 0.0, reach)  # of a hinge's square
        breaks = np.sort(np.concatenate([reach * np.linspace(0, 1, panels + 1), kink], 1), 1)
        s, w = panel_rule(breaks, _ORDER)
        least = np.broadcast_to(x[:, None], s.shape)
        ways = (least, least + s), (least + s, least)
        each = sum(value(np.stack([a.ravel(), b.ravel()], 1)) for a, b in ways)
        found = (np.asarray(each).reshape(s.shape) * w).sum(1)
        if np.abs(found - before).max() <= _CLOSE * found.max():
            break
    return found
