"""The two sides of empirical risk minimisation, built from a teacher and an estimator.

    fields side    channel × loss            law (τ, q, V)  →  m̂, q̂, V̂ = α(M, Q, C)
    weights side   penalty × spectrum        m̂, q̂, V̂        →  law

The fields side averages on a rule of some level of accuracy (`theory/fields`); a loss whose
averages are known in closed form needs none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np

from polyceptron.model.channels import Channel
from polyceptron.model.features import Spectrum
from polyceptron.model.law import Hats, Law
from polyceptron.model.losses import Loss
from polyceptron.model.penalties import Penalty, Ridge
from polyceptron.model.priors import Row
from polyceptron.model.teacher import AnyTeacher
from polyceptron.theory.fields import line, plane, points, sums
from polyceptron.theory.fields.integrand import Averages, Rule

_FEW: dict[int, ModuleType] = {2: line, 3: plane}


@dataclass(frozen=True)
class Problem:
    """Both sides and the sample ratio α."""

    n_classes: int
    channel: Channel
    loss: Loss
    penalty: Penalty
    spectrum: Spectrum
    alpha: float
    row: Row  # of the teacher's weights
    by_points: bool = False  # sample even where a rule without chance serves

    @property
    def ridge(self) -> float:
        """λ."""
        return self.penalty.strength

    def at(self, *, ridge: float | None = None, alpha: float | None = None) -> Problem:
        """The same problem at another λ or α."""
        penalty = self.penalty if ridge is None else Ridge(ridge)
        return replace(self, penalty=penalty, alpha=self.alpha if alpha is None else alpha)

    @property
    def n_levels(self) -> int:
        """How many levels of accuracy the fields side has."""
        return int(self.nodes.N_LEVELS)

    @property
    def nodes(self) -> ModuleType:
        """The rule that places nodes: by the number of classes, above three by loss and channel."""
        if self.n_classes in _FEW:
            return _FEW[self.n_classes]
        return sums if not self.by_points and sums.serves(self.loss, self.channel) else points

    @property
    def sampled(self) -> bool:
        """Whether the fields side is averaged over random points."""
        return self.nodes is points

    def rule(self, level: int, reference: Law) -> Rule:
        """The averages at a level of accuracy; nodes are placed for `reference` and kept."""
        if self.explicit(reference) is not None:
            return lambda law: self.explicit(law)  # type: ignore[arg-type,return-value]
        rule: Rule = self.nodes.place(self.loss, self.channel, self.n_classes, reference, level)
        return rule

    def explicit(self, law: Law) -> Averages | None:
        """The averages in closed form, where the loss has them."""
        signal = self.channel.signal(self.n_classes)
        found = self.loss.explicit_averages(law, signal, self.n_classes)
        if found is None:
            return None
        M, Q, C, D = (np.array([value]) for value in found)
        unknown, one = np.full(1, math.nan), np.ones(1)
        return Averages(M, Q, C, np.maximum(D, 0.0), np.maximum(-D, 0.0), unknown, unknown, one)

    def hats(self, averages: Averages) -> Hats:
        """The fields side's answer, m̂ = αM, q̂ = αQ, V̂ = αC."""
        a = self.alpha
        return Hats(*(a * float(part.mean()) for part in (averages.M, averages.Q, averages.C)))

    def law(self, hats: Hats) -> Law:
        """The weights side's answer."""
        return self.penalty.law(hats, self.spectrum, self.row)


def erm_sides(teacher: AnyTeacher, loss: Loss, ridge: float, alpha: float) -> Problem:
    """Both sides of a teacher and a student.

    With a ridge the prior enters by its variance only, which is 1 for every teacher.
    """
    return Problem(
        teacher.n_classes, teacher.channel, loss, Ridge(ridge), teacher.features, alpha, teacher.row
    )
