# %% [markdown]
# # square: least squares on one-hot labels
#
# $$ \hat W=\argmin_W\;\sum_\mu\frac12\lVert z_\mu-e_{y_\mu}\rVert^2
# +\frac{\lambda}{2}\lVert W\rVert^2, \qquad z_\mu=\frac{W^\top x_\mu}{\sqrt d} $$
#
# Ridge regression on one-hot labels $e_y$; the prediction is the argmax. The theory has a closed form for any number
# of classes and any noise.
#
# | | |
# | --- | --- |
# | ridge | any λ > 0 (default 0.1), `"optimal"`, or 0 |
# | ridge 0 | the minimum-norm solution; its norm diverges at α = 1: double descent |
# | best ridge | one number for each $k$ at every α: 0.8617 at $k=3$ |
# | decay | $\alpha^{-1/2}$ at any ridge |
# | on data | `pc.fit_erm`, exact up to rounding; many ridges from one decomposition, `pc.fit_erm_path` |
# | in scikit-learn | `RidgeClassifier(alpha=λ d, fit_intercept=False)` on features of unit variance (its labels ±1 give the same argmax) |

# %%
import polyceptron as pc

teacher = pc.Teacher(3)
students = [pc.ERM("square", ridge) for ridge in (0.0, 0.1, "optimal")]
ax = pc.learning_curve(teacher, students, "0.1:10:log").plot()
ax.set_xscale("log")

# %%
point = pc.erm_fixed_point(teacher, pc.ERM("square", 0.0), alpha=1.0)
print(point.status, point.generalisation_error)
print(pc.optimal_ridge(teacher, "square", alpha=2.0))
