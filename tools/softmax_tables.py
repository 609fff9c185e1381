"""Makes numerics/softmax_tables.json: direct integrals at Chebyshev points (seconds).

    python tools/softmax_tables.py > src/polyceptron/numerics/softmax_tables.json

At given (t, φ), in units in which w = 1: q = cot²φ, β = 1/t and v = 1 − t². The error's student has
the angle θ with tan θ = √v/√q, in units in which q + v = 1.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from polyceptron.model.channels.softmax import SoftmaxNoise
from polyceptron.numerics import AnyArray
from polyceptron.numerics.softmax_winning import CLASSES, disagreement
from polyceptron.theory.fields.information import raced_moments

N_POINTS = 28  # of either variable
_DIGITS = 13


def direct(n_classes: int, t: float, phi: float) -> AnyArray:
    """The three scaled functions (3,) at one point, by integration."""
    root_q, root_v = 1 / math.tan(phi), math.sqrt(1 - t * t)
    information, excess = raced_moments(SoftmaxNoise(1 / t), root_q**2, 1 - t * t, n_classes)
    error = disagreement(math.hypot(root_q, root_v) / t, n_classes, math.atan2(root_v, root_q))
    return np.array([information / math.sin(phi), excess / math.sin(phi), error / phi])


def make(n: int = N_POINTS) -> dict[str, Any]:
    """Coefficients (3, n, n) of each k, along t and along φ."""
    x = np.cos((np.arange(n) + 0.5) * (math.pi / n))
    to_series = np.linalg.inv(chebyshev.chebvander(x, n - 1))
    tables = {}
    for k in CLASSES:
        values = np.array(
            [[direct(k, 0.5 + 0.5 * a, 0.25 * math.pi * (1 - b)) for b in x] for a in x]
        )
        series = to_series @ np.moveaxis(values, -1, 0) @ to_series.T
        tables[str(k)] = (np.round(series, _DIGITS) + 0.0).tolist()
    return tables


if __name__ == "__main__":
    sys.stdout.write(json.dumps(make(), separators=(",", ":")).replace("0.0,", "0,") + "\n")
