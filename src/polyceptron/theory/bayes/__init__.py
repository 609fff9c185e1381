"""The Bayes-optimal student: the whole set of fixed points as one curve α(q̂), and what follows."""
