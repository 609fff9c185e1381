"""Gauss rules over boxes in one or two dimensions that are halved until a function is smooth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyceptron.numerics import TINY, Array
from polyceptron.numerics.panels import last_coefficients, legendre_rule

MAX_NODES = 200_000
MAX_HALVINGS = 16


@dataclass(frozen=True)
class _Boxes:
    """Boxes by their lower corners and widths, (boxes, r) each."""

    low: Array
    width: Array

    def __len__(self) -> int:
        return len(self.low)

    def only(self, chosen: NDArray[np.bool_]) -> "_Boxes":
        """Return the chosen boxes."""
        return _Boxes(self.low[chosen], self.width[chosen])

    def halved(self, along: NDArray[np.bool_]) -> "_Boxes":
        """Halve each box along the axes marked for it in `along` (boxes, r)."""
        low = self.low.copy()
        width = self.width.copy()
        for axis in range(low.shape[1]):
            split = along[:, axis]
            half = width[split]
            half[:, axis] /= 2
            upper = low[split]
            upper[:, axis] += half[:, axis]
            width[split] = half
            low = np.concatenate([low, upper])
            width = np.concatenate([width, half])
            along = np.concatenate([along, along[split]])
        return _Boxes(low, width)


def smooth_boxes(
    function: Callable[[Array], Array], ends: Sequence[Array], *, tol: float, order: int
) -> tuple[Array, Array, Array]:
    """Return a rule that integrates a function over a box in r = 1 or 2 dimensions.

    Parameters
    ----------
    function : callable
        Takes points (n, r) and returns values (c, n) of c quantities.
    ends : sequence of arrays
        Sorted break points along each axis, at which the function may have kinks and jumps.
    tol : float
        A box is halved along the axes where the function is not smooth to `tol` of the integrals
        of |function|.
    order : int
        Nodes of a box along each axis.

    Returns
    -------
    nodes (n, r), weights (n,), values (c, n)

    Examples
    --------
    >>> ends = [np.array([-8.3, -3.0, 0.0, 3.0, 8.3])] * 2
    >>> bell = lambda x: np.exp(-(x**2).sum(1) / 2)[None]
    >>> x, w, values = smooth_boxes(bell, ends, tol=1e-9, order=8)
    >>> bool(abs(w @ values[0] / (2 * np.pi) - 1) < 1e-9)
    True
    """
    dimension = len(ends)
    boxes = _first_boxes(ends)
    unit_nodes, unit_weights = _unit_rule(dimension, order)
    nodes: list[Array] = []
    weights: list[Array] = []
    found: list[Array] = []
    n_nodes = 0
    size: Array | None = None
    for halving in range(MAX_HALVINGS):
        x = boxes.low[:, None] + boxes.width[:, None] * unit_nodes
        values = function(x.reshape(-1, dimension))
        volume = boxes.width.prod(1)
        if size is None:
            size = np.abs(values) @ (volume[:, None] * unit_weights).ravel()
        values = values.reshape(len(values), len(boxes), *[order] * dimension)
        largest = np.maximum(tol * size, TINY)[:, None] / np.maximum(volume, TINY)
        rough = _rough_axes(values, largest, order)
        n_more = 2 * rough.any(1).sum() * len(unit_nodes)
        done: NDArray[np.bool_] = np.logical_not(rough.any(1))
        if n_nodes + n_more > MAX_NODES or halving == MAX_HALVINGS - 1:
            done = np.full(len(boxes), True)
        nodes.append(x[done].reshape(-1, dimension))
        weights.append((volume[done, None] * unit_weights).ravel())
        found.append(values[:, done].reshape(len(values), -1))
        n_nodes += len(nodes[-1])
        boxes = boxes.only(~done).halved(rough[~done])
        if len(boxes) == 0:
            break
    return np.concatenate(nodes), np.concatenate(weights), np.concatenate(found, 1)


def _first_boxes(ends: Sequence[Array]) -> _Boxes:
    """Return the boxes between the break points of each axis."""
    indices = np.meshgrid(*[np.arange(len(e) - 1) for e in ends], indexing="ij")
    low = [e[i.ravel()] for e, i in zip(ends, indices, strict=True)]
    high = [e[i.ravel() + 1] for e, i in zip(ends, indices, strict=True)]
    return _Boxes(np.stack(low, 1), np.stack(high, 1) - np.stack(low, 1))


def _unit_rule(dimension: int, order: int) -> tuple[Array, Array]:
    """Return the nodes (n, r) and weights (n,) of the product rule on the unit box."""
    t, w = legendre_rule(order)
    grids = np.meshgrid(*[t] * dimension, indexing="ij")
    nodes = np.stack([grid.ravel() for grid in grids], 1)
    weights = np.prod(np.meshgrid(*[w] * dimension, indexing="ij"), 0).ravel()
    return nodes, weights


def _rough_axes(values: Array, largest: Array, order: int) -> NDArray[np.bool_]:
    """Return along which axes each box must be halved, shape (boxes, r).

    Parameters
    ----------
    values : array (c, boxes, order[, order])
    largest : array (c, boxes)
        How large the last two Legendre coefficients may be.
    """
    to_coefficients = last_coefficients(tuple(legendre_rule(order)[0]))
    rough = []
    for axis in range(2, values.ndim):
        tail = np.abs(np.tensordot(values, to_coefficients, (axis, 1)))
        tail = tail.reshape(*values.shape[:2], -1).max(2)
        rough.append((tail > largest).any(0))
    return np.stack(rough, 1)
