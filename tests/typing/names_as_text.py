"""What the documentation writes, as a strict type checker reads it: `make check` does."""

import polyceptron as pc
from polyceptron import ERM, Perceptron, Teacher, erm_fixed_point, learning_curve
from polyceptron.questions.plan import plan

teacher = Teacher(3, prior="rademacher", noise="flips:0.1", features="power:1.2:100")
other = Perceptron("gaussian", noise="softmax:2")
best, sparse = ERM("cross-entropy", "optimal"), ERM(penalty="elastic-net:0.1:0.5")
curve = learning_curve(teacher, "bayes", [1, 2])
again = learning_curve(other, [best, "square"], [0.5])
point = erm_fixed_point(teacher, "cross-entropy", 2.0)
needed: float = plan(teacher, 0.3, "square").alpha + point.generalisation_error
name: str = teacher.prior.name + teacher.noise.name + sparse.loss.name
rare = pc.Mixture(shares=(0.9, 0.1), separation=2.0)
student = ERM("cross-entropy", 0.1, intercept=True)
unequal = learning_curve(rare, student, [1.0])
for asked in (pc.calibration, pc.erm_state_evolution, pc.resampling, pc.margin_law):
    asked(rare, student, 3.0)
pc.asymptotics(rare, student)
pc.best_shift(rare, student, 3.0)
samples: float = plan(rare, 0.09, student).alpha + len(plan(rare, 0.09))
