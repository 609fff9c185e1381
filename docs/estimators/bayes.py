# %% [markdown]
# # bayes: the posterior mean
#
# $$ \hat W=\mathbb{E}[W^*\mid X,y], \qquad \hat y(x)=\argmax_l\,(\hat W^\top x)_l $$
#
# No estimator has a lower error. It knows the distributions of the teacher's weights and of the noise, and learns
# everything else from the data. In theory one scalar $q$ describes it ([theory](../theory.md));
# on data [message passing](../message-passing.md) reaches it wherever that is not hard.
#
# | | |
# | --- | --- |
# | ridge | none |
# | depends on the prior of the weights | yes |
# | decay | $1/\alpha$ for Gaussian weights; zero above $\alpha_{\mathrm{IT}}$ for finite ones |
# | branches | `optimal`, `amp` (what message passing reaches), `informed`, `unstable` |
# | at the shell | `polyceptron curve -e bayes`, `polyceptron transitions`, `polyceptron amp` |

# %%
import polyceptron as pc

curve = pc.learning_curve(pc.Teacher(3), pc.BayesOptimal(), [1, 2, 5, 10])
curve

# %% [markdown]
# With weights ±1 there is a jump, and between $\alpha_{\mathrm{IT}}$ and $\alpha_{\mathrm{algo}}$ the
# branch that message passing reaches is not the optimal one:

# %%
signs = pc.Teacher(3, prior="rademacher")
for point in pc.fixed_points(signs, 2.6):
    print(f"{point.branch:9} q = {point.q:.4f}, error {point.generalisation_error:.4f}")

# %% [markdown]
# `average` uses the posterior mean as if it were the teacher's weights. For equal classes its predictions are those
# of `bayes`, because the probability $Z_l(\omega,V)$ of a label is ordered as $\omega_l$. But it ignores the remaining
# uncertainty $V$, so its probabilities are overconfident:

# %%
noisy = pc.Teacher(2, noise="softmax:3")
for name in ("bayes", "average"):
    scores = pc.calibration(noisy, name, 2.0)
    calibration = scores.calibration_error
    print(f"{name:8} test loss {scores.test_loss:.4f}, calibration {calibration:.4f}")

# %% [markdown]
# On data drawn from the model; `AMPClassifier` is the same with scikit-learn's interface:

# %%
data = pc.Teacher(3).sample(n_samples=600, dimension=200, seed=0)
result = pc.amp(data.X, data.y, teacher_weights=data.weights)
error = pc.exact_generalisation_error(result.weights, data.weights)
print(f"{result.status} after {result.n_iter} steps; error {error.value:.4f}")
