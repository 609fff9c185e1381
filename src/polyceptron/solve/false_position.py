"""Roots of many functions of one variable at once, each inside a bracket of its own.

The secant through both ends of a bracket gives the next iterate. Where one end stays twice, its
height is lowered (Anderson and Björck), so that both ends close in on the root.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from polyceptron.numerics import AnyArray

MOST_STEPS = 40  # of a superlinear method: far fewer reach rounding
TOLERANCE = 1e-13  # of the variable, a logarithm: iterates that are closer are one


@dataclass
class FalsePosition:
    """Roots of n functions at once by false position, after Anderson and Björck.

    All arrays are of shape (n,): a and b are the ends of the brackets, of different sign, and their
    heights the functions there. Where both heights have the same sign the answer is the end of
    smaller height.
    """

    a: AnyArray
    height_a: AnyArray  # or less, see `_replace`
    b: AnyArray  # the latest iterate
    height_b: AnyArray

    def solve(self, height: Callable[[AnyArray, AnyArray], AnyArray]) -> AnyArray:
        """Return the roots; after `MOST_STEPS` the latest iterates.

        `height` takes places (m,) and the indices (m,) of the functions to evaluate there.
        """
        root = np.where(np.abs(self.height_a) < np.abs(self.height_b), self.a, self.b)
        going = np.flatnonzero(self.height_a * self.height_b < 0)
        for _ in range(MOST_STEPS):
            if not going.size:
                break
            new = self._secant(going)
            moved = np.abs(new - self.b[going])
            new_height = height(new, going)
            root[going] = new
            self._replace(going, new, new_height)
            going = going[(new_height != 0) & (moved > TOLERANCE)]
        return root

    def _secant(self, going: AnyArray) -> AnyArray:
        """Return the zero of the line through both ends of the bracket."""
        a = self.a[going]
        b = self.b[going]
        height_a = self.height_a[going]
        height_b = self.height_b[going]
        return np.asarray(b - height_b * (b - a) / (height_b - height_a))

    def _replace(self, going: AnyArray, new: AnyArray, new_height: AnyArray) -> None:
        """Take the new iterate as b; the old b becomes a, unless it is on the same side.

        Else a stays, and its height is lowered to 1 − f(new)/f(b) of itself, or half, so that the
        next line reaches beyond the root.
        """
        a = self.a[going]
        b = self.b[going]
        height_a = self.height_a[going]
        height_b = self.height_b[going]
        same_side = (new_height > 0) == (height_b > 0)
        share = 1 - new_height / height_b
        lowered = height_a * np.where(share > 0, share, 0.5)
        self.a[going] = np.where(same_side, a, b)
        self.height_a[going] = np.where(same_side, lowered, height_b)
        self.b[going] = new
        self.height_b[going] = new_height
