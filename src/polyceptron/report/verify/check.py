"""A number of ours beside a reference: within what is allowed, known to differ, or failed."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

STANDARD_ERRORS_ALLOWED = 4.0  # between ours and the mean of independent samples


@dataclass(frozen=True)
class Check:
    """A number of ours beside a reference, and how far apart they may be.

    Attributes
    ----------
    check : str
        What is compared.
    ours, reference : float
    source : str
        Where the reference comes from.
    allowed : float
        The largest difference that is allowed.
    note : str
        The reason where no number came out, or what to read where ours is known to differ.
    may_differ : bool
        The reference is a printed number with few digits, and another check decides.
    """

    check: str
    ours: float
    reference: float
    source: str
    allowed: float
    note: str = ""
    may_differ: bool = False

    @property
    def difference(self) -> float:
        """ours − reference."""
        return self.ours - self.reference

    @property
    def verdict(self) -> str:
        """'ok' within what is allowed; else 'differs' if that is known, and 'failed' if not."""
        if abs(self.difference) <= self.allowed:
            return "ok"
        if self.may_differ and math.isfinite(self.difference):
            return "differs"
        return "failed"


def sampled_check(
    check: str, ours: float, samples: ArrayLike, source: str, *, slack: float = 0.0
) -> Check:
    """Compare `ours` with the mean of independent samples, within four standard errors.

    `slack` is allowed in addition.
    """
    values = np.array(samples, dtype=float)
    standard_error = float(values.std(ddof=1)) / math.sqrt(values.size)
    allowed = STANDARD_ERRORS_ALLOWED * standard_error + slack
    return Check(check, ours, float(values.mean()), source, allowed)


def printed_check(check: str, ours: float, printed: str) -> Check:
    """Compare `ours` with a number of the paper, to half a unit of its last digit."""
    n_digits = len(printed.partition(".")[2])
    half_a_unit = 0.5 * 10.0**-n_digits
    note = f"differs from the paper's {printed}: see the paper map"
    return Check(check, ours, float(printed), "paper", half_a_unit, note, may_differ=True)
