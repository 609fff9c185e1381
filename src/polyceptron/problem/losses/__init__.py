"""Convex losses of the class fields, with their short cuts."""

from polyceptron.problem.losses.cross_entropy import CrossEntropy as CrossEntropy
from polyceptron.problem.losses.cross_entropy import Smoothed as Smoothed
from polyceptron.problem.losses.hinges import Hinge as Hinge
from polyceptron.problem.losses.hinges import MaxMargin as MaxMargin
from polyceptron.problem.losses.hinges import SquaredHinge as SquaredHinge
from polyceptron.problem.losses.hinges import WestonWatkins as WestonWatkins
from polyceptron.problem.losses.loss import LOSSES as LOSSES
from polyceptron.problem.losses.loss import Loss as Loss
from polyceptron.problem.losses.loss import SquareLoss as SquareLoss
from polyceptron.problem.losses.loss import as_loss as as_loss
from polyceptron.problem.losses.loss import check_symmetric as check_symmetric
from polyceptron.problem.registry import Entry

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
