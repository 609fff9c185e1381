"""What the theory can say of the mean loss of training samples."""

import numpy as np

from polyceptron.problem.losses import Loss


def acts_along_ones(loss: Loss, n_classes: int) -> bool:
    """Return whether a loss pulls along (1, …, 1), which no label shows.

    The theory follows class differences only. The mean of such a loss is known for the square loss
    alone, whose part along (1, …, 1) has equations of its own.
    """
    zero = np.zeros((1, n_classes))
    slope = loss.gradient(zero, np.zeros(1, dtype=np.int64))
    rounding = 1e-8 * (1 + float(np.abs(slope).max()))
    return abs(float(slope.sum())) > rounding
