"""Message passing follows state evolution.

A single instance with d = 1000 (symbols), and the iteration of one scalar that describes it for
large d (line).
"""

from matplotlib.figure import Figure

import polyceptron as pc
from polyceptron.pictures.parts import style

teacher, alpha, d = pc.Teacher(3), 1.5, 1000
data = teacher.sample(int(alpha * d), d, seed=1)
result = pc.amp(data.X, data.y, teacher_weights=data.weights)
predicted = pc.state_evolution(teacher, alpha, n_steps=12)

with style():
    figure = Figure()
    ax = figure.subplots()
    ax.plot(predicted.q, label="state evolution")
    ax.plot(
        [step["q"] for step in result.trace[:13]],
        "o",
        label=f"message passing, d = {d}",
    )
    ax.set(xlabel="iteration", ylabel="overlap q")
    ax.legend()
    figure.savefig("c_message_passing.svg")
print(f"{result.status} after {result.n_iter} iterations")
