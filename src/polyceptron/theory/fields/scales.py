"""The lengths that nodes follow: the spread of the gaps, and the label's transition in them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from polyceptron.model.channels import Channel
from polyceptron.model.law import Law
from polyceptron.numerics.panels import CUTOFF, GAUSS_BREAKS, Array, blend_breaks

# For a gap a < 0 the third class matters around g₂ − g₁ = −a, so the corner of three classes
# reaches further than one width.
CORNER_BREAKS = np.array([0.0, 1.6, 3.4, 5.8, 8.8, 14.0])
_UNSEEN = 1e-17  # a label as improbable as this leaves no trace in any average


class Scales(NamedTuple):
    """Standard deviation of the student's gap, width of the label's transition, lowest gap."""

    sigma: float
    width: float
    low: float

    @property
    def high(self) -> float:
        """The largest gap that the student's fields reach."""
        return CUTOFF * self.sigma

    def gap_breaks(self) -> Array:
        """Break points of the student's gap: both scales, on both sides of the boundary."""
        sets = [x * np.append(-GAUSS_BREAKS[:0:-1], GAUSS_BREAKS) for x in (self.width, self.sigma)]
        return blend_breaks(sets, self.low, self.high)

    def loser_breaks(self, *more: Array) -> Array:
        """Break points of the gap between two losers, and of what else varies along it."""
        sets = [self.width * CORNER_BREAKS, self.sigma * GAUSS_BREAKS, *more]
        return blend_breaks(sets, 0.0, self.high)


def field_scales(channel: Channel, law: Law, n_classes: int) -> Scales:
    """The scales at a law. A label may be drawn far below the boundary: then nodes reach there."""
    sigma = math.sqrt(2 * law.q)
    width = math.sqrt(2) * channel.width(law.residual) / law.slope if law.slope > 0 else sigma
    width = min(width, sigma)
    edge = np.array([[-CUTOFF * width * law.slope]])
    seen = float(channel.label_law(edge, law.residual, n_classes).z[0]) > _UNSEEN
    return Scales(sigma, width, -CUTOFF * (sigma if seen else width))
