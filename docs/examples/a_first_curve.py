"""Four estimators on one problem.

Three classes, Gaussian teacher. Cross-entropy at its best ridge is almost as good as the
Bayes-optimal student. Max-margin is worse, and the square loss at its best ridge is worst.
"""

import polyceptron as pc

estimators = [
    pc.BayesOptimal(),
    pc.ERM("cross-entropy", ridge="optimal"),
    pc.ERM("max-margin"),
    pc.ERM("square", ridge="optimal"),
]
curve = pc.learning_curve(pc.Teacher(3), estimators, "0.25:8:9:log")
curve.save("a_first_curve.svg")
