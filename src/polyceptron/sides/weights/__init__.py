"""The weights side of a Bayes-optimal student: what a teacher's prior leaves unknown."""
