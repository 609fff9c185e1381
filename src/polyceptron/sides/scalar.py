"""The two sides of the loop, built from a teacher and an estimator.

    fields side    channel × student         (τ, q, V)   →  m̂, q̂, V̂ = α(M, Q, C)
    weights side   penalty × spectrum        m̂, q̂, V̂     →  (τ, q, V)

with τ = ρ/√(1 − ρ²), ρ = m/√q the correlation of student and teacher fields: eq. SE of the paper.

The student is a loss, or the channel itself (`PosteriorScore`). The fields side averages by a rule
at some level of accuracy (`sides/fields`); a loss whose averages are known in closed form needs
none. The weights side of Bayes-optimal learning is a prior × spectrum (`sides/weights/side.py`).
A side is called with what the other one returned: a round of the plain loop is a call of each
(`theory/dynamics.py`). `Problem` holds both sides of empirical risk minimisation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from polyceptron.problem.channels import Channel
from polyceptron.problem.losses import Loss
from polyceptron.problem.order import Conjugates, ScalarOrder
from polyceptron.problem.penalties import Penalty, Ridge
from polyceptron.problem.populations import AnyTeacher
from polyceptron.problem.priors import WeightsRow
from polyceptron.problem.spectrum import Spectrum
from polyceptron.sides.fields.integrand import FEW, Averages, Averaging, FieldsRule, FieldsStudent
from polyceptron.sides.fields.points import Points
from polyceptron.sides.fields.sums import Sums
from polyceptron.sides.generalisation import margin_exceeds

_SUMS = Sums()
_POINTS = Points()
PROBABILITY_ROUNDING = 1e-11  # of a probability that is 1 minus a double integral
SMALLEST_NORM = 1e-18  # q that stands for 0, where every loss has a finite limit


@dataclass(frozen=True)
class FieldsSide:
    """m̂, q̂, V̂ = α(M, Q, C): what n = αd samples of a channel tell a student.

    Attributes
    ----------
    channel : Channel
        Draws the labels.
    student : Loss or PosteriorScore
    n_classes : int
    alpha : float
        n/d.
    by_points : bool
        Sample the fields, even where a rule without random points serves.
    """

    channel: Channel
    student: FieldsStudent
    n_classes: int
    alpha: float
    by_points: bool = False

    @property
    def rule(self) -> FieldsRule:
        """The rule that places nodes: by the number of classes, above three by the student."""
        if self.n_classes in FEW:
            return FEW[self.n_classes]
        if not self.by_points and _SUMS.serves(self.student, self.channel):
            return _SUMS
        return _POINTS

    def averages(self, level: int, reference: ScalarOrder) -> Averaging:
        """Return the averages at a level of accuracy, as a function of the order parameters.

        Nodes are placed for `reference` and stay there.
        """
        if self.explicit(reference) is not None:
            return cast(Averaging, self.explicit)
        return self.rule.place(self.student, self.channel, self.n_classes, reference, level)

    def explicit(self, law: ScalarOrder) -> Averages | None:
        """Return the averages in closed form, None where the student has none."""
        if self.channel.selects:  # closed forms are for Gaussian fields
            return None
        signal = self.channel.signal(self.n_classes)
        found = self.student.explicit_averages(law, signal, self.n_classes)
        if found is None:
            return None
        M, Q, C, D = (np.array([value]) for value in found)
        unknown = np.full(1, math.nan)
        return Averages(
            M,
            Q,
            C,
            D_plus=np.maximum(D, 0.0),
            D_minus=np.maximum(-D, 0.0),
            loss=unknown,
            error=unknown,
            mass=np.ones(1),
        )

    def hats(self, averages: Averages) -> Conjugates:
        """Return m̂ = αM, q̂ = αQ, V̂ = αC of the mean over replicates."""
        return Conjugates(
            m=self.alpha * float(averages.M.mean()),
            q=self.alpha * float(averages.Q.mean()),
            V=self.alpha * float(averages.C.mean()),
        )

    def __call__(self, law: ScalarOrder) -> Conjugates:
        """Return the conjugates after one step of the plain loop, with nodes placed at its law."""
        law = replace(law, q=max(law.q, SMALLEST_NORM))
        return self.hats(self.averages(self.rule.loop_level, law)(law))


WeightsSide = Callable[[Conjugates], ScalarOrder]  # a step of the loop on the side of the weights


@dataclass(frozen=True)
class PenaltySide:
    """A penalty, the spectrum of the features, and the teacher's row of weights."""

    penalty: Penalty
    spectrum: Spectrum
    row: WeightsRow

    def __call__(self, hats: Conjugates) -> ScalarOrder:
        """Return the order parameters that the conjugates lead to."""
        return self.penalty.law(hats, self.spectrum, self.row)


