# %% [markdown]
# # Gaussian twins: a theory of your own data
#
# A *Gaussian twin* of a data set is a mixture of Gaussians with the same class shares, means and
# covariances. The score of a linear classifier on the twin follows from equations, and samples of
# the twin are cheap to draw. So two questions have an answer: which moments of the data decide its
# learning curve, and how far from Gaussian are the data?
#
# The example uses three handwritten digits of scikit-learn that are easily confused.

# %%
import textwrap

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
# ## The twin and its theory
#
# `Mixture.from_data` reads X twice, in blocks: X may be an array, a sparse matrix, a memory map or
# a Dask array. It shrinks the covariances towards a multiple of the identity, as Ledoit and Wolf
# do, or by `shrink` from 0 to 1. `twin_point` says what a fit to n samples scores on fresh
# samples; `words` says how it was computed.

# %%
twin = pc.Mixture.from_data(X, y)
student = pc.ERM("cross-entropy", 1.0, intercept=True)
for n in (100, 200, 400):
    point = pc.twin_point(twin, student, n)
    print(f"n = {n}: error {point.generalisation_error:.4f}, {point.words}")

# %% [markdown]
# The ridge λ belongs to fields $w^\top x/\sqrt d$. In scikit-learn that is
# `LogisticRegression(C=1/(λ d))`, `C=2/(λ d)` for two classes, and `RidgeClassifier(alpha=λ d)`.
#
# ## Equations or draws
#
# `twin_point` solves the equations where $k\,d$ is at most 4000 and draws samples of the twin
# otherwise; `way="equations"` and `way="draws"` choose.
#
# - The equations hold for $d\to\infty$ at $n/d$. An iteration inverts a matrix with $(k-1)d$ rows.
# - At a finite $d$ the mean error lies above the equations by a bias of order $1/d$. Draws have
#   no such bias; their uncertainty comes from their spread.
#
# Here $d$ is 48:

# %%
drawn = pc.twin_point(twin, student, 100, way="draws", draws=20)
print(f"{drawn.generalisation_error:.3f} ± {drawn.uncertainty:.3f}, {drawn.words}")

# %% [markdown]
# ## What the covariances are worth
#
# `covariances="pooled"` gives every class the same covariance, `"isotropic"` a multiple of the
# identity. `directions=20` first projects on the 20 leading directions of the total covariance.

# %%
for kind in ("own", "pooled", "isotropic"):
    other = pc.Mixture.from_data(X, y, covariances=kind)
    point = pc.twin_point(other, student, 200)
    print(f"{kind:10} {point.generalisation_error:.4f}")
print(pc.twin_point(twin, student, 200, directions=20).words)

# %% [markdown]
# ## Which model describes the data?
#
# `twin_report` measures error and log-loss by cross-validation and sets four models beside them:
# mixtures with own, pooled and isotropic covariances, and a Gaussian teacher with the spectrum of
# the data (one fitted number, no log-loss). `polyceptron data table.csv --twins` adds its sentence
# to the [page about a table](../data.md), and the figure `twins` shows all ten digits.

# %%
report = pc.twin_report(X, y, train_sizes=[0.2, 0.5, 1.0], draws=2)
print(textwrap.fill(f"{report.sentence} {report.advice}", 88))
report.plot()

# %% [markdown]
# ## A peak where samples are as many as features
#
# Without a ridge, least squares is worst at n ≈ d. So is its twin: two moments explain the peak.

# %%
flat = pc.ERM("square", 1e-6, intercept=True)
for n in (X.shape[1] // 2, X.shape[1], 4 * X.shape[1]):
    point = pc.twin_point(twin, flat, n, way="draws", draws=10)
    error = point.generalisation_error
    print(f"n = {n:3}: error {error:.3f} ± {point.uncertainty:.3f}")

# %% [markdown]
# With all ten digits and a ridge of 1e-6 the equations give errors of 0.376, 0.715 and 0.222 at
# n = 32, 64 and 128, eight drawn twins 0.41 ± 0.07, 0.73 ± 0.07 and 0.23 ± 0.03, and the digits
# themselves 0.398, 0.465 and 0.176. Pixels that are white in nearly all images lower their peak.
#
# ## How well the equations describe the twins
#
# Ten digits, standardised, 61 features: the equations; the mean of 20 drawn twins, with its
# standard error in brackets; the same with every feature four times, which leaves the equations as they are;
# and both extrapolated to $d\to\infty$, linearly in $1/d$. The last column is the distance in
# standard errors.
#
# | error | equations | twins, d = 61 | d = 244 | d → ∞ | z |
# | --- | --: | --: | --: | --: | --: |
# | n = 120, square, λ = 1 | .1081 | .1291 (.0054) | .1159 (.0020) | .1115 (.0032) | 1.1 |
# | n = 120, cross-entropy, λ = 1 | .0833 | .1420 (.0079) | .1010 (.0024) | .0874 (.0041) | 1.0 |
# | n = 300, square, λ = 0.1 | .0910 | .0946 (.0023) | .0918 (.0012) | .0909 (.0018) | −0.1 |
# | n = 300, square, λ = 1 | .0717 | .0775 (.0019) | .0730 (.0012) | .0716 (.0018) | −0.1 |
# | n = 300, cross-entropy, λ = 0.1 | .0428 | .0475 (.0013) | .0446 (.0010) | .0437 (.0014) | 0.6 |
# | n = 300, cross-entropy, λ = 1 | .0491 | .0575 (.0016) | .0530 (.0013) | .0514 (.0018) | 1.3 |
# | n = 300, squared hinge, λ = 1 | .0448 | .0485 (.0013) | .0471 (.0011) | .0466 (.0015) | 1.2 |
#
# | log-loss of cross-entropy | equations | twins, d = 61 | d = 244 | d → ∞ | z |
# | --- | --: | --: | --: | --: | --: |
# | n = 120, λ = 1 | 1.028 | 1.071 | 1.045 | 1.036 (.003) | 2.2 |
# | n = 300, λ = 0.1 | .246 | .254 | .250 | .248 (.003) | 0.9 |
# | n = 300, λ = 1 | .641 | .652 | .645 | .643 (.002) | 0.8 |
#
# The equations agree with the extrapolated draws. At $d=61$ the finite size is the larger part of
# the difference, so `twin_report` uses draws.
#
# On the ten digits themselves the error of the twin with own covariances is 27 % below the
# measured one, with a pooled covariance 38 %, with isotropic classes 72 %. A point of the
# equations takes 1.3 s of one core for the square loss, 6 s for cross-entropy and 8 s for the
# squared hinge.
#
# ## When not to use a twin
#
# - With few samples of a class the covariance is shrunk too far. The twin is then too easy, and a
#   forecast beyond the measured sizes is several times too optimistic. The report warns below
#   three samples a feature.
# - If the tails of the features are not Gaussian, its log-loss is too low: on images by up to 20 %.
# - A twin is made of the moments of all samples. It describes them; it is no test on held-out ones.
