"""Ψ_out and I of the argmax channel for every k from 4 to 1000, from a table of 210 numbers.

With v = sin²θ, q = cos²θ (any v, q: tan²θ = v/q) the entropy Ψ is sin θ times a function G that is
smooth on the whole of 0 ≤ θ ≤ π/2 and even about π/2 (Ψ is analytic in q at q = 0), so G is a short
sum of even Chebyshev polynomials in x = 1 − 2θ/π; and the information is its slope,

    I = (2/r) dΨ/dq = −(1/r) Ψ′(θ)/(sin θ cos θ)        at q + v = 1,   I(q, v) = I(θ)/(q + v).

The coefficients vary smoothly with ln k and are interpolated between a few values of k. They were
made by `tools/argmax_entropy.py`, and a test makes a part again.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.polynomial import chebyshev

from polyceptron.numerics import AnyArray


class EntropyTable:
    """G of one k; build with `entropy_table`."""

    def __init__(self, n_classes: int, even: AnyArray) -> None:
        self.n_classes = n_classes
        self.full = np.zeros(2 * len(even) - 1)
        self.full[::2] = even

    @property
    def error(self) -> float:
        """Relative error of I and Ψ: quadrature, interpolation in k, and triples left out.

        From the closed form I = k E_max²/(k − 1)² at q = 0, against which I is off by 7e-9, 3e-8,
        6e-7 and 2.5e-6 at k = 4, 10, 100 and 1000, with a factor of four for the angles between.
        """
        return 4 * max(3e-8, 6e-9 * self.n_classes**0.95)

    def __call__(self, theta: AnyArray) -> tuple[AnyArray, AnyArray]:
        """I (n,) and Ψ (n,) at q = cos²θ, v = sin²θ."""
        theta = np.asarray(theta, dtype=float)
        x = 1 - 2 * theta / math.pi
        G = chebyshev.chebval(x, self.full)
        # G is even in x: G′(x)/x is a polynomial, and x/cos θ = x/sin(πx/2) is smooth.
        slope = chebyshev.chebder(self.full)
        centre = np.abs(x) <= 1e-3
        direct = chebyshev.chebval(x, slope) / np.where(centre, 1.0, x)
        over_x = np.where(centre, chebyshev.chebval(0.0, chebyshev.chebder(slope)), direct)
        ratio = (2 / math.pi) / np.sinc(0.5 * x)
        sine = np.sin(theta)
        psi_slope = G - (2 / math.pi) * sine * over_x * ratio  # Ψ′/cos θ
        with np.errstate(divide="ignore"):
            return -psi_slope / ((self.n_classes - 1) * sine), sine * G


@lru_cache(maxsize=64)
def entropy_table(n_classes: int) -> EntropyTable:
    """The table of k classes, interpolated in ln k.

    >>> table = entropy_table(10)  # without overlap I = k E_max²/(k − 1)²
    >>> bool(abs(table(np.array([math.pi / 2]))[0][0] / (10 * 1.5387527308**2 / 81) - 1) < 1e-7)
    True
    """
    from scipy.interpolate import BarycentricInterpolator

    data = json.loads(
        files("polyceptron.theory.fields").joinpath("argmax_entropy.json").read_text()
    )
    through = BarycentricInterpolator(np.log(data["classes"]), np.array(data["coefficients"]))
    return EntropyTable(n_classes, through(math.log(n_classes)))
