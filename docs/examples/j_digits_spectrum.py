"""Handwritten digits with their own spectrum.

The measured error of a ridge classifier, the theory for Gaussian features with the covariance of
the digits, and a forecast. Digits form clusters, which a Gaussian teacher does not have: the
theory predicts several times the measured error.
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
