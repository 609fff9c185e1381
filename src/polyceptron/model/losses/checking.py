"""A loss given by a user is tried before it is used: shapes, gradient, curvature, symmetry.

Each fault gets one sentence; a number computed from a wrong derivative would carry none.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.model.losses.base import LOSSES, Array, Labels, Loss

_STEP = 1e-5
_CLOSE = 1e-5  # relative agreement of a derivative with central differences


def as_loss(loss: Any) -> Loss:
    """The loss meant by a name ('cross-entropy' or 'cross_entropy', ...) or a `Loss`, checked.

    >>> as_loss("max_margin").name
    'max-margin'
    """
    found = LOSSES.read(loss)
    if not any(type(found) is entry.make for entry in LOSSES.entries):
        check_loss(found)
    return found


def check_loss(loss: Loss, n_classes: int = 3) -> None:
    """Shapes, gradient against value, Hessian against gradient, convexity, at a few points."""
    name = getattr(loss, "name", None)
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"a loss needs a name: {type(loss).__name__} has none")
    if any(entry.name == name and type(loss) is not entry.make for entry in LOSSES.entries):
        raise InvalidInput(f"the name {name!r} belongs to another loss: give yours its own")
    z, y = _points(n_classes)
    n, k = z.shape
    value = _call(loss, "value", z, y, (n,))
    gradient = _call(loss, "gradient", z, y, (n, k))
    hessian = _call(loss, "hessian", z, y, (n, k, k))
    if not np.isfinite(value).all():
        return  # hard constraints have no derivatives to compare
    steps = _STEP * np.eye(k)
    slope = np.stack(
        [(loss.value(z + s, y) - loss.value(z - s, y)) / (2 * _STEP) for s in steps], 1
    )
    _compare(name, "gradient", "value", gradient, slope)
    bend = np.stack(
        [(loss.gradient(z + s, y) - loss.gradient(z - s, y)) / (2 * _STEP) for s in steps], 2
    )
    _compare(name, "hessian", "gradient", hessian, bend)
    least = float(np.linalg.eigvalsh((hessian + hessian.swapaxes(1, 2)) / 2).min())
    if least < -1e-7 * (1 + float(np.abs(hessian).max())):
        raise InvalidInput(
            f"the loss {name!r} is not convex: its Hessian has an eigenvalue of {least:.3g}"
        )


def check_symmetric(loss: Loss, n_classes: int) -> None:
    """The scalar theory needs a loss of field differences that treats the classes alike.

    A part along (1, …, 1) is allowed where it decouples, as in the square loss: then the gradient's
    sum depends on the sum of the fields alone.
    """
    z, y = _points(n_classes)
    slope = loss.gradient(z, y)
    size = 1e-8 * (1 + float(np.abs(slope).max()))
    along = slope.sum(1)
    shifted = loss.gradient(z + 0.7, y)
    across = slope - along[:, None] / n_classes
    moved = shifted - shifted.sum(1)[:, None] / n_classes
    decoupled = np.abs(loss.gradient(z - z.mean(1, keepdims=True), y).sum(1).std()) < size
    if np.abs(across - moved).max() > size or (np.abs(along).max() > size and not decoupled):
        raise InvalidInput(
            f"the theory needs a loss of differences of fields; the gradient of {loss.name!r} "
            f"does not sum to zero over the classes"
        )
    turn = np.roll(np.arange(n_classes), 1)
    swap = np.array([1, 0, *range(2, n_classes)])
    for order in (turn, swap):  # together they make every order of the classes
        place = np.argsort(order)
        if np.abs(loss.gradient(z[:, order], place[y]) - slope[:, order]).max() > size:
            raise InvalidInput(
                f"the theory needs a loss that treats the classes alike, {loss.name!r} does not"
            )


@lru_cache(maxsize=16)
def _points(n_classes: int) -> tuple[Array, Labels]:
    """Eight fields (8, k) of growing size, away from any likely kink, and labels (8,)."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((8, n_classes)) * np.linspace(0.3, 3.0, 8)[:, None]
    return z, np.arange(8) % n_classes


def _call(loss: Loss, method: str, z: Array, y: Labels, shape: tuple[int, ...]) -> Array:
    try:
        result = np.asarray(getattr(loss, method)(z, y), dtype=float)
    except Exception as error:
        raise InvalidInput(
            f"the {method} of the loss {loss.name!r} fails at fields of shape {z.shape}: {error}"
        ) from None
    if result.shape != shape:
        raise InvalidInput(
            f"the {method} of the loss {loss.name!r} must have shape {shape} for fields of shape "
            f"{z.shape}, got {result.shape}"
        )
    return result


def _compare(name: str, what: str, of: str, given: Array, measured: Array) -> None:
    off = float(np.abs(given - measured).max())
    if not off <= _CLOSE * (1 + float(np.abs(measured).max())):
        raise InvalidInput(
            f"the {what} of the loss {name!r} is not the derivative of its {of}: they differ by "
            f"up to {off:.3g} at a few test points"
        )
