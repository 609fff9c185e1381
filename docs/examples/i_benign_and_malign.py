"""Benign, malign and optimal ridge.

The same two levels of variance, ten and one, and three samples for ten features. With the signal
in the few loud directions a large ridge is best and fitting the labels exactly does harm; with the
signal in the many quiet ones any ridge hides it, and none at all is best.
"""

import matplotlib.pyplot as plt
import numpy as np

import polyceptron as pc

ridge = np.geomspace(1e-4, 1e3, 36)
ax = plt.figure(figsize=(4.2, 3.2)).subplots()
for name, signal in (("loud", (1, 0)), ("both", (1, 1)), ("quiet", (0, 1))):
    teacher = pc.Teacher(2, features=f"levels:10x0.1@{signal[0]},1x0.9@{signal[1]}")
    errors = [
        pc.erm_fixed_point(teacher, pc.ERM("square", r), 0.3).generalisation_error
        for r in ridge
    ]
    (line,) = ax.plot(ridge, errors, label=f"signal in {name} directions")
    best = pc.optimal_ridge(teacher, "square", 0.3)
    least = pc.erm_fixed_point(
        teacher, pc.ERM("square", best), 0.3
    ).generalisation_error
    ax.plot(max(best, ridge[0]), least, "*", color=line.get_color(), clip_on=False)
    print(f"{name}: best ridge {best:.3g}, error {least:.3f}")
ax.set(
    xscale="log", xlabel="ridge $λ$", ylabel="generalisation error", ylim=(0.15, 0.65)
)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=8, loc="upper left", title="stars: the best ridge")
ax.figure.tight_layout()
ax.figure.savefig("i_benign_and_malign.svg")
