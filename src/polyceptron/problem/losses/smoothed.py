"""Cross-entropy of smoothed labels, which spread a share ε of each label over all classes.

    ℓ(z, y) = −Σ_h t_h ln p_h,   t = (1 − ε)e_y + ε/k,   p = softmax(z)
            = cross-entropy(z, y) + ε(z_y − z̄)

With two classes it is the maximum penalised likelihood of Diaconis and Ylvisaker, whose prior adds
pseudo-observations of either class. The extra term is linear, so that the proximal point is that of
cross-entropy from ω − Vε(e_y − 1/k), and all that is smooth of one is smooth of the other. For
every ε > 0 the loss has a minimum in the fields, ln(1 + (1 − ε)k/ε)·e_y: with more samples than
features there is a minimiser for any labels.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from polyceptron.errors import InvalidInput
from polyceptron.problem.losses.additive import AdditivePull
from polyceptron.problem.losses.base import Loss
from polyceptron.problem.losses.cross_entropy import CrossEntropy
from polyceptron.problem.order import Decay


@dataclass(frozen=True)
class Smoothed(CrossEntropy):
    """ℓ(z, y) = ln Σ_h exp(z_h) − (1 − ε) z_y − ε z̄.

    The softmax of its fields tends to (1 − ε) times the truth plus ε/k.

    >>> Smoothed(0.1).name
    'smoothed:0.1'
    """

    epsilon: float
    name: str = field(init=False, default="smoothed")
    solver = "newton"

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < 1:
            raise InvalidInput(
                f"the share of smoothed labels must be from 0 to below 1, got {self.epsilon!r}"
            )
        object.__setattr__(self, "name", f"smoothed:{self.epsilon!r}".removesuffix(".0"))

    def without_ridge(self) -> Loss | None:
        """Return None: the minimiser at λ → 0⁺ is no limit that is known here."""
        return None

    def decay(self, ridge: float | str, n_classes: int) -> Decay | None:
        """Return p = 1/2: the pull does not vanish where an aligned student's labels are right."""
        if self.epsilon == 0:
            return super().decay(ridge, n_classes)
        return Decay(0.5)

    def additive(self, V: float) -> AdditivePull | None:
        """Return None: the term of smoothing is no function of one competitor alone."""
        return None
