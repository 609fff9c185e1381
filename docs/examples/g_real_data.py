"""A data set beside the idealisation.

Breast-cancer diagnoses: the measured error of logistic regression, and the theory for Gaussian
inputs of the same k, d and n. The distance says how far the data are from that idealisation.
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
