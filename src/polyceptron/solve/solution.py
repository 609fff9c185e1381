"""What a solver returns: numbers, how far to trust them, and what to do if this is not enough.

`Solution` is the base of every fixed point: the scalars of equal classes (`ErmFixedPoint`) and the
matrices of unequal ones (`PopulationPoint`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from polyceptron.display import ShortDisplay
from polyceptron.rows import Status


@dataclass
class Stats:
    """What a solution cost.

    Attributes
    ----------
    n_evaluations : int
        How often the equations were computed, on any level of accuracy.
    """

    n_evaluations: int = 0


@dataclass(frozen=True, kw_only=True, repr=False)
class Solution(ShortDisplay):
    """A generalisation error with its bar and status; subclasses add the order parameters.

    Attributes
    ----------
    generalisation_error : float
        On labels as drawn: the number that a tolerance is asked of.
    uncertainty : float
        |generalisation_error − truth| is at most this in at least 99 of 100 cases.
    status : Status
    stats : Stats
    """

    generalisation_error: float = math.nan
    uncertainty: float = math.inf
    status: Status = Status.NOT_CONVERGED
    stats: Stats = field(default_factory=Stats, compare=False)

    @property
    def value(self) -> float:
        """The number that the tolerance is about: the generalisation error."""
        return self.generalisation_error

    @property
    def remedy(self) -> str:
        """One sentence on what to do about the status; empty where all is well."""
        return self.status.remedy


def status_within(uncertainty: float, tol: float) -> Status:
    """Return whether an error bar meets the tolerance, as a status."""
    if uncertainty <= tol:
        return Status.OK
    return Status.TOLERANCE_NOT_MET
