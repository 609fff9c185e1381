"""Power-law spectra.

The faster the eigenvalues fall, the fewer directions matter, and the fewer samples are needed.
Lines: the Bayes-optimal student and the square loss at its best ridge.
"""

import matplotlib.pyplot as plt

import polyceptron as pc

students = [pc.BayesOptimal(), pc.ERM("square", "optimal")]
ax = plt.figure(figsize=(4.2, 3.2)).subplots()
for exponent, colour in ((0, "#000000"), (1, "#0072b2"), (1.5, "#d55e00")):
    teacher = pc.Teacher(3, noise="gaussian:0.1", features=f"power:{exponent}:1000")
    for student, dash in zip(students, ("-", "--"), strict=True):
        rows = pc.learning_curve(teacher, student, "0.02:20:log").frame
        label = f"$s_i ∝ i^{{-{exponent}}}$" if dash == "-" else None
        ax.plot(rows.alpha, rows.generalisation_error, dash, color=colour, label=label)
ax.set(xscale="log", xlabel="samples per dimension $α$", ylabel="generalisation error")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=8, title="solid: Bayes-optimal\ndashed: square loss")
ax.figure.tight_layout()
ax.figure.savefig("h_power_law_spectra.svg")
