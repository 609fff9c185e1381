"""Fits on the theoretical curve.

Logistic regression (cross-entropy, λ = 0.1), fitted to six instances with d = 200 at each α
(symbols with standard errors), and the theory for infinite d (line).
"""

import numpy as np

import polyceptron as pc

teacher, d, ridge = pc.Teacher(3), 200, 0.1
ax = pc.learning_curve(teacher, pc.ERM("cross-entropy", ridge), "0.2:6:12:log").plot()
for alpha in (1, 3, 5):
    errors = []
    for seed in range(6):
        X, y, truth = teacher.sample(alpha * d, d, seed=[alpha, seed])
        weights = pc.fit_erm(X, y, "cross-entropy", ridge).weights
        errors.append(pc.exact_generalisation_error(weights, truth).value)
    spread = np.std(errors, ddof=1) / np.sqrt(len(errors))
    ax.errorbar(alpha, np.mean(errors), spread, fmt="o", color="black")
ax.figure.savefig("f_theory_meets_fits.svg")
