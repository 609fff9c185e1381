"""Empirical risk minimisation in the limit of large d (eq. SE, theorem 1, corollary 1).

Reading order: `averages` (what a loss contributes), computed in `two`, `three` and `many`;
`equations` and `solver`; `fixed_point`; `square` (closed form); `ridge` (the best λ); `agreement`
and `margins`; `public`; `iteration` (what message passing follows).
"""

from polyceptron.theory.erm.fixed_point import ErmFixedPoint
from polyceptron.theory.erm.iteration import ErmStep, erm_state_evolution
from polyceptron.theory.erm.margins import MarginLaw, margin_law
from polyceptron.theory.erm.public import erm_fixed_point, erm_rows, optimal_ridge, ridge_rows
from polyceptron.theory.erm.square import best_square_ridge

__all__ = [
    "ErmFixedPoint",
    "ErmStep",
    "MarginLaw",
    "best_square_ridge",
    "erm_fixed_point",
    "erm_rows",
    "erm_state_evolution",
    "margin_law",
    "optimal_ridge",
    "ridge_rows",
]
