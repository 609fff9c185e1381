"""The fixed point of empirical risk minimisation by another route than the package's.

Nothing of `sides/fields` places a node or averages here, except that losses whose own rule has no
chance (sums at four and more classes) are held against random points of a seed of their own:

    k = 2, 3       a product of shifted lattices in the gaps, stretched about the boundary
    k ≥ 4, sums    `Points` of another seed
    k ≥ 4, else    utilities, label and the student's fields drawn from the model

The averages M, Q, C, D, loss and mistakes are written out again from the class fields (n, k), a
loss is asked for its `denoise` alone, and an elastic net's weights side is a plain integral. The
replicates' spread, carried through the equations, is the reference's own uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.special import ndtri, ndtri_exp

from polyceptron.numerics.estimate import student_quantile, uniform_replicates
from polyceptron.numerics.panels import panel_rule
from polyceptron.problem import Teacher
from polyceptron.problem.channels.softmax import SoftmaxNoise
from polyceptron.problem.order import Conjugates, ScalarOrder
from polyceptron.problem.penalties import ElasticNet, as_penalty
from polyceptron.problem.specs import ERM
from polyceptron.sides.fields import points
from polyceptron.sides.fields.integrand import Averages
from polyceptron.sides.fields.points import Points
from polyceptron.sides.fields.sums import Sums
from polyceptron.sides.generalisation import error_on_labels
from polyceptron.sides.scalar import PenaltySide, Problem, erm_sides
from polyceptron.theory.erm.equations import equations
from polyceptron.theory.separability import loss_at_ridge

Array = Any
Averaging = Callable[[ScalarOrder, int], Averages]  # over so many replicates
REPLICATES, FEW = 16, 2  # of the answer, and of its slopes
LOG2 = math.log(2)
REACH = 9.5  # standard deviations


def averages_of(
    problem: Problem, law: ScalarOrder, omega: Array, joint: Array, own: bool
) -> list[float]:
    """M, Q, C, D₊, D₋, loss, mistakes and mass of fields (n, k), label first, others falling.

    `joint` weighs field and label where `own`; else the fields alone.
    """
    loss, r, y = problem.loss, omega.shape[1] - 1, np.zeros(len(omega), dtype=np.int64)
    gaps = (omega[:, :1] - omega[:, 1:]).T
    label = problem.channel.label_law(gaps * law.slope, law.residual, r + 1)
    z = np.maximum(label.z, 1e-300)
    alone = joint / z if own else joint
    joint = joint if own else joint * z
    centred = omega - omega.mean(1, keepdims=True)
    f, trace = loss.denoise(centred, y, law.V)
    f = f - f.mean(1, keepdims=True)
    at = centred + law.V * f
    M = alone @ ((f[:, :1] - f[:, 1:]) * label.slopes.T).sum(1) / r
    along = (centred * f).sum(1) / (r * law.q)
    plus, minus = joint @ np.maximum(along, 0.0), joint @ np.maximum(-along, 0.0)
    C = law.slope * M - (plus - minus) if loss.coordinates.jumps else joint @ trace / r
    wrong = at[:, 0] < at[:, 1:].max(1)
    value = 0.0 if loss.scale_free else joint @ loss.value_at_prox(at, y)
    Q = joint @ (f * f).sum(1) / r
    return [M, Q, max(C, 0.0), plus, minus, value, joint @ wrong, joint.sum()]


def lattice(problem: Problem, seed: int) -> Averaging:
    """Two or three classes."""
    k, rng = problem.n_classes, np.random.default_rng(seed)
    shifts = rng.random((REPLICATES, k - 1))

    def one(law: ScalarOrder, shift: Array) -> list[float]:
        sigma = math.sqrt(2 * law.q)
        width = math.sqrt(2) * problem.channel.width(law.residual) / max(law.slope, 1e-300)
        n = 2**15 if k == 2 else 240
        scale = min(width, sigma, 1.0) / 4
        edge = math.asinh(REACH * sigma / scale)
        t = edge * (2 * (np.arange(n) + shift[0]) / n - 1)
        first, weight = scale * np.sinh(t), scale * np.cosh(t) * (2 * edge / n)
        if k == 2:
            gaps = first[None]
        else:  # y = scale·e^{t − e^{−t}}: all derivatives vanish at y = 0
            low, high = -3.2, math.log(2 * REACH * sigma / scale)
            t = low + (high - low) * (np.arange(n) + shift[1]) / n
            y = scale * np.exp(t - np.exp(-t))
            along = y * (1 + np.exp(-t)) * ((high - low) / n)
            gaps = np.stack([np.repeat(first, n), np.repeat(first, n) + np.tile(y, n)])
            weight = (weight[:, None] * along).ravel()
        total = gaps.sum(0)
        exponent = ((gaps**2).sum(0) - total**2 / k) / (2 * law.q)
        used = exponent < 40
        weight = weight * math.factorial(k) / math.sqrt(k) / (2 * math.pi * law.q) ** ((k - 1) / 2)
        weight = (weight * np.exp(-exponent))[used]
        omega = np.concatenate([np.zeros((1, used.sum())), -gaps[:, used]]).T
        return averages_of(problem, law, omega, weight, own=False)

    return lambda law, n: Averages(*np.array([one(law, shift) for shift in shifts[:n]]).T)


def drawn(problem: Problem, seed: int, log2_points: int) -> Averaging:
    """Four classes or more: samples of the model, each label by symmetry the first class."""
    k, channel = problem.n_classes, problem.channel
    cube = uniform_replicates(2 * k, log2_points, seed, REPLICATES)
    n, guess = cube.shape[1], k * channel.guess(k)
    xi = ndtri(cube[:, :, k:])
    weight = np.full(cube.shape[:2], 1 / n)
    if channel.utility_variance is not None:
        spread = math.sqrt(1 + channel.utility_variance)
        log_top = np.log(cube[:, :, :1]) / k
        z = ndtri_exp(np.concatenate([log_top, log_top + np.log(cube[:, :, 1:k])], -1))
    else:  # the multinomial logit: of the Gaussian part of utilities, shifted for the label
        assert isinstance(channel, SoftmaxNoise)
        spread = math.sqrt(1 + channel.variance)
        up = channel.utility_signal(k) * (k - 1) / spread
        z = ndtri(cube[:, :, :k])
        z[:, :, 0] += up
        below = channel.slope * spread * (z - z.max(-1, keepdims=True))
        chance = np.exp(below[:, :, 0]) / np.exp(below).sum(-1)
        weight = weight * k * chance * np.exp(up * (up / 2 - z[:, :, 0]))

    def one(law: ScalarOrder, i: int) -> Array:
        found, rho, root = np.zeros(8), law.rho / spread, math.sqrt(law.q)
        fields = [(1 - guess, weight[i], rho * z[i] + math.sqrt(1 - rho**2) * xi[i])]
        if guess > 0:
            fields.append((guess, np.full(n, 1 / n), xi[i]))
        for share, w, omega in fields:
            omega = root * np.concatenate([omega[:, :1], -np.sort(-omega[:, 1:], 1)], 1)
            found += share * np.array(averages_of(problem, law, omega, w, own=True))
        return found

    return lambda law, n: Averages(*np.array([one(law, i) for i in range(n)]).T)


class PlainNet(ElasticNet):
    """Gaussian weights: ‖γ‖² = (m̂² + q̂)χ²_r, integrated on panels."""

    def isotropic_law(self, hats: Conjugates, row: Any) -> ScalarOrder:
        r, A, spread = row.n_classes - 1, hats.V + self.l2, math.sqrt(hats.m**2 + hats.q)
        least = self.l1 / spread
        x, p = panel_rule(np.linspace(least, max(r**0.5 + 9, least + 9), 5), 40)
        p = p * np.exp((r - 1) * np.log(x) - x**2 / 2 - math.lgamma(r / 2) - (r / 2 - 1) * LOG2)
        s = spread * x
        kept = 1 - self.l1 / s
        m = hats.m * float(p @ (x**2 * kept)) / A / r  # E u·u* = m̂ E(γ·γ h)/(m̂² + q̂)
        q = float(p @ (s - self.l1) ** 2) / A**2 / r
        V = float(p @ (r - (r - 1) * self.l1 / s)) / A / r
        return ScalarOrder.of_overlaps(m, q, V)


def problem_of(record: dict[str, Any]) -> tuple[Teacher, ERM]:
    teacher = Teacher(record["k"], noise=record["noise"], features=record["features"])
    if record.get("penalty"):
        return teacher, ERM(record["loss"], penalty=record["penalty"])
    return teacher, ERM(record["loss"], record["ridge"] or 0.0)


def other_route(record: dict[str, Any], point: Any, seed: int) -> dict[str, float]:
    """Error, training error and training loss with their uncertainties, from near a point."""
    teacher, spec = problem_of(record)
    loss = spec.loss
    if not record.get("penalty"):
        loss = loss_at_ridge(loss, spec.ridge, teacher, point.alpha)
    problem = erm_sides(teacher, loss, point.ridge, point.alpha)
    if record.get("penalty"):
        net = as_penalty(record["penalty"])
        weights = PenaltySide(PlainNet(net.l1, net.l2), teacher.features, teacher.row)
        problem = Problem(problem.fields, weights)
    system, k = equations(problem), teacher.n_classes
    theta = np.log([point.tau, point.q, point.V])
    unseen = 0.0
    if k <= 3:
        averaging = lattice(problem, seed)
    elif Sums.serves(loss, problem.channel):
        place = Points().place, loss, problem.channel, k, system.law(theta)
        with patch.object(points, "SEED", seed):
            level = 4 if k <= 6 else 3 if k <= 20 else 2
            coarse, fine = (place[0](*place[1:], each) for each in (0, level))
        averaging = lambda law, n: (fine if n == REPLICATES else coarse)(law)  # noqa: E731
    else:
        log2_points = 14 if k <= 5 else 13 if k <= 8 else 12 if k <= 20 else 10
        averaging = drawn(problem, seed, log2_points)
        unseen = 7 / (REPLICATES * 2**log2_points)  # e⁻⁷: as often none of n samples is mistaken

    def means(theta: Array) -> Array:
        mean = averaging(system.law(theta), FEW).mean()
        return np.concatenate([system.residual(theta, mean)[:, 0], mean.loss, mean.error])

    step = 3e-3
    columns = []
    for i in range(3):
        shift = step * np.eye(3)[i]
        columns.append((means(theta + shift) - means(theta - shift)) / (2 * step))
    slopes = np.stack(columns, 1)
    J = slopes[:3]
    for _ in range(8):
        found = averaging(system.law(theta), REPLICATES)
        each, mean = (system.residual(theta, a) for a in (found, found.mean()))
        move = np.linalg.solve(J, -mean)[:, 0]
        apart = np.linalg.solve(J, -each)
        spread = apart.std(1, ddof=1) / math.sqrt(REPLICATES)
        if (np.abs(move) <= 0.05 * spread + 1e-12).all():
            break
        theta = theta + np.clip(move, -0.5, 0.5)
    else:
        return {"status": "no root"}  # type: ignore[dict-item]
    t = student_quantile(REPLICATES, 0.998) / math.sqrt(REPLICATES)  # of hundreds of numbers

    def error(x: float) -> float:
        return float(error_on_labels(problem.channel, math.exp(x), k))

    bias = float(apart.var(1).max()) / REPLICATES
    width = t * float(apart[0].std(ddof=1)) + bias
    values = slopes[3:] @ apart + np.stack([found.loss, found.error])
    spread = t * values.std(1, ddof=1) + 2 * bias * np.abs(values.mean(1))
    if Sums.serves(loss, problem.channel) and k > 3 and not found.error.any():
        unseen = 7 / (REPLICATES * 2 ** Points.log2_points[level])  # none is placed for mistakes
    spread[1] += unseen
    value = error(theta[0])
    answer = {
        "generalisation_error": value,
        "uncertainty": max(abs(error(theta[0] + s * width) - value) for s in (-1, 1)) + 1e-13,
        "training_error": float(found.error.mean()),
        "training_error_uncertainty": float(spread[1]) + 1e-13,
        "training_loss": float(found.loss.mean()),
        "training_loss_uncertainty": float(spread[0]) + 1e-13,
    }
    if loss.scale_free or loss.name == "square":
        drop = ("training_loss", "training_loss_uncertainty")
        answer = {name: x for name, x in answer.items() if name not in drop}
    return answer
