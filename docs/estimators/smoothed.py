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
# | ridge 0 | not taken. With $n>d$ there is one minimiser for any labels, separable or not, since the loss grows in every direction; with $n<d$ many weights reach the least loss of each sample, at fields $\ln(1+(1-\varepsilon)k/\varepsilon)\,e_y$, and λ → 0⁺ picks the least of them: the direction of the interpolating [square loss](square.md) |
# | ε = 0 | cross-entropy |
# | probabilities | the softmax, which tends to $(1-\varepsilon)$ times the truth plus $\varepsilon/k$ |
# | decay | $\alpha^{-1/2}$: the pull of right labels does not vanish |

# %%
import polyceptron as pc

teacher = pc.Teacher(3, noise="softmax:3")
students = [pc.ERM(name, 0.01) for name in ("cross-entropy", "smoothed:0.05", "smoothed:0.2")]
curve = pc.learning_curve(teacher, students, [1, 2, 5, 20])
curve.frame.pivot(index="alpha", columns="estimator", values="generalisation_error").round(4)

# %%
data = teacher.sample(n_samples=300, dimension=100, seed=0)
pc.fit_erm(data.X, data.y, "smoothed:0.1", ridge=0.1)
