"""Empirical risk minimisation in the limit of large d (eq. SE, theorem 1, corollary 1).

Reading order: `equations` (the loop's fixed point as a root), `coarse_root` and `refinement` (how
it is found), `fixed_point` (the answer), `least_squares` (closed form), `best_ridge`; `training`,
`margin_probability` and `margin_law` (what samples see); `risk_rows`; `iteration` (what message
passing follows).
"""

from polyceptron.theory.erm.fixed_point import erm_fixed_point, optimal_ridge
from polyceptron.theory.erm.margin_law import MarginLaw, margin_law
from polyceptron.theory.erm.plain_loop import ErmStep, erm_state_evolution
from polyceptron.theory.erm.risk_rows import erm_parts, erm_rows, ridge_rows
from polyceptron.theory.erm.solution import ErmFixedPoint
from polyceptron.theory.erm.square_closed_form import best_square_ridge

__all__ = [
    "ErmFixedPoint",
    "ErmStep",
    "MarginLaw",
    "best_square_ridge",
    "erm_fixed_point",
    "erm_parts",
    "erm_rows",
    "erm_state_evolution",
    "margin_law",
    "optimal_ridge",
    "ridge_rows",
]
