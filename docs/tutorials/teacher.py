# %% [markdown]
# # For instructors: learning curves, double descent and a hard phase in three pictures
#
# A teacher draws a random linear rule for $k$ classes; a student sees $n=\alpha d$ labelled
# examples. In many dimensions the student's error depends on α alone, and there are three
# pictures worth an hour of a course: how fast one can learn, how not to regularise, and why
# possible is not the same as feasible.

# %%
import numpy as np

import polyceptron as pc

# %% [markdown]
# ## 1. Learning curves
#
# No student can do better than the posterior mean (black). All of these errors fall as
# $1/\alpha$ eventually, except that of the square loss, which falls as $1/\sqrt\alpha$.

# %%
teacher = pc.Teacher(3)
students = [pc.BayesOptimal(), pc.ERM("max-margin"), pc.ERM("square", "optimal")]
curve = pc.learning_curve(teacher, students, alpha="0.2:20:10:log")
ax = curve.plot()
ax.set(xscale="log", yscale="log")

# %% [markdown]
# Ask the class: how many samples bring the error from 20 % to 10 %? And from 2 % to 1 %?

# %%
for student in (pc.BayesOptimal(), pc.ERM("square", "optimal")):
    tail = pc.asymptotics(teacher, student)
    print(f"{student.name}: error ≈ {tail.constant:.4f} α^(-{tail.exponent:.4f})")

# %% [markdown]
# ## 2. Double descent
#
# The square loss without a ridge is worst where the samples just determine the weights, at α =
# 1: more data hurt. A ridge removes the peak, and the best ridge is the same number at every α.

# %%
students = [pc.ERM("square", ridge) for ridge in (0.0, 0.01, "optimal")]
ax = pc.learning_curve(teacher, students, "0.1:10:log").plot()
ax.set_xscale("log")

# %% [markdown]
# The peak is there in a single experiment too. Here are fits with $d=100$, ten at each α:

# %%
for ratio in (0.5, 1.0, 2.0):
    n = round(100 * ratio)
    drawn = [teacher.sample(n, 100, seed=[n, i]) for i in range(10)]
    errors = [
        pc.exact_generalisation_error(pc.fit_erm(X, y, "square", 0).weights, W).value
        for X, y, W in drawn
    ]
    print(
        f"alpha = {ratio}: error {np.mean(errors):.3f}, s.e. {np.std(errors) / 3:.3f}"
    )

# %% [markdown]
# ## 3. Possible, but hard
#
# A student who knows that the weights are ±1 can do better. Above $\alpha_{\mathrm{IT}}$ the rule
# can be found exactly, but up to $\alpha_{\mathrm{algo}}$ no efficient algorithm is known that
# does so: the free entropy has a second maximum, and message passing sits at the lower one.

# %%
signs = pc.Teacher(3, prior="rademacher")
found = pc.transitions(signs)
found

# %%
pc.learning_curve(signs, pc.BayesOptimal(), "0.1:3.5", branch="all").plot()

# %% [markdown]
# Message passing on two data sets, one in the hard phase and one above it:

# %%
for ratio in (2.6, 3.5):
    data = signs.sample(round(300 * ratio), 300, seed=1)
    result = pc.amp(data.X, data.y, prior="rademacher")
    error = pc.exact_generalisation_error(result.weights, data.weights).value
    print(
        f"α = {ratio}: {found.phase(ratio)}, error {error:.3f}, {result.n_iter} steps"
    )

# %% [markdown]
# `polyceptron explore` shows the same curves with sliders, for use during the lecture.
