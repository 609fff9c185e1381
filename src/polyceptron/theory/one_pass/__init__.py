"""One-pass SGD: `pull` averages one step, `path` follows the weights, `rows` makes a curve.

Each step takes a fresh sample, so that the law of the fields at α follows from an ordinary
differential equation in α instead of a fixed point.
"""
