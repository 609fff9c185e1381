# %% [markdown]
# # smoothed:ε, cross-entropy with smoothed labels
#
# $$ \ell(z,y)=-\sum_h t_h\ln p_h,\qquad t=(1-\varepsilon)e_y+\varepsilon/k,\qquad p=\mathrm{softmax}(z) $$
#
# A share ε of each label is spread over all classes. With two classes this is the penalised likelihood of
# Diaconis and Ylvisaker: a prior that adds observations of the other class.
#
# | | |
# | --- | --- |
# | ridge | any λ > 0 (default 0.1) or `"optimal"` |
# | ridge 0 | refused. For $n>d$ there is a single minimiser for any labels, because the loss grows in every direction. For $n<d$ many weights minimise the loss of each sample, at fields $\ln(1+(1-\varepsilon)k/\varepsilon)\,e_y$; the limit λ → 0⁺ has the direction of the interpolating [square loss](square.md) |
# | ε = 0 | cross-entropy |
# | probabilities | the softmax, which tends to $(1-\varepsilon)$ times the truth plus $\varepsilon/k$ |
# | decay | $\alpha^{-1/2}$, because correctly classified samples keep a gradient |

# %%
import polyceptron as pc

teacher = pc.Teacher(3, noise="softmax:3")
students = [
    pc.ERM(name, 0.01) for name in ("cross-entropy", "smoothed:0.05", "smoothed:0.2")
]
curve = pc.learning_curve(teacher, students, [1, 2, 5, 20])
curve.frame.pivot(
    index="alpha", columns="estimator", values="generalisation_error"
).round(4)

# %%
data = teacher.sample(n_samples=300, dimension=100, seed=0)
pc.fit_erm(data.X, data.y, "smoothed:0.1", ridge=0.1)
