"""The coordinates in which weights are kept: class differences, where a loss sees nothing else.

The gradient of such a loss sums to zero over the classes, and with a penalty its minimiser then has
no part common to all of them: k − 1 columns do instead of k.
"""

from __future__ import annotations

import numpy as np

from polyceptron.model.checks import difference_basis
from polyceptron.model.losses import Loss
from polyceptron.numerics import Array

_ROUNDING = 1e-12


def class_coordinates(loss: Loss, n_classes: int) -> Array:
    """B (k, r) with orthonormal columns: r = k − 1 for a loss of field differences, else r = k.

    >>> from polyceptron.model import CrossEntropy, SquareLoss
    >>> class_coordinates(CrossEntropy(), 3).shape, class_coordinates(SquareLoss(), 3).shape
    ((3, 2), (3, 3))
    """
    z = np.random.default_rng(0).standard_normal((2 * n_classes, n_classes))
    slope = loss.gradient(z, np.arange(2 * n_classes) % n_classes)
    common = float(np.abs(slope.sum(1)).max())
    if common <= _ROUNDING * float(np.abs(slope).max(initial=0.0)):
        return difference_basis(n_classes)
    return np.eye(n_classes)
