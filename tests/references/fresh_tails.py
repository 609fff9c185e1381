"""Count how often tails agree with points at much larger α, on random problems.

    python -m tests.references.fresh_tails [number of problems] [seconds] [seed]

The seed is from the clock unless it is given, and is written first. Exponents are compared with the
exact ones, constants with three points of which the last is 100 times as far as the tail's. Numbers
of bars are distances over the sum of both uncertainties.
"""

import math
import sys
import time

import numpy as np

import polyceptron as pc
from polyceptron.errors import ComputationFailed
from polyceptron.numerics.extrapolation import weights_at_zero
from polyceptron.problem.specs import ClassMeans
from polyceptron.questions.asymptotics import CORRECTION_POWER, FLOOR_ROUNDING
from polyceptron.sides.generalisation import error_floor
from polyceptron.students import student_of

BEYOND = 100.0  # times the tail's last α: the last point of the reference
LOSSES = ("cross-entropy", "hinge", "squared-hinge", "square", "smoothed")


def random_problem(rng):
    """A teacher, a student and the largest α of the tail."""
    k = int(rng.choice([2, 3, 4, 5], p=[0.32, 0.53, 0.1, 0.05]))
    noise = str(rng.choice(["none", "flips", "gaussian", "softmax"], p=[0.3, 0.4, 0.2, 0.1]))
    if noise == "flips":
        noise = f"flips:{rng.uniform(0.01, 0.3):.4g}"
    elif noise == "gaussian":
        noise = f"gaussian:{10 ** rng.uniform(-2, 0.5):.4g}"
    elif noise == "softmax":
        noise = f"softmax:{10 ** rng.uniform(-0.3, 1):.4g}"
    ridge = float(f"{10 ** rng.uniform(-3, 1):.4g}")
    kind = str(rng.choice(["loss", "best", "bayes", "rule"], p=[0.65, 0.1, 0.1, 0.15]))
    student = pc.BayesOptimal()
    if kind == "loss":
        loss = str(rng.choice(LOSSES))
        if loss == "smoothed":
            loss = f"smoothed:{rng.uniform(0.02, 0.4):.3g}"
        student = pc.ERM(loss, ridge)
    elif kind == "best" and k <= 3:
        student = pc.ERM("cross-entropy", "optimal")
    elif kind == "rule":
        rules = (ClassMeans(), pc.DiscriminantAnalysis(ridge), pc.OneVsRest(ridge))
        student = rules[int(rng.integers(3))]
    smooth = noise.startswith(("gaussian", "softmax"))
    highest = 4.0 if smooth or k > 3 else 5.0
    alpha_max = float(f"{10 ** rng.uniform(3, highest):.3g}")
    return pc.Teacher(k, noise=noise), student, alpha_max


def far_constant(teacher, student, alpha_max, exponent):
    """C and its uncertainty from three points around 100 `alpha_max`."""
    alpha = BEYOND * alpha_max * np.array([1 / 64, 1 / 8, 1.0])
    floor = error_floor(teacher.channel, teacher.n_classes)
    scaled, bars = [], []
    for value in alpha:
        size = 0.3 * (teacher.n_classes - 1) * value**-exponent
        tol = size * (1e-7 if teacher.n_classes <= 3 else 2e-4)
        (row,) = student_of(student).rows(teacher, [float(value)], tol=tol)
        scaled.append((row["generalisation_error"] - floor) * value**exponent)
        bar = row["uncertainty"] + (FLOOR_ROUNDING if floor > 0 else 0.0)
        bars.append(bar * value**exponent)
    x = alpha ** -CORRECTION_POWER[exponent]
    both = weights_at_zero(x)
    last = weights_at_zero(x[1:])
    three = float(both @ scaled)
    two = float(last @ scaled[1:])
    return two, abs(three - two) + float(np.abs(last) @ bars[1:])


def compared(teacher, student, alpha_max, tail):
    """How many bars each number is off: its name → bars; and whether the far points were worse."""
    bars = {}
    weak = False
    if tail.exact_exponent is not None:
        bars["exponent"] = abs(tail.exponent - tail.exact_exponent) / tail.exponent_uncertainty
        far, spread = far_constant(teacher, student, alpha_max, tail.exact_exponent)
        weak = not spread <= tail.constant_uncertainty  # also where a far point has no number
        if math.isfinite(far):
            bars["constant"] = abs(tail.constant - far) / (tail.constant_uncertainty + spread)
    if tail.exact_constant is not None:
        apart = abs(tail.constant - tail.exact_constant)
        bars["exact constant"] = apart / tail.constant_uncertainty
    return bars, weak


def say(*words):
    """Write a line at once."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main(n_problems, seconds, seed):
    """Write every problem beyond its bars, then the counts."""
    say("seed", seed)
    ends = time.monotonic() + seconds
    every = {"exponent": [], "constant": [], "exact constant": []}
    refused = 0
    not_ok = 0
    n_weak = 0
    for number in range(n_problems):
        if time.monotonic() > ends:
            break
        teacher, student, alpha_max = random_problem(np.random.default_rng([seed, number]))
        problem = f"{number} {teacher!r} {student.columns} alpha_max {alpha_max:g}:"
        try:
            tail = pc.asymptotics(teacher, student, alpha_max)
        except ComputationFailed as failure:
            refused += 1
            say(problem, failure)
            continue
        if tail.status != "ok":
            not_ok += 1
            say(problem, tail.status, tail.reason)
            continue
        bars, weak = compared(teacher, student, alpha_max, tail)
        if weak:
            n_weak += 1
        for name, value in bars.items():
            every[name].append(value)
        if max(bars.values(), default=0.0) > 1:
            say(problem, bars)
    say("| number | tried | inside | worst in bars |\n| --- | --- | --- | --- |")
    for name, found in every.items():
        inside = sum(value <= 1 for value in found)
        say(f"| {name} | {len(found)} | {inside} | {max(found, default=math.nan):.2f} |")
    say(f"refused {refused}, not ok {not_ok}, far points less precise than the tail {n_weak}")


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    asked = given + [100, 600, time.time_ns() % 10**9][len(given) :]
    main(*asked)
