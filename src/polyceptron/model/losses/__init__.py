"""Convex losses of the class fields, with their short cuts."""

from polyceptron.model.losses.cross_entropy import CrossEntropy, Smoothed
from polyceptron.model.losses.hinges import Hinge, MaxMargin, SquaredHinge, WestonWatkins
from polyceptron.model.losses.loss import LOSSES, Loss, SquareLoss, as_loss, check_symmetric
from polyceptron.model.registry import Entry

__all__ = [
    "LOSSES",
    "CrossEntropy",
    "Hinge",
    "Loss",
    "MaxMargin",
    "Smoothed",
    "SquareLoss",
    "SquaredHinge",
    "WestonWatkins",
    "as_loss",
    "check_symmetric",
]

# A new loss: its file, and its entry here.
LOSSES.add(
    Entry("cross-entropy", "softmax cross-entropy", CrossEntropy, label="cross-entropy"),
    Entry("square", "squared distance to the one-hot label", SquareLoss, label="square loss"),
    Entry("max-margin", "hard-margin multi-class SVM", MaxMargin, label="max-margin"),
    Entry("hinge", "multi-class hinge of Crammer and Singer", Hinge, label="hinge", plain=False),
    Entry(
        "weston-watkins",
        "sum of the hinges over the other classes",
        WestonWatkins,
        label="Weston–Watkins hinge",
        plain=False,
    ),
    Entry(
        "squared-hinge",
        "half the sum of their squares",
        SquaredHinge,
        label="squared hinge",
        plain=False,
    ),
    Entry(
        "smoothed",
        "cross-entropy with a share epsilon of each label spread over all classes",
        Smoothed,
        ("epsilon",),
        (0.1,),
        label="label smoothing",
    ),
)
