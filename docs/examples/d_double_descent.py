"""Double descent of the square loss.

Without a ridge the error rises to that of a random guess at α = 1, where the samples just
determine the weights, and falls again. The best ridge, the same at every α, removes the peak.
"""

import polyceptron as pc

estimators = [pc.ERM("square", ridge) for ridge in (0.0, "optimal")]
ax = pc.learning_curve(pc.Teacher(3), estimators, "0.1:10:log").plot()
ax.set_xscale("log")
ax.figure.savefig("d_double_descent.svg")
