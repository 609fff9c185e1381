"""Margins of training samples and of fresh samples.

Cross-entropy, three classes. Training makes the margins of its own samples (solid) larger than
those of fresh samples (dashed). The area left of zero is the error.
"""

import numpy as np
from matplotlib.figure import Figure

import polyceptron as pc
from polyceptron.pictures.parts import style

with style():
    figure = Figure()
    ax = figure.subplots()
    for ridge, colour in ((0.01, "#0072B2"), (1.0, "#D55E00")):
        fits = pc.ERM("cross-entropy", ridge)
        law = pc.margin_law(pc.Teacher(3), fits, 3.0, margin=np.linspace(-8, 20, 201))
        ax.plot(law.margin, law.training, color=colour, label=f"λ = {ridge}")
        ax.plot(law.margin, law.fresh, "--", color=colour)
    ax.set(xlabel="margin", ylabel="density", xlim=(-8, 20))
    ax.legend()
    figure.savefig("e_margins.svg")
