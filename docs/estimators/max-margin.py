# %% [markdown]
# # max-margin: the hard-margin classifier
#
# $$ \hat W=\argmin_W\lVert W\rVert^2\quad\text{with}\quad z_{\mu y_\mu}-z_{\mu h}\ge1\;\text{ for all
# }h\ne y_\mu, \qquad z_\mu=\frac{W^\top x_\mu}{\sqrt d} $$
#
# The multi-class support vector machine without slack. On separable data it is the limit of
# cross-entropy as the ridge tends to 0. Data without noise are always separable.
#
# | | |
# | --- | --- |
# | ridge | none |
# | needs | separable data: any α without noise, $\alpha<\alpha_s$ with noise (`pc.separability`) |
# | decay | $1/\alpha$, with a constant 13 % above that of cross-entropy at its best ridge |
# | on data | `pc.fit_erm(X, y, "max-margin")`, with a certificate |

# %%
import polyceptron as pc

teacher = pc.Teacher(3)
students = [pc.BayesOptimal(), pc.ERM("max-margin")]
curve = pc.learning_curve(teacher, students, [1, 2, 5, 10])
curve.frame.pivot(
    index="alpha", columns="estimator", values="generalisation_error"
).round(4)

# %% [markdown]
# The distribution of the margins: no training sample is closer than 1, and many are exactly at 1.

# %%
law = pc.margin_law(teacher, pc.ERM("max-margin"), alpha=2.0)
print(f"{law.atom:.0%} of the training samples have the margin {law.atom_at:.0f}")

# %%
data = teacher.sample(n_samples=300, dimension=150, seed=0)
pc.fit_erm(data.X, data.y, "max-margin")
