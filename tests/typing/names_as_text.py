"""What the documentation writes, as a strict type checker reads it: `make check` does."""

from polyceptron import ERM, Perceptron, Teacher, erm_fixed_point, learning_curve, plan

teacher = Teacher(3, prior="rademacher", noise="flips:0.1", features="power:1.2:100")
other = Perceptron("gaussian", noise="softmax:2")
best, sparse = ERM("cross-entropy", "optimal"), ERM(penalty="elastic-net:0.1:0.5")
curve = learning_curve(teacher, "bayes", [1, 2])
again = learning_curve(other, [best, "square"], [0.5])
point = erm_fixed_point(teacher, "cross-entropy", 2.0)
needed: float = plan(teacher, 0.3, "square").alpha + point.generalisation_error
name: str = teacher.prior.name + teacher.noise.name + sparse.loss.name
