"""Learning under power-law spectra.

The steeper the eigenvalues fall, the fewer directions matter, and the fewer samples are needed.
Lines: the Bayes-optimal student and the square loss at its best ridge, α = n/d.
"""

import matplotlib.pyplot as plt

import polyceptron as pc

ax = plt.figure(figsize=(4.2, 3.2)).subplots()
for exponent, colour in ((0, "#000000"), (1, "#0072b2"), (1.5, "#d55e00")):
    teacher = pc.Teacher(3, noise="gaussian:0.1", features=f"power:{exponent}:1000")
    for student, dash in (
        (pc.BayesOptimal(), "-"),
        (pc.ERM("square", "optimal"), "--"),
    ):
        rows = pc.learning_curve(teacher, student, "0.02:20:log").frame
        label = f"$s_i ∝ i^{{-{exponent}}}$" if dash == "-" else None
        ax.plot(rows.alpha, rows.generalisation_error, dash, color=colour, label=label)
ax.set(
    xscale="log", xlabel="sample complexity $α = n/d$", ylabel="generalisation error"
)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(
    frameon=False,
    fontsize=8,
    title="lines: Bayes-optimal\ndashed: square loss",
    title_fontsize=8,
)
ax.figure.tight_layout()
ax.figure.savefig("h_power_law_spectra.svg")
