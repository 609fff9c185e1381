# %% [markdown]
# # Choosing an estimator: how many samples, which ridge, how far from optimal
#
# You have a linear classifier to train, $k$ classes, $d$ features and a budget of labels. This
# page answers three questions before any label is bought, and then checks the answers on data.
# The answers hold for Gaussian features and labels from a linear rule. The last section measures
# how far a data set is from that.
#
# ## Which estimator?
#
# | you know | use | why |
# | --- | --- | --- |
# | the distribution of the weights, and $k$ is small | [message passing](../message-passing.md) | lowest possible error, calibrated probabilities |
# | nothing about the weights | cross-entropy with its best ridge | within about 0.0001 of optimal at $k=3$, for every α below |
# | nothing, and you cannot tune a ridge | max-margin | no ridge to choose; its error falls as $1/\alpha$ too |
# | you need a closed form | square loss with its best ridge | exact for any $k$; as good as the others below $\alpha\approx 1$, and behind from there on |
#
# At $k=3$ with a Gaussian teacher:

# %%
import polyceptron as pc

teacher = pc.Teacher(
    3
)  # three classes; noise="flips:0.05" if one label in twenty is wrong
students = [
    pc.BayesOptimal(),
    pc.ERM("cross-entropy", ridge="optimal"),
    pc.ERM("max-margin"),
    pc.ERM("square", ridge="optimal"),
]
curve = pc.learning_curve(teacher, students, alpha=[1, 2, 5, 10])
curve.frame.pivot(
    index="alpha", columns="estimator", values="generalisation_error"
).round(4)

# %% [markdown]
# If the weights are ±1 (`prior="rademacher"`) the columns of the losses stay as they are, because
# a loss sees the prior through its variance alone. The Bayes-optimal error is lower, and zero
# above $\alpha_{\mathrm{IT}}$.
#
# ## How many samples?
#
# To reach an error of 10 %, with the best possible method and with two methods that every
# library has. `n_samples` belongs to the dimension given; what matters is the ratio α = n/d.

# %%
d = 200
for estimator in (pc.BayesOptimal(), pc.ERM("max-margin"), pc.ERM("square", "optimal")):
    needed = pc.plan(teacher, error=0.1, estimator=estimator, dimension=d)
    print(f"{estimator.name:14} n = {needed.n_samples:5d}, α = {needed.alpha:.2f}")

# %% [markdown]
# ## Which ridge?
#
# For the square loss the best ridge is the same at every α: 0.8617 at $k=3$. For cross-entropy it
# falls with the number of samples, eventually as $\alpha^{-2}$. The paper's value, 0.01, is right
# near $\alpha=5$ only. If you choose a ridge once and keep it, you lose most of what there is to lose:

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
assert round(pc.optimal_ridge(teacher, "square", alpha=2.0), 4) == 0.8617

# %% [markdown]
# In scikit-learn's `LogisticRegression` on features of unit variance, a ridge λ is `C = 1/(λ d)`.
# With features $x/\sqrt d$ it is `C = 1/λ`. For two classes scikit-learn keeps one vector instead
# of two, which is a factor of 2: `C = 2/(λ d)`.
#
# ## How far from optimal?

# %%
students = [
    pc.BayesOptimal(),
    pc.ERM("cross-entropy", 0.01),
    pc.ERM("square", "optimal"),
]
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
expected_error = expected.generalisation_error
print(f"measured {measured:.3f}, expected {expected_error:.3f}; {fit.status}")
assert abs(measured - expected_error) < 0.04

# %% [markdown]
# ## Your own data
#
# `ERMClassifier` is a scikit-learn classifier: `fit`, `predict`, `predict_proba`, pipelines and
# grid searches. It chooses its own ridge unless you give one.

# %%
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import cross_val_score

X, y = load_iris(return_X_y=True)
scores = cross_val_score(pc.ERMClassifier(), X, y, cv=3)
print(f"accuracy {scores.mean():.2f}")
assert scores.mean() > 0.9

# %% [markdown]
# `predicted_curve` measures a learning curve by cross-validation and sets the theory of Gaussian
# features beside it, with the [spectrum](../features.md) of the data. The distance between the
# two says how much of the advice above carries over.

# %%
X, y = load_breast_cancer(return_X_y=True)
pc.predicted_curve(pc.ERMClassifier("square", ridge=1.0), X, y).plot()

# %% [markdown]
# `polyceptron data table.csv --target label` writes [one page about a table](../data.md) of your
# own.
