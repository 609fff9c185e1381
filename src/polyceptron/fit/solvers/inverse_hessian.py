"""About the inverse Hessian of cross-entropy with a ridge and many classes, for L-BFGS.

With the softmax p held fixed at a point, the Hessian of Σ_μ s_μ ℓ_μ + (λ/2)‖W‖² has one block for
each class h, up to terms of order 1/k:

    M_h = a_h XᵀX/d + λ,     a_h = Σ_μ s_μ p_hμ(1 − p_hμ)/n,

for n samples x (rows of X) with weights s. With the eigenvectors E and eigenvalues of XᵀX/d it is
inverted in closed form:

    M_h⁻¹r = E (Eᵀr / (a_h·eigenvalues + λ)).

L-BFGS corrects this inverse by what the last steps showed: a step u that changed the gradient by c
says that the inverse Hessian takes c to u (the secant condition).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from polyceptron.fit.solvers.newton_step import dots
from polyceptron.numerics import AnyArray

STEPS_REMEMBERED = 10  # by L-BFGS; more cost memory, and gained nothing in bench_classes.py


class Secant(NamedTuple):
    """A step and the change of the gradient along it, (1, k, d) both, with their product."""

    step: AnyArray
    change: AnyArray
    product: float


@dataclass(frozen=True)
class InverseHessian:
    """About the inverse Hessian: E diag(inverse_eigenvalues) Eᵀ, corrected by the last steps.

    Attributes
    ----------
    vectors : array (d, d)
        E, the eigenvectors of XᵀX/d.
    inverse_eigenvalues : array (k, d)
        1/(a_h·eigenvalues + λ), of each class h.
    secants : list of Secant
        The last steps, oldest first; `learn` adds to it, and drops the oldest.
    """

    vectors: AnyArray
    inverse_eigenvalues: AnyArray
    secants: list[Secant]

    def learn(self, step: AnyArray, change: AnyArray) -> None:
        """Remember that the inverse Hessian takes this change of the gradient to the step."""
        u = step.astype(np.float32)
        c = change.astype(np.float32)
        product = float(dots(u, c)[0])
        if product > 0:  # a convex objective, and no rounding
            self.secants.append(Secant(u, c, product))
            del self.secants[:-STEPS_REMEMBERED]

    def __call__(self, r: AnyArray, problems: AnyArray | None = None) -> AnyArray:
        """Apply the inverse to r (1, k, d), by the two loops of L-BFGS.

        `problems` is there for `solve_newton`, whose preconditioners are told which problems the
        rows of r belong to; here there is one.
        """
        q = r.copy()
        parts: list[float] = []
        for step, change, product in reversed(self.secants):
            part = float(dots(step, q)[0]) / product
            parts.append(part)
            q -= np.float32(part) * change
        q = np.asarray(((q @ self.vectors) * self.inverse_eigenvalues) @ self.vectors.T)
        for step, change, product in self.secants:
            q += np.float32(parts.pop() - float(dots(change, q)[0]) / product) * step
        return q
