# %% [markdown]
# # one-vs-rest, lda, class-means: three other rules
#
# **one-vs-rest** fits each class against all others by a binary loss with an intercept, $k$ fits of
# $\sum_\mu\ell(s_\mu h_\mu)+\frac\lambda2\lVert w\rVert^2$, and predicts the class with the largest field.
# **lda** takes the class means in the metric of the pooled covariance, $(nS/d+\lambda)^{-1}\hat\mu_c$.
# **class-means** predicts the class with the nearest mean.
#
# | | one-vs-rest | lda | class-means |
# | --- | --- | --- | --- |
# | ridge | λ > 0 (default 0.1), `"optimal"` | λ > 0 (default 0.1), `"optimal"` | none |
# | theory | equal classes; two classes are a single fit, more are sampled to 1e-4 in seconds; `one-vs-rest[squared-hinge]` and any other loss | closed form; for equal classes that of the [square loss](square.md) with the same ridge | closed form, for mixtures too |
# | known limits | `one-vs-rest[square]` at λ is the square loss at 2λ; two classes: cross-entropy at 2λ | its error peaks at $n=d$ if the ridge is small | Bayes-optimal for mixtures of equal shares and one variance |
# | in scikit-learn | `OneVsRestClassifier(LogisticRegression(C=1/λ))` on $X/\sqrt d$; `[hinge]` is `LinearSVC` with its intercept not penalised | `LinearDiscriminantAnalysis` | `NearestCentroid` |
#
# ## What does one-vs-rest lose?
#
# Both with their best ridge, three classes without noise:
#
# | α | one-vs-rest | cross-entropy |
# | --- | --- | --- |
# | 0.5 | 0.47148 ± 3e-5 | 0.47114 |
# | 2 | 0.29221 ± 4e-5 | 0.28880 |
# | 10 | 0.10890 ± 6e-5 | 0.08383 |
# | 100 | 0.03123 ± 9e-5 | 0.00881 |
#
# At small α it loses almost nothing; at α = 10 its error is a third larger, at α = 100 3.5 times as large. "One class
# against two others" is not a linear rule, so each binary fit keeps an error at any number of samples. From α = 13 on
# the best ridge is close to 0.
# (`polyceptron curve -e one-vs-rest -e cross-entropy --ridge optimal --alpha 0.5,2,10,100`; the figure *rivals* of
# `polyceptron figures --only rivals` has the whole curves.)

# %%
import polyceptron as pc

teacher = pc.Teacher(3)
curve = pc.learning_curve(
    teacher, ["one-vs-rest", "lda", "class-means", "cross-entropy"], [0.5, 2.0]
)
curve.frame.pivot(
    index="alpha", columns="estimator", values="generalisation_error"
).round(4)

# %%
mixture = pc.Mixture(shares=(0.5, 0.5), separation=2.0)
rule = pc.learning_curve(mixture, ["class-means", "bayes"], [1.0, 3.0])
rule.frame[["estimator", "alpha", "generalisation_error"]]
