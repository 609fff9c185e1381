"""The fields side: averages over a student's fields.

`integrand` has what is averaged, for every student, channel and k; `few_classes` (panels), `sums`
(without sampling, for losses whose pull is a sum over the other classes) and `points` (randomised)
only place nodes; `information` is the Bayes student's short cut for four classes and more.
"""
