"""The fields side: what one sample contributes, averaged over teacher and student fields.

`averages` names what is averaged, `integrand` writes it once for every k, loss and channel; `line`,
`plane` and `points` only place nodes, at the scales of `scales`. Losses whose pull is a sum over
the losers (cross-entropy, max-margin) have a rule without sampling from four classes on: `sums`,
with `levels`, `sum_nodes` and `sum_modes`.
"""
