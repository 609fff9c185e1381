# %% [markdown]
# # For the practitioner: how many samples, which ridge, how far from optimal
#
# You have a linear classifier to train, $k$ classes, $d$ features and a budget of labels. This
# page answers three questions before any label is bought, and then checks the answers on data.
# It holds for Gaussian inputs and labels from a linear rule; the last cell says how far a data
# set is from that.

# %%
import polyceptron as pc

teacher = pc.Teacher(3)  # three classes; noise="flips:0.05" if one label in twenty is wrong
d = 200

# %% [markdown]
# ## How many samples?
#
# For an error of 10 %, with the best that any method could do, and with two that are in every
# library. `n_samples` is for the dimension given; what matters is the ratio α = n/d.

# %%
for estimator in (pc.BayesOptimal(), pc.ERM("max-margin"), pc.ERM("square", "optimal")):
    needed = pc.plan(teacher, error=0.1, estimator=estimator, dimension=d)
    print(f"{estimator.name:14} n = {needed.n_samples:5d}  (alpha = {needed.alpha:.2f})")

# %% [markdown]
# ## Which ridge?
#
# The best ridge of cross-entropy falls with the number of samples. Guessing it once and keeping
# it is what costs most:

# %%
alphas = [1, 3, 8]
best = [pc.optimal_ridge(teacher, "cross-entropy", alpha) for alpha in alphas]
for alpha, ridge in zip(alphas, best):
    kept = pc.erm_fixed_point(teacher, pc.ERM("cross-entropy", 1.0), alpha)
    tuned = pc.erm_fixed_point(teacher, pc.ERM("cross-entropy", ridge), alpha)
    print(
        f"alpha = {alpha}: ridge {ridge:.4f}, error {tuned.generalisation_error:.4f}"
        f" (ridge 1: {kept.generalisation_error:.4f})"
    )
assert best[0] > best[1] > best[2]

# %% [markdown]
# In scikit-learn's `LogisticRegression` on features of unit variance that is `C = 1 / (ridge *
# d)`.
#
# ## How far from optimal?

# %%
students = [pc.BayesOptimal(), pc.ERM("cross-entropy", 0.01), pc.ERM("square", "optimal")]
curve = pc.learning_curve(teacher, students, alpha="0.5:8:9:log")
curve.plot()

# %% [markdown]
# ## The same on data
#
# One data set of 800 samples, fitted with the ridge that the theory advises. With $d=200$ a
# single instance differs from the theory by a few parts in a hundred.

# %%
X, y, W = teacher.sample(n_samples=4 * d, dimension=d, seed=0)
advised = pc.optimal_ridge(teacher, "cross-entropy", 4.0)
fit = pc.fit_erm(X, y, "cross-entropy", advised)
measured = pc.exact_generalisation_error(fit.weights, W).value
expected = pc.erm_fixed_point(teacher, pc.ERM("cross-entropy", advised), 4.0)
print(f"measured {measured:.3f}, expected {expected.generalisation_error:.3f}; {fit.status}")
assert abs(measured - expected.generalisation_error) < 0.04

# %% [markdown]
# ## Your own data
#
# `ERMClassifier` is a scikit-learn classifier. `predicted_curve` measures its learning curve by
# cross-validation and lays the theory of Gaussian inputs beside it: the distance between the two
# says how much of the advice above carries over.

# %%
from sklearn.datasets import load_breast_cancer

X, y = load_breast_cancer(return_X_y=True)
pc.predicted_curve(pc.ERMClassifier("square", ridge=1.0), X, y).plot()
