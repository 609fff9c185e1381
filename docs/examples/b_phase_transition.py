"""A first-order transition.

Three classes, weights ±1. Between α_IT and α_algo perfect learning is possible, but message passing
stays on the branch of partial learning (dashed); dotted is the barrier between the two.
"""

import numpy as np

import polyceptron as pc

teacher = pc.Teacher(3, prior="rademacher")
found = pc.transitions(teacher)
steps = [found.alpha_it, found.alpha_algo]
alpha = np.sort([*np.linspace(0.25, 3.5, 60), *np.subtract(steps, 1e-4), *steps])
ax = pc.learning_curve(teacher, pc.BayesOptimal(), alpha, branch="all").plot()
ax.figure.savefig("b_phase_transition.svg")
print(f"alpha_IT = {found.alpha_it:.6f}, alpha_algo = {found.alpha_algo:.6f}")
