# %% [markdown]
# # cross-entropy: logistic regression with a ridge
#
# $$ \hat W=\argmin_W\;\sum_\mu\Bigl(\ln\sum_h e^{z_{\mu h}}-z_{\mu y_\mu}\Bigr)+\frac{\lambda}{2}\lVert
# W\rVert^2, \qquad z_\mu=\frac{W^\top x_\mu}{\sqrt d} $$
#
# Multinomial logistic regression without intercept. With the best ridge its error is within a
# thousandth of the Bayes-optimal one for a Gaussian teacher, at every α
# ([why](../optimal-cross-entropy.md)).
#
# | | |
# | --- | --- |
# | ridge | any λ > 0 (default 0.1), `"optimal"`, or 0 |
# | ridge 0 | max-margin if the labels are separable, maximum likelihood otherwise ([noise](../noise.md)) |
# | best ridge | falls with α, eventually as $\alpha^{-2}$ |
# | decay | $1/\alpha$ at the best ridge, $\alpha^{-2/3}$ at a fixed one |
# | probabilities | the softmax of the fields; `pc.calibration` says how good they are |
# | on data | `pc.fit_erm` (certified), `pc.ERMClassifier`, `pc.amp_erm` |
# | in scikit-learn | `LogisticRegression(C=1/(λ d), fit_intercept=False)` on features of unit variance; for two classes `C=2/(λ d)` |

# %%
import pandas as pd

import polyceptron as pc

teacher, alphas = pc.Teacher(3), [1, 3, 10]
students = {"Bayes-optimal": pc.BayesOptimal()} | {
    f"ridge {ridge}": pc.ERM("cross-entropy", ridge) for ridge in ("optimal", 0.01, 1.0)
}
errors = {
    name: pc.learning_curve(teacher, student, alphas).frame["generalisation_error"]
    for name, student in students.items()
}
pd.DataFrame(errors).set_axis(alphas).round(4)

# %% [markdown]
# A fit carries a certificate: a bound on its distance to the minimiser.

# %%
data = teacher.sample(n_samples=600, dimension=200, seed=0)
pc.fit_erm(data.X, data.y, "cross-entropy", ridge=0.01)
