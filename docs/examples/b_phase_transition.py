"""A first-order transition.

Three classes, weights ±1. Between α_IT and α_algo perfect learning is possible, but message
passing stays at a positive error (dashed). The dotted line is the barrier between the two.
"""

import polyceptron as pc

teacher = pc.Teacher(3, prior="rademacher")
found = pc.transitions(teacher)
ax = pc.learning_curve(teacher, pc.BayesOptimal(), "0.1:3.5", branch="all").plot()
ax.figure.savefig("b_phase_transition.svg")
print(f"alpha_IT = {found.alpha_it:.6f}, alpha_algo = {found.alpha_algo:.6f}")
