"""Empirical risk minimisation in the limit of large d (eq. SE, theorem 1, corollary 1).

Reading order: `equations` (the loop's fixed point as a root), `coarse_root` and `refinement` (how
it is found), `fixed_point` (the answer and its rows), `square_closed_form`, `best_ridge`,
`margin_law` (what samples see).
"""
