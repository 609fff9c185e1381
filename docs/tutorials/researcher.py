# %% [markdown]
# # For the researcher: a prior and a loss of your own, transitions, and theory against a sweep
#
# A prior, a loss, a noise or a penalty that the package does not have is a few lines; theory,
# message passing, certified fits, sweeps and pictures then work with it. This page shows one
# example of each step; [Adding your own](../extending.md) has the protocols in full.

# %%
import numpy as np

import polyceptron as pc

# %% [markdown]
# ## A prior of your own, and its phase diagram
#
# Weights that are mostly zero, and ±√5 with probability 1/10 each: any finite distribution with
# mean 0 and variance 1 is one call. How do its transitions compare with weights ±1?

# %%
root = np.sqrt(5)
sparse = pc.finite_prior([-root, 0, root], [0.1, 0.8, 0.1])
for name, prior in (("sparse", sparse), ("rademacher", "rademacher")):
    found = pc.transitions(pc.Teacher(2, prior=prior))
    print(f"{name:10} α_IT = {found.alpha_it:.4f}, α_algo = {found.alpha_algo:.4f}")

# %% [markdown]
# All fixed points at one α, with their free entropies: the largest is the Bayes-optimal one.

# %%
alpha = 0.5 * (found.alpha_it + found.alpha_algo)
for point in pc.fixed_points(pc.Teacher(2, "rademacher"), alpha):
    print(f"q = {point.q:.4f}  free entropy {point.free_entropy:+.5f}  {point.branch}")

# %% [markdown]
# ## A loss of your own
#
# Cross-entropy with a temperature: $\ell(z,y)=T\,\mathrm{lse}(z/T)-z_y$. A loss needs value,
# gradient and Hessian. It is checked when you pass it to a function, and refused if gradient and
# value disagree.

# %%
from scipy.special import logsumexp, softmax


class Tempered(pc.Loss):
    """ℓ(z, y) = T ln Σ_h exp(z_h/T) − z_y."""

    name, T = "tempered", 3.0

    def value(self, z, y):
        return self.T * logsumexp(z / self.T, axis=1) - z[np.arange(len(z)), y]

    def gradient(self, z, y):
        return softmax(z / self.T, axis=1) - np.eye(z.shape[1])[y]

    def hessian(self, z, y):
        p = softmax(z / self.T, axis=1)
        return (
            p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None, :]
        ) / self.T


teacher = pc.Teacher(2)
tempered = pc.ERM(Tempered(), ridge=0.1)
pc.erm_fixed_point(teacher, tempered, alpha=2.0)

# %% [markdown]
# A check that costs nothing: $T\ell(z/T)$ has the minimiser of $\ell$ at another ridge, so that
# the error at temperature $T$ and ridge λ is that of cross-entropy at ridge $T\lambda$.

# %%
plain = pc.erm_fixed_point(teacher, pc.ERM("cross-entropy", 3.0 * 0.1), alpha=2.0)
ours = pc.erm_fixed_point(teacher, tempered, alpha=2.0)
assert abs(plain.generalisation_error - ours.generalisation_error) < 1e-5
print(f"{ours.generalisation_error:.6f} and {plain.generalisation_error:.6f}")

# %% [markdown]
# ## Theory against a sweep
#
# A sweep is a grid in TOML; its rows go to a store, from which a killed sweep resumes. Four lines
# draw the theory as lines and the means of the fits with their standard errors:

# %%
from pathlib import Path
from tempfile import mkdtemp

spec = pc.parse_spec("""
[[grid]]
classes = 2
sources = ["theory", "erm"]
estimators = ["cross-entropy"]
ridge = [0.01, 1.0]
alpha = [0.5, 1, 2, 4]
dimension = 100
instances = 8
""")
store = Path(mkdtemp()) / "runs.sqlite"
pc.run_sweep(spec, store, workers=1)
pc.LearningCurve.read(store).plot()

# %% [markdown]
# The distance of each mean from its line, in standard errors. At $d=100$ it includes a bias of
# order $1/d$.

# %%
with pc.Store(store) as rows:
    table = pc.summary_frame(rows)
table[["ridge", "alpha", "mean", "standard_error", "theory", "deviation"]].round(3)
