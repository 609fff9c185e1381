"""Empirical risk minimisation in the limit of large d (eq. SE, theorem 1, corollary 1).

Reading order: `averages` (what a loss contributes), computed in `two`, `three` and `many` (classes);
`equations` and `solver`; `fixed_point`; `square` (closed form); `ridge` (the best λ); `agreement`
and `margins`; `iteration` (what message passing follows); `public`.
"""

from polyceptron.theory.erm.fixed_point import ErmFixedPoint
from polyceptron.theory.erm.public import erm_fixed_point, erm_rows
from polyceptron.theory.erm.square import best_square_ridge

__all__ = ["ErmFixedPoint", "best_square_ridge", "erm_fixed_point", "erm_rows"]
