"""One line of the table: a number of ours, what it should be, and whether it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyceptron.experiments.results import Average
from polyceptron.model import Teacher, make_estimator
from polyceptron.theory.erm.equations import ErmFixedPoint
from polyceptron.theory.erm.fixed_point import erm_fixed_point

COLUMNS = ("check", "ours", "reference", "source", "difference", "allowed", "verdict")


@dataclass(frozen=True)
class Check:
    """|ours − reference| ≤ allowed, or the verdict is 'off' (also when no number came out)."""

    check: str
    ours: float
    reference: float
    source: str
    allowed: float
    note: str = ""

    @property
    def difference(self) -> float:
        """ours − reference."""
        return self.ours - self.reference

    @property
    def verdict(self) -> str:
        """'ok' or 'off'."""
        return "ok" if abs(self.difference) <= self.allowed else "off"

    def as_row(self) -> dict[str, Any]:
        """The columns of the table, as plain Python values, and the note if there is one."""
        row = {name: getattr(self, name) for name in COLUMNS}
        plain = {n: float(v) if isinstance(v, float | np.number) else v for n, v in row.items()}
        return {**plain, "note": self.note} if self.note else plain


def erm_point(
    loss: str, k: int, ridge: float, alpha: float, tol: float | None = None
) -> ErmFixedPoint:
    """The theory of a loss with Gaussian weights and noiseless labels."""
    return erm_fixed_point(Teacher(k), make_estimator(loss, ridge), alpha, tol=tol)


def sampled_check(
    check: str, ours: float, samples: Any, source: str, *, slack: float = 0.0
) -> Check:
    """`ours` against the mean of independent samples: four standard errors, plus `slack`."""
    found = Average.of(float(value) for value in samples)
    mean, error = found.mean, found.standard_error
    if mean is None or error is None:
        return failed_check(check, "fewer than two samples")
    return Check(check, ours, mean, source, 4 * error + slack)


def failed_check(check: str, reason: object) -> Check:
    """A check that ended in an error: no number, verdict 'off', the reason in the note."""
    return Check(check, math.nan, math.nan, "", 0.0, f"failed: {reason}")
