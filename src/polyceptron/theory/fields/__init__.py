"""The fields side: what one sample contributes, averaged over teacher and student fields.

`averages` names what is averaged, `integrand` writes it once for every k, loss and channel; `line`,
`plane` and `points` only place nodes, at the scales of `scales`. Cross-entropy and max-margin have
rules of their own from four classes on: `expansion` (with `losers` and `softmax_pull`) and `sums`
(with `levels`, `sum_nodes` and `sum_modes`).
"""
