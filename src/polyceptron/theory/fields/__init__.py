"""The fields side: what one sample contributes, averaged over teacher and student fields.

`averages` names what is averaged, `integrand` writes it once for every k, loss and channel; `line`,
`plane` and `points` only place nodes, at the scales of `scales`.
"""
