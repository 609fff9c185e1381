# %% [markdown]
# # sgd: one pass of stochastic gradient descent
#
# Each sample is seen once, and moves the weights along its own gradient,
#
# $$W\leftarrow W-\frac{\eta}{\sqrt d}\,x\,\nabla\ell(z,y)^\top,\qquad z=W^\top x/\sqrt d,\qquad W(0)=0 .$$
#
# | | |
# | --- | --- |
# | parameters | `rate` η (a number or `"optimal"`), `loss` (any but max-margin), `schedule` (`"constant"` or `"decay:α₀"` for $\eta/(1+\alpha/\alpha_0)$), `batch` |
# | as text | `sgd:1`, `sgd:optimal`, `sgd[square]:0.5`, `sgd:2:decay:4`, `sgd:4:batch:8` |
# | theory | an ordinary differential equation in α, for equal classes, any noise and spectrum |
# | simulation | one loop over the samples |
#
# [The equations, and what one pass costs](../one-pass.md).

# %%
import polyceptron as pc

curve = pc.learning_curve(
    pc.Teacher(3), [pc.SGD(rate=1.0), pc.ERM("cross-entropy", "optimal")], [1.0, 3.0]
)
curve.frame[["estimator", "alpha", "generalisation_error", "uncertainty"]]

# %%
pc.simulate(pc.Teacher(3), pc.SGD(rate=1.0), alpha=3.0, dimension=500)[
    "generalisation_error"
]
