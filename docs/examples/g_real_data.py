"""A data set and its idealisation.

Breast-cancer diagnoses: the measured error of logistic regression, and the theory for Gaussian
features with the same k, d and n. Their distance shows how far the data are from Gaussian.
"""

from sklearn.datasets import load_breast_cancer

import polyceptron as pc

X, y = load_breast_cancer(return_X_y=True)
sizes = [0.1, 0.2, 0.5, 1.0]
result = pc.predicted_curve(pc.ERMClassifier(ridge=0.1), X, y, train_sizes=sizes)
ax = result.plot()
ax.set_xscale("linear")
ax.figure.savefig("g_real_data.svg")
print(f"{X.shape[1]} features, effective dimension {result.effective_dimension:.3g}")
