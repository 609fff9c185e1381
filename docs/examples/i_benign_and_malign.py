"""Harmless, harmful and optimal ridge.

Two levels of variance, ten and one, and three samples for ten features. If the signal is in the
few directions of large variance, a large ridge is best. If it is in the many directions of small
variance, every ridge suppresses it, and no ridge is best.
"""

import matplotlib.pyplot as plt
import numpy as np

import polyceptron as pc

ridges = np.geomspace(1e-4, 1e3, 36)
ax = plt.figure(figsize=(4.2, 3.2)).subplots()
for name, signal in (("loud", (1, 0)), ("both", (1, 1)), ("quiet", (0, 1))):
    teacher = pc.Teacher(2, features=f"levels:10x0.1@{signal[0]},1x0.9@{signal[1]}")
    best = pc.optimal_ridge(teacher, "square", 0.3)
    students = [pc.ERM("square", ridge) for ridge in (*ridges, best)]
    fits = [pc.erm_fixed_point(teacher, student, 0.3) for student in students]
    *errors, least = (fit.generalisation_error for fit in fits)
    (line,) = ax.plot(ridges, errors, label=f"signal in {name} directions")
    ax.plot(max(best, ridges[0]), least, "*", color=line.get_color(), clip_on=False)
    print(f"{name}: best ridge {best:.3g}, error {least:.3f}")
ax.set(xscale="log", xlabel="ridge $λ$", ylabel="error", ylim=(0.15, 0.65))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=8, loc="upper left", title="stars: the best ridge")
ax.figure.tight_layout()
ax.figure.savefig("i_benign_and_malign.svg")
