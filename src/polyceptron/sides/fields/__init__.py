"""The fields side: averages over a student's fields.

`integrand` has what is averaged, for every student, channel and k, and the panels of two and three
classes; `sums` (without sampling, for losses whose pull is a sum over the other classes) and
`points` (randomised) only place nodes; `information` is the Bayes student's short cut for k ≥ 4.
"""
