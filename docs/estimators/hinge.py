# %% [markdown]
# # hinge, weston-watkins, squared-hinge: support vector machines with slack
#
# Let $s_h=1+z_h-z_y$, the amount by which the margin to class $h$ falls short of 1.
#
# | name | loss | in scikit-learn |
# | --- | --- | --- |
# | `hinge` | $\max(0,\max_{h\ne y}s_h)$ (Crammer and Singer) | `LinearSVC(C=1/λ, multi_class="crammer_singer", fit_intercept=False)` on $X/\sqrt d$ |
# | `weston-watkins` | $\sum_{h\ne y}\max(0,s_h)$ | none |
# | `squared-hinge` | $\frac12\sum_{h\ne y}\max(0,s_h)^2$ | none for $k>2$ |
#
# | | |
# | --- | --- |
# | ridge | any λ > 0 (default 0.1), `"optimal"`, or 0 |
# | ridge 0 | max-margin if the data are separable (all three losses are 0 where every margin is at least 1); the minimiser of the loss otherwise |
# | decay | $\alpha^{-2/3}$ at a fixed ridge, $1/\alpha$ at the best one |
# | accuracy | 1e-8 at $k=2$, 1e-6 at $k=3$; sampled from four classes on, to 1e-4 by default |
# | two classes | `hinge` and `weston-watkins` are one loss |
# | on data | `pc.fit_erm(X, y, "hinge", 0.1)`, certified by a duality gap (`squared-hinge` by its gradient) |

# %%
import polyceptron as pc

teacher = pc.Teacher(3)
names = ("hinge", "weston-watkins", "squared-hinge", "cross-entropy")
students = [pc.ERM(name, "optimal") for name in names]
curve = pc.learning_curve(teacher, students, 3.0)
curve.frame.pivot(
    index="alpha", columns="estimator", values="generalisation_error"
).round(4)

# %% [markdown]
# A share of the training samples lies exactly on the margin: the distribution of the margins has an atom there.

# %%
law = pc.margin_law(
    pc.Teacher(2, noise="gaussian:0.3"), pc.ERM("hinge", 0.5), alpha=3.0
)
print(f"{law.atom:.0%} of the training samples have the margin {law.atom_at:.0f}")

# %%
data = teacher.sample(n_samples=150, dimension=50, seed=0)
pc.fit_erm(data.X, data.y, "hinge", ridge=0.3)