@dataclass(frozen=True)
class Problem:
    """Empirical risk minimisation: its two sides."""

    fields: FieldsSide
    weights: PenaltySide

    @property
    def channel(self) -> Channel:
        """The channel, which draws the labels."""
        return self.fields.channel

    @property
    def loss(self) -> Loss:
        """The loss of the student."""
        return cast(Loss, self.fields.student)

    @property
    def n_classes(self) -> int:
        """The number of classes k."""
        return self.fields.n_classes

    @property
    def alpha(self) -> float:
        """The number of samples per dimension, n/d."""
        return self.fields.alpha

    @property
    def ridge(self) -> float:
        """The strength λ of the penalty."""
        return self.weights.penalty.strength

    @property
    def closed_form(self) -> bool:
        """True if the whole fixed point is explicit, up to one scalar equation for a spectrum."""
        explicit = self.fields.explicit(ScalarOrder(1.0, 1.0, 1.0)) is not None
        return explicit and self.weights.penalty.quadratic

    @property
    def nodes_are_random(self) -> bool:
        """True if the fields are sampled, so that replicates show the error of averages."""
        return self.fields.rule.sampled

    @property
    def nodes_follow_order(self) -> bool:
        """True if nodes move smoothly with the order parameters, wherever they were placed."""
        return self.fields.rule.follows

    @property
    def weights_diverge_somewhere(self) -> bool:
        """True if weights diverge at α_s, beyond which noisy labels cannot be separated."""
        unpenalised = self.ridge == 0 or self.loss.scale_free
        return unpenalised and not self.channel.noiseless

    def training_error(self, law: ScalarOrder) -> float | None:
        """Return P(a training sample is mistaken), if the fresh margin alone decides it."""
        if math.isinf(law.V):
            return 0.0
        gap = self.loss.coordinates.mistake_gap(law.V)
        if gap is None:
            return None
        if math.isinf(gap):
            return 0.0
        correct = margin_exceeds(self.channel, self.n_classes, law.tau, gap / math.sqrt(law.q))
        if correct is None:
            return None
        mistaken = 1 - correct
        if mistaken <= PROBABILITY_ROUNDING:
            return 0.0
        return mistaken

    def at_ridge(self, ridge: float) -> Problem:
        """Return the same problem with a ridge λ in place of its penalty."""
        return self.with_penalty(Ridge(ridge))

    def with_penalty(self, penalty: Penalty) -> Problem:
        """Return the same problem with another penalty."""
        return replace(self, weights=replace(self.weights, penalty=penalty))

    def at_alpha(self, alpha: float) -> Problem:
        """Return the same problem with n = αd samples."""
        return replace(self, fields=replace(self.fields, alpha=alpha))

    def with_classes(self, n_classes: int, alpha: float) -> Problem:
        """Return the same problem with another number of classes and of samples."""
        return replace(self, fields=replace(self.fields, n_classes=n_classes, alpha=alpha))

    def by_points(self) -> Problem:
        """Return the same problem, whose fields are sampled where there are more than three."""
        return replace(self, fields=replace(self.fields, by_points=True))


def erm_sides(teacher: AnyTeacher, loss: Loss, ridge: float, alpha: float) -> Problem:
    """Return both sides of a loss with a ridge, for a teacher and n = αd samples.

    With a ridge the prior of the teacher's weights enters by its variance only, which is 1.
    """
    fields = FieldsSide(teacher.channel, loss, teacher.n_classes, alpha)
    return Problem(fields, PenaltySide(Ridge(ridge), teacher.features, teacher.row))
