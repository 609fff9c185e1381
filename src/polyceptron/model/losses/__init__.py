"""Convex losses of the class fields, one file each, with their short cuts."""

from polyceptron.model.losses import cross_entropy, max_margin, square
from polyceptron.model.losses.base import LOSSES, Loss, as_loss, check_loss, check_symmetric
from polyceptron.model.losses.cross_entropy import CrossEntropy
from polyceptron.model.losses.max_margin import MaxMargin
from polyceptron.model.losses.square import SquareLoss

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

for _module in (cross_entropy, square, max_margin):  # a new loss: its file, and its name here
    LOSSES.add(_module.ENTRY)
