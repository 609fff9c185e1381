"""The two sides of the loop, built from a teacher and an estimator.

    fields side    channel × student         law (τ, q, V)  →  m̂, q̂, V̂ = α(M, Q, C)
    weights side   penalty × spectrum        m̂, q̂, V̂        →  law

The student is a loss, or the channel itself (`PosteriorScore`). The fields side averages by a rule
at some level of accuracy (`sides/fields`); a loss whose averages are known in closed form needs
none. The weights side of Bayes-optimal learning is a prior × spectrum (`sides/weights/side.py`).
All can be called: that is a round of the plain loop (`theory/dynamics.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from polyceptron.problem.channels import Channel
from polyceptron.problem.losses import Loss
from polyceptron.problem.order import Conjugates, ScalarOrder
from polyceptron.problem.penalties import Penalty, Ridge
from polyceptron.problem.populations import AnyTeacher
from polyceptron.problem.priors import WeightsRow
from polyceptron.problem.spectrum import Spectrum
from polyceptron.sides.fields.integrand import FEW, Averages, Averaging, FieldsStudent, Rule
from polyceptron.sides.fields.points import Points
from polyceptron.sides.fields.sums import Sums
from polyceptron.sides.generalisation import margin_exceeds

_SUMS, _POINTS = Sums(), Points()
_ROUNDING = 1e-11  # of a probability that is 1 minus a double integral
_NOTHING = 1e-18  # stands for q = 0, where every loss has a finite limit
_LEVEL_FEW, _LEVEL_MANY = 2, 1  # of the plain loop: 1e-8 and about 1e-4, as the figures need


@dataclass(frozen=True)
class FieldsSide:
    """What n = αd samples of a channel tell a student."""

    channel: Channel
    student: FieldsStudent
    n_classes: int
    alpha: float
    by_points: bool = False  # sample even where a rule without chance serves

    @property
    def rule(self) -> Rule:
        """What places nodes: by the number of classes, above three by student and channel."""
        if self.n_classes in FEW:
            return FEW[self.n_classes]
        serves = not self.by_points and _SUMS.serves(self.student, self.channel)
        return _SUMS if serves else _POINTS

    def averages(self, level: int, reference: ScalarOrder) -> Averaging:
        """The averages at a level of accuracy; nodes are placed for `reference` and kept."""
        if self.explicit(reference) is not None:
            return cast(Averaging, self.explicit)
        return self.rule.place(self.student, self.channel, self.n_classes, reference, level)

    def explicit(self, law: ScalarOrder) -> Averages | None:
        """The averages in closed form, where the student has them."""
        signal = self.channel.signal(self.n_classes)
        found = self.student.explicit_averages(law, signal, self.n_classes)
        if found is None:
            return None
        M, Q, C, D = (np.array([value]) for value in found)
        unknown, one = np.full(1, math.nan), np.ones(1)
        return Averages(M, Q, C, np.maximum(D, 0.0), np.maximum(-D, 0.0), unknown, unknown, one)

    def hats(self, averages: Averages) -> Conjugates:
        """m̂ = αM, q̂ = αQ, V̂ = αC."""
        a = self.alpha
        return Conjugates(
            *(a * float(part.mean()) for part in (averages.M, averages.Q, averages.C))
        )

    def __call__(self, law: ScalarOrder) -> Conjugates:
        """One step of the plain loop, nodes placed at its law."""
        law = replace(law, q=max(law.q, _NOTHING))
        level = _LEVEL_FEW if self.n_classes <= 3 else _LEVEL_MANY
        return self.hats(self.averages(level, law)(law))


WeightsSide = Callable[[Conjugates], ScalarOrder]  # what the coordinates of the weights make of it


@dataclass(frozen=True)
class PenaltySide:
    """A penalty over the features' spectrum, and the teacher's row of weights."""

    penalty: Penalty
    spectrum: Spectrum
    row: WeightsRow

    def __call__(self, hats: Conjugates) -> ScalarOrder:
        return self.penalty.law(hats, self.spectrum, self.row)


@dataclass(frozen=True)
class Problem:
    """Empirical risk minimisation: its two sides."""

    fields: FieldsSide
    weights: PenaltySide

    @property
    def channel(self) -> Channel:
        """Of the labels."""
        return self.fields.channel

    @property
    def loss(self) -> Loss:
        """The student."""
        return cast(Loss, self.fields.student)

    @property
    def n_classes(self) -> int:
        """k."""
        return self.fields.n_classes

    @property
    def alpha(self) -> float:
        """n/d."""
        return self.fields.alpha

    @property
    def ridge(self) -> float:
        """λ."""
        return self.weights.penalty.strength

    @property
    def closed_form(self) -> bool:
        """Whether the whole fixed point is explicit, up to one scalar equation for a spectrum."""
        explicit = self.fields.explicit(ScalarOrder(1.0, 1.0, 1.0)) is not None
        return explicit and self.weights.penalty.quadratic

    def training_error(self, law: ScalarOrder) -> float | None:
        """P(a training sample is mistaken), where the fresh margin decides it alone; else None."""
        if math.isinf(law.V):
            return 0.0
        gap = self.loss.coordinates.mistake_gap(law.V)
        if gap is None:
            return None
        if math.isinf(gap):
            return 0.0
        kept = margin_exceeds(self.channel, self.n_classes, law.tau, gap / math.sqrt(law.q))
        return None if kept is None else 1 - kept if 1 - kept > _ROUNDING else 0.0

    def at(self, *, ridge: float | None = None, **changes: Any) -> Problem:
        """The same problem at another λ, or with another fields side."""
        if ridge is None:
            return replace(self, fields=replace(self.fields, **changes))
        return replace(self, weights=replace(self.weights, penalty=Ridge(ridge)))


def erm_sides(teacher: AnyTeacher, loss: Loss, ridge: float, alpha: float) -> Problem:
    """Both sides; with a ridge the prior enters by its variance only, which is 1."""
    fields = FieldsSide(teacher.channel, loss, teacher.n_classes, alpha)
    return Problem(fields, PenaltySide(Ridge(ridge), teacher.features, teacher.row))
