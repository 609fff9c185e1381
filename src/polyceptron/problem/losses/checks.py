"""Tests of a loss before it is used: what every caller needs, and what the theory needs of it.

    check_loss          shapes, ∇ℓ against ℓ, ∇²ℓ against ∇ℓ, convexity, at eight points
    check_symmetric     a loss of field differences that treats the classes alike, for the theory
    class_coordinates   whether a loss sees field differences only

A loss that fails is refused with a sentence that says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from polyceptron.checks import difference_basis
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem.losses.base import Loss
from polyceptron.problem.losses.names import LOSSES
from polyceptron.problem.losses.optional import Labels

# Of tests/registry/test_registry_members.py, which has losses that must fail: central differences
# of order-one fields have an error of about 1e-10, a wrong derivative one of order 1.
_DIFFERENCE_STEP = 1e-5
_DERIVATIVE_TOLERANCE = 1e-5  # relative
_CONVEXITY_TOLERANCE = 1e-7  # relative
_SYMMETRY_TOLERANCE = 1e-8  # relative
_PROX_TOLERANCE = 1e-5  # relative, of the slope at a proximal point


def check_loss(loss: Loss, n_classes: int = 3) -> None:
    """Raise `InvalidInput` unless a loss has a name, right shapes and derivatives, and is convex.

    Parameters
    ----------
    loss : Loss
    n_classes : int
        Number of classes of the fields at which it is tried.
    """
    _check_name(loss)
    z, y = _test_points(n_classes)
    n, k = z.shape
    value = _evaluated(loss, "value", loss.value, (n,), z, y)
    gradient = _evaluated(loss, "gradient", loss.gradient, (n, k), z, y)
    hessian = _evaluated(loss, "hessian", loss.hessian, (n, k, k), z, y)
    if not np.isfinite(value).all():
        return  # hard constraints have no derivatives to compare
    _check_derivative(loss, "gradient", gradient, "value", loss.value, z, y)
    _check_derivative(loss, "hessian", hessian, "gradient", loss.gradient, z, y)
    least = float(np.linalg.eigvalsh((hessian + hessian.swapaxes(1, 2)) / 2).min())
    if least < -_CONVEXITY_TOLERANCE * (1 + float(np.abs(hessian).max())):
        raise InvalidInput(
            f"the loss {loss.name!r} is not convex: its Hessian has an eigenvalue of {least:.3g}"
        )


def _check_name(loss: Loss) -> None:
    """Raise `InvalidInput` unless a loss has a name that no other loss is registered under."""
    name = getattr(loss, "name", None)  # a class of a user's may have none
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"a loss needs a name: {type(loss).__name__} has none")
    for entry in LOSSES.entries:
        if entry.name == name and type(loss) is not entry.make:
            raise InvalidInput(f"the name {name!r} belongs to another loss: give yours its own")


Derivative = Callable[[Array, Labels], Array]


def _evaluated(
    loss: Loss, method: str, function: Derivative, shape: tuple[int, ...], z: Array, y: Labels
) -> Array:
    """Return `function(z, y)`, or raise `InvalidInput` if it fails or is not of this shape."""
    try:
        found = np.asarray(function(z, y), dtype=float)
    except Exception as error:
        raise InvalidInput(
            f"the {method} of the loss {loss.name!r} fails at fields of shape {z.shape}: {error}"
        ) from None
    if found.shape != shape:
        raise InvalidInput(
            f"the {method} of the loss {loss.name!r} must have shape {shape} for fields of shape "
            f"{z.shape}, got {found.shape}"
        )
    return found


def _check_derivative(
    loss: Loss,
    method: str,
    derivative: Array,
    base_method: str,
    function: Derivative,
    z: Array,
    y: Labels,
) -> None:
    """Raise `InvalidInput` unless `derivative` is that of `function`, by central differences."""
    steps = _DIFFERENCE_STEP * np.eye(z.shape[1])
    differences = [function(z + step, y) - function(z - step, y) for step in steps]
    measured = np.stack(differences, -1) / (2 * _DIFFERENCE_STEP)
    off = float(np.abs(derivative - measured).max())
    if not off <= _DERIVATIVE_TOLERANCE * (1 + float(np.abs(measured).max())):
        raise InvalidInput(
            f"the {method} of the loss {loss.name!r} is not the derivative of its {base_method}: "
            f"they differ by up to {off:.3g} at a few test points"
        )


def check_symmetric(loss: Loss, n_classes: int) -> None:
    """Raise `InvalidInput` unless the scalar theory serves a loss.

    It needs a loss of field differences that treats the classes alike, with proximal points that
    can be found. A part along (1, …, 1) may decouple, as in the square loss: the gradient's sum
    then depends on the sum of the fields alone.
    """
    z, y = _test_points(n_classes)
    gradient = loss.gradient(z, y)
    tolerance = _SYMMETRY_TOLERANCE * (1 + float(np.abs(gradient).max()))
    _check_differences(loss, gradient, z, y, tolerance)
    _check_permutations(loss, gradient, z, y, tolerance)
    if not loss.has_own_prox:
        _check_newton_prox(loss, z, y)


def _check_differences(loss: Loss, gradient: Array, z: Array, y: Labels, tolerance: float) -> None:
    """Raise `InvalidInput` unless ∇ℓ on 1⊥ is a function of field differences."""
    k = z.shape[1]
    total = gradient.sum(1)
    shifted = loss.gradient(z + 0.7, y)  # any common shift
    across = gradient - total[:, None] / k
    shifted_across = shifted - shifted.sum(1)[:, None] / k
    centred_total = loss.gradient(z - z.mean(1, keepdims=True), y).sum(1)
    decoupled = np.abs(centred_total.std()) < tolerance
    shift_matters = np.abs(across - shifted_across).max() > tolerance
    if shift_matters or (np.abs(total).max() > tolerance and not decoupled):
        raise InvalidInput(
            f"the theory needs a loss of differences of fields; the gradient of {loss.name!r} "
            f"does not sum to zero over the classes"
        )


def _check_permutations(loss: Loss, gradient: Array, z: Array, y: Labels, tolerance: float) -> None:
    """Raise `InvalidInput` unless ∇ℓ is permuted as the classes are."""
    k = z.shape[1]
    cycle = [*range(1, k), 0]
    swap = [1, 0, *range(2, k)]
    for permutation in (cycle, swap):  # together they generate every permutation
        place = np.argsort(permutation)
        permuted = loss.gradient(z[:, permutation], place[y])
        if np.abs(permuted - gradient[:, permutation]).max() > tolerance:
            raise InvalidInput(
                f"the theory needs a loss that treats the classes alike, {loss.name!r} does not"
            )


def _check_newton_prox(loss: Loss, z: Array, y: Labels) -> None:
    """Raise `InvalidInput` unless Newton's method finds the proximal points of a loss."""
    for V in (0.1, 1.0, 10.0):
        prox = loss.prox(z, y, V)
        slope = loss.gradient(prox, y)
        off = np.abs((prox - z) / V + slope)
        if not off.max() <= _PROX_TOLERANCE * (1 + float(np.abs(slope).max())):
            raise InvalidInput(
                f"the loss {loss.name!r} seems not to be smooth: Newton's method misses its "
                f"proximal point by a slope of {off.max():.2g} at V = {V:g}; give the loss a "
                f"method `denoise(omega, y, V)` of its own, or smooth its kinks"
            )


def _test_points(n_classes: int) -> tuple[Array, Labels]:
    """Return eight fields (8, k) of growing size, away from any likely kink, and labels (8,)."""
    sizes = np.linspace(0.3, 3.0, 8)
    z = np.random.default_rng(0).standard_normal((8, n_classes)) * sizes[:, None]
    return z, np.arange(8) % n_classes


def class_coordinates(loss: Loss, n_classes: int) -> Array:
    """Return orthonormal columns (k, r) that span the fields which a loss sees.

    r = k − 1 for a loss of field differences, else r = k.

    Examples
    --------
    >>> from polyceptron.problem import CrossEntropy, SquareLoss
    >>> class_coordinates(CrossEntropy(), 3).shape, class_coordinates(SquareLoss(), 3).shape
    ((3, 2), (3, 3))
    """
    z = np.random.default_rng(0).standard_normal((2 * n_classes, n_classes))
    slope = loss.gradient(z, np.arange(2 * n_classes) % n_classes)
    rounding = 1e-12 * float(np.abs(slope).max(initial=0.0))
    if float(np.abs(slope.sum(1)).max()) <= rounding:
        return difference_basis(n_classes)
    return np.eye(n_classes)
