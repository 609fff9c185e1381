# %% [markdown]
# # For the researcher: a theory of your own data
#
# Which moments of a data set decide its learning curve? A *Gaussian twin* is a mixture with the
# same class shares, means and covariances: its curve follows from equations, and drawing from it
# is cheap. Here three handwritten digits that are easily taken for each other, from scikit-learn.
# [Gaussian twins](../twins.md) has the details.

# %%
import numpy as np
from sklearn.datasets import load_digits

import polyceptron as pc

X, y = load_digits(return_X_y=True)
chosen = np.isin(y, (3, 5, 8))
X, y = X[chosen], np.searchsorted((3, 5, 8), y[chosen])
X = X[:, X.std(0) > 0.5]
X = (X - X.mean(0)) / X.std(0)
print(X.shape)

# %% [markdown]
# ## The twin, and its theory at n samples
#
# Class covariances are shrunk as Ledoit and Wolf do. `theory` says what a fit to n samples scores
# on fresh ones, and in `words` how it knows: from the equations, or from fits to drawn twins.

# %%
twin = pc.Mixture.from_data(X, y)
student = pc.ERM("cross-entropy", 1.0, intercept=True)
for n in (100, 200, 400):
    point = pc.twin_point(twin, student, n)
    print(f"n = {n}: error {point.generalisation_error:.4f}, {point.words}")

# %% [markdown]
# The equations are those of infinitely many features. With 48 the mean of real fits lies above
# them; how far, draws tell.

# %%
drawn = pc.twin_point(twin, student, 100, way="draws", draws=20)
print(f"{drawn.generalisation_error:.3f} ± {drawn.uncertainty:.3f}, {drawn.words}")

# %% [markdown]
# ## What the covariances are worth
#
# A pooled covariance makes every class the same ellipsoid, an isotropic one a ball. On leading
# directions alone the equations are smaller; the projection is named.

# %%
for kind in ("own", "pooled", "isotropic"):
    other = pc.Mixture.from_data(X, y, covariances=kind)
    point = pc.twin_point(other, student, 200)
    print(f"{kind:10} {point.generalisation_error:.4f}")
print(pc.twin_point(twin, student, 200, directions=20).words)

# %% [markdown]
# ## Beside the data
#
# One call measures the learning curve by cross-validation, draws twins of the same sizes and says
# which model is nearest.

# %%
report = pc.twin_report(X, y, train_sizes=[0.2, 0.5, 1.0], draws=2)
print(report.sentence)
report.plot()

# %% [markdown]
# ## A peak where samples are as many as features
#
# Without a ridge least squares, and linear discriminant analysis with it, is worst at n ≈ d, and
# so is its twin: the peak is a matter of two moments.

# %%
flat = pc.ERM("square", 1e-6, intercept=True)
for n in (X.shape[1] // 2, X.shape[1], 4 * X.shape[1]):
    point = pc.twin_point(twin, flat, n, way="draws", draws=10)
    print(f"n = {n:3}: error {point.generalisation_error:.3f} ± {point.uncertainty:.3f}")
