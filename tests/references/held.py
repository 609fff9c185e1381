"""A number of the package with its bar, beside what another route says of it."""

from __future__ import annotations

import math
from typing import NamedTuple


class Held(NamedTuple):
    """A number of the package with its bar, and what another route says of it with its own."""

    name: str
    value: float
    bar: float
    truth: float
    doubt: float

    @property
    def bars(self) -> float:
        """Distance in units of both bars together."""
        return abs(self.value - self.truth) / math.hypot(self.bar, self.doubt)
