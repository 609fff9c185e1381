"""The chance that two Gaussian students of three classes agree on a label, by an integral.

For each class l, two differences x = s_l − s_h of the student's fields and two differences y of the
teacher's have to be positive: an orthant probability. Let c_ij be the correlation of x_i and y_j.
Multiply c by τ: at τ = 0 student and teacher are independent and the probability P is a product of
two wedge probabilities (`wedge`), at τ = 1 it is the one that is wanted. In between, by Plackett's
identity with r_ij = τc_ij,

    dP/dτ = Σ_ij c_ij (1/4 + arcsin(ρ_ij)/2π) / (2π √(1 − r_ij²)),

with ρ_ij the correlation of the other two differences given that these two vanish. The integral
over τ is done by the tanh-sinh rule, since it may be singular at τ = 1.
"""

import math
from typing import NamedTuple, Self

import numpy as np

from polyceptron.numerics import Array

STEPS = (1 / 8, 1 / 16)  # of the tanh-sinh rule: the difference of the results shows the error
LAST_NODE = 3.6  # where 1 − τ is 1e-25: beyond it no double differs from 0 or 1
# Floors of what is divided by, where students and teachers are parallel: rounding may leave 0. The
# nodes there have weights of 0 to rounding.
LEAST_SINE_SQUARED = 1e-30  # of 1 − r²
LEAST_VARIANCE = 1e-150  # of a conditional variance: products of two roots do not underflow
ROUNDING_OF_CORRELATIONS = 1e-15  # of a correlation c; its angle is off by this/√(1 − c²)


class LabelDifferences(NamedTuple):
    """Correlations of the differences between one label's fields and those of the other two.

    Attributes
    ----------
    student_correlation, teacher_correlation : float
        Between the two differences of the student, and of the teacher.
    cross : array, shape (2, 2)
        Between difference i of the student and j of the teacher.
    """

    student_correlation: float
    teacher_correlation: float
    cross: Array

    @classmethod
    def of(cls, label: int, student: Array, teacher: Array, cross: Array) -> Self:
        """Return them for covariances (3, 3) of the student's and the teacher's fields."""
        D = np.delete(np.eye(3)[label] - np.eye(3), label, axis=0)  # rows e_l − e_h
        S = D @ student @ D.T
        T = D @ teacher @ D.T
        C = D @ cross @ D.T
        s = np.sqrt(np.diag(S))
        t = np.sqrt(np.diag(T))
        c = np.clip(C / np.outer(s, t), -1.0, 1.0)
        return cls(S[0, 1] / (s[0] * s[1]), T[0, 1] / (t[0] * t[1]), c)

    @property
    def rounding(self) -> float:
        """Return the error of a chance by rounding of the correlations: angles near 0 move most."""
        largest = np.abs(self.cross).max()
        sine = math.sqrt(max(1 - largest**2, ROUNDING_OF_CORRELATIONS))
        return ROUNDING_OF_CORRELATIONS / sine

    def chance_to_win_both(self, step: float) -> float:
        """Return P(the label has the largest field of student and teacher), by an integral over τ.

        `step` is that of the tanh-sinh rule.
        """
        # Nodes τ on [0, 1], and weights step·dτ/dnode; the root in the denominator may vanish at
        # τ = 1.
        node = np.arange(-LAST_NODE, LAST_NODE + step / 2, step)
        tau = 1 / (1 + np.exp(-math.pi * np.sinh(node)))
        weight = step * math.pi * np.cosh(node) * tau * (1 - tau)
        slope = np.zeros_like(tau)
        for i, j in np.ndindex(2, 2):
            r = tau * self.cross[i, j]
            one_minus_r2 = np.maximum(1 - r * r, LEAST_SINE_SQUARED)
            rho = self._rest_correlation(i, j, tau, one_minus_r2)
            chance_of_the_rest = 0.25 + np.arcsin(rho) / (2 * math.pi)
            slope += self.cross[i, j] * chance_of_the_rest / (2 * math.pi * np.sqrt(one_minus_r2))
        return float(
            wedge(self.student_correlation) * wedge(self.teacher_correlation) + weight @ slope
        )

    def _rest_correlation(self, i: int, j: int, tau: Array, one_minus_r2: Array) -> Array:
        """Return ρ_ij (n,): correlation of the other x and y, given that x_i and y_j vanish.

        x are the student's differences and y the teacher's, with cross-correlations τc.
        """
        r = tau * self.cross[i, j]
        x_with_x = self.student_correlation
        y_with_y = self.teacher_correlation
        x_with_y = tau * self.cross[1 - i, j]
        y_with_x = tau * self.cross[i, 1 - j]
        explained_x = x_with_x**2 - 2 * r * x_with_x * x_with_y + x_with_y**2
        explained_y = y_with_x**2 - 2 * r * y_with_x * y_with_y + y_with_y**2
        explained_both = (
            x_with_x * y_with_x
            - r * (x_with_x * y_with_y + x_with_y * y_with_x)
            + x_with_y * y_with_y
        )
        var_x = np.maximum(1 - explained_x / one_minus_r2, LEAST_VARIANCE)
        var_y = np.maximum(1 - explained_y / one_minus_r2, LEAST_VARIANCE)
        covariance = tau * self.cross[1 - i, 1 - j] - explained_both / one_minus_r2
        return np.clip(covariance / (np.sqrt(var_x) * np.sqrt(var_y)), -1.0, 1.0)


def wedge(correlation: float) -> float:
    """Return the probability 1/4 + arcsin(ρ)/2π that two normal numbers are both positive."""
    return 0.25 + math.asin(min(1.0, max(-1.0, correlation))) / (2 * math.pi)
