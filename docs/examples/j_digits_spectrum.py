"""Handwritten digits with their own spectrum.

The measured error of a ridge classifier, the theory for Gaussian inputs with the digits' own
covariance, and a power law through the measured points. Digits come in clusters, which no Gaussian
teacher has: the theory errs several times as often, and says so.
"""

import textwrap

from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import polyceptron as pc

X, y = load_digits(return_X_y=True)
result = pc.predicted_curve(make_pipeline(StandardScaler(), RidgeClassifier()), X, y)
ax = result.plot()
ax.set_xscale("linear")
ax.figure.savefig("j_digits_spectrum.svg")
for line in f"{result.assumption}\n{result.answers()}".splitlines():
    print(textwrap.fill(line, 88))
