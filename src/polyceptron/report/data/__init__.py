"""A table of samples, and one page about it."""
