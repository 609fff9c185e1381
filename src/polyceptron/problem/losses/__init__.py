"""Convex losses of the class fields: one loss a file, `base.py` says what a loss is.

`optional.py` lists what a loss may offer in addition, `checks.py` how it is tried.
"""

from typing import Any

from polyceptron.problem.losses.base import Loss as Loss
from polyceptron.problem.losses.checks import check_loss
from polyceptron.problem.losses.checks import check_symmetric as check_symmetric
from polyceptron.problem.losses.cross_entropy import CrossEntropy as CrossEntropy
from polyceptron.problem.losses.hard_margin import MaxMargin as MaxMargin
from polyceptron.problem.losses.hinge import Hinge as Hinge
from polyceptron.problem.losses.names import LOSSES as LOSSES
from polyceptron.problem.losses.smoothed import Smoothed as Smoothed
from polyceptron.problem.losses.square import SquareLoss as SquareLoss
from polyceptron.problem.losses.squared_hinge import SquaredHinge as SquaredHinge
from polyceptron.problem.losses.weston_watkins import WestonWatkins as WestonWatkins
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


def as_loss(loss: Any) -> Loss:
    """Return the loss meant by a name ('cross-entropy' or 'cross_entropy', ...) or a `Loss`.

    A loss that is not registered is checked (`check_loss`).

    Examples
    --------
    >>> as_loss("max_margin").name
    'max-margin'
    """
    found = LOSSES.read(loss)
    if not any(type(found) is entry.make for entry in LOSSES.entries):
        check_loss(found)
    return found
