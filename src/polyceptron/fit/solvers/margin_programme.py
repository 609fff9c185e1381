"""Linear programmes over weights W whose constraints are margins, JW ≥ 0 or JW ≥ t.

The rows of J are x̂(e_y − e_h)ᵀ for every sample and every wrong class h ≠ y, with x̂ = x/√d: JW are
the margins z_y − z_h of the fields z = Wᵀx̂.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from polyceptron.data.checks import Labels, Samples
from polyceptron.numerics import Array


def signed(multipliers: Array, y: Labels) -> Array:
    """Return Σ_h a_h (e_y − e_h) of every sample (n, k) for multipliers a (n, k), 0 at labels."""
    signed = -multipliers
    signed[np.arange(y.size), y] = multipliers.sum(1)
    return signed


class MarginProgramme:
    """The constraints J, and linear programmes over W.

    The unknowns are the weights by class, W[:, h] for h < k − 1. Those of the last class are 0,
    since a common shift changes no margin. Inputs are scaled to length 1, since this changes no
    sign of a margin.

    Attributes
    ----------
    inputs : array, shape (n, d)
        x̂ divided by its norm.
    row_norms : array, shape (n,)
        The norms of x̂, 1 for an input of 0.
    y : array of int, shape (n,)
    sample_of_row, class_of_row : array of int, shape (n·(k − 1),)
        The sample and the wrong class of every row of J.
    J : array, shape (n·(k − 1), (k − 1)·d)
    """

    def __init__(self, samples: Samples) -> None:
        self.y = samples.y
        self.n_classes = samples.n_classes
        inputs = samples.design.scaled_rows(slice(None))
        largest = np.maximum(np.abs(inputs).max(1), np.finfo(float).tiny)
        relative_norms = np.linalg.norm(inputs / largest[:, None], axis=1)
        self.row_norms = largest * np.where(relative_norms > 0, relative_norms, 1.0)
        self.inputs = inputs / self.row_norms[:, None]
        is_wrong = np.arange(self.n_classes) != self.y[:, None]
        self.sample_of_row, self.class_of_row = np.nonzero(is_wrong)
        self.J = self._constraints()

    def _constraints(self) -> Array:
        """Return J, without the columns of the last class."""
        n_rows = self.sample_of_row.size
        rows = np.zeros((n_rows, self.n_classes, self.inputs.shape[1]))
        number = np.arange(n_rows)
        inputs = self.inputs[self.sample_of_row]
        rows[number, self.y[self.sample_of_row]] = inputs
        rows[number, self.class_of_row] = -inputs
        return rows[:, :-1].reshape(n_rows, -1)

    def solve(self, cost: Array, matrix: Array) -> tuple[Array, Array, Array] | None:
        """Minimise cost·(W, t) subject to matrix·(W, t) ≥ 0 and weights in [−1, 1].

        Returns
        -------
        weights : array, shape (d, k)
        margins : array, shape (n·(k − 1),)
            JW.
        duals : array, shape (n·(k − 1),)
            None of the three where the programme was not solved.
        """
        n_weights = self.J.shape[1]
        bounds = [(-1.0, 1.0)] * n_weights + [(None, None)] * (cost.size - n_weights)
        answer = linprog(cost, A_ub=-matrix, b_ub=np.zeros(len(matrix)), bounds=bounds)
        if answer.status != 0 or answer.x is None:
            return None
        weights = np.zeros((self.inputs.shape[1], self.n_classes))
        weights[:, :-1] = answer.x[:n_weights].reshape(self.n_classes - 1, -1).T
        weights -= weights.mean(1, keepdims=True)
        margins = self.J @ answer.x[:n_weights]
        return weights, margins, np.maximum(-answer.ineqlin.marginals, 0.0)

    def proof(self, a: Array) -> tuple[Array, float]:
        """Return multipliers of the data (n, k), and ‖Jᵀa‖ for a divided by its sum.

        The norm is that for inputs of length 1. Multipliers for the data as given are those divided
        by the norms of the inputs, and again of sum 1.
        """
        multipliers = np.zeros((self.y.size, self.n_classes))
        multipliers[self.sample_of_row, self.class_of_row] = a / a.sum()
        residual = float(np.linalg.norm(self.inputs.T @ signed(multipliers, self.y)))
        # Divide by the norms of the inputs; in units of the smallest nothing can overflow.
        multipliers *= (self.row_norms.min() / self.row_norms)[:, None]
        return multipliers / multipliers.sum(), residual
