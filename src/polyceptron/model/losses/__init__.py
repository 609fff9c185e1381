"""Convex losses of the class fields, one file each, with their short cuts."""

from polyceptron.model.losses.base import LOSSES, Loss, as_loss, check_loss, check_symmetric
from polyceptron.model.losses.cross_entropy import CrossEntropy
from polyceptron.model.losses.max_margin import MaxMargin
from polyceptron.model.losses.square import SquareLoss
from polyceptron.model.registry import Entry

__all__ = [
    "LOSSES",
    "CrossEntropy",
    "Loss",
    "MaxMargin",
    "SquareLoss",
    "as_loss",
    "check_loss",
    "check_symmetric",
]

# A new loss: its file, and its entry here.
LOSSES.add(
    Entry("cross-entropy", "softmax cross-entropy", CrossEntropy, label="cross-entropy"),
    Entry("square", "squared distance to the one-hot label", SquareLoss, label="square loss"),
    Entry("max-margin", "hard-margin multi-class SVM", MaxMargin, label="max-margin"),
)
