"""Empirical risk minimisation in the limit of large d (eq. SE, theorem 1, corollary 1).

Reading order: `equations` (the loop's fixed point as a root), `coarse_root` and `refinement` (how
it is found), `fixed_point` (the answer), `least_squares` (closed form), `best_ridge`; `training`,
`margin_probability` and `margin_law` (what samples see); `risk_rows`; `iteration` (what message
passing follows).
"""
