"""The identities that every registered channel, prior, loss and penalty must satisfy.

A new member is tested by being registered: the tests beside this file run over the registries. Each
function raises AssertionError where an identity is broken, which `test_controls` shows.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from typing import Any

import numpy as np
import pytest

import polyceptron.report.explorer.settings  # before anything of a test's own is registered
from polyceptron.problem import ESTIMATORS, LOSSES, PENALTIES, PRIORS, Teacher
from polyceptron.problem.losses.checks import check_loss, check_symmetric
from polyceptron.problem.order import Conjugates
from polyceptron.problem.priors import GaussianPrior
from polyceptron.problem.priors.prior import WeightsRow
from polyceptron.problem.spectrum import isotropic
from polyceptron.students import student_of

STEP = 1e-5
SAMPLES = 100_000


def close(a: Any, b: Any, tol: float) -> None:
    """|a − b| ≤ tol(1 + |b|), everywhere."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    gap = np.abs(a - b) / (1 + np.abs(b))
    assert np.all(gap <= tol), f"off by {float(np.max(gap)):.3g}, allowed {tol:g}"


def slopes(function: Any, x: Any) -> Any:
    """Central differences of function(x) along the last axis of x, stacked last."""
    steps = STEP * np.eye(x.shape[-1])
    return np.stack([(function(x + s) - function(x - s)) / (2 * STEP) for s in steps], -1)


def check_channel(channel: Any, k: int) -> None:
    """Normalisation, derivatives, the information identity, samples, gaps, the label's signal."""
    rng = np.random.default_rng(0)
    omega = 1.3 * rng.standard_normal((5, k))
    v = 0.4
    found = [channel.posterior(omega, label, v) for label in range(k)]
    Z = np.stack([np.exp(f.log_z) for f in found])
    close(Z.sum(0), 1.0, 1e-7)
    # The score has mean zero, and its second moment is the mean curvature (Bartlett).
    close(sum(z[:, None] * f.score for z, f in zip(Z, found, strict=True)), 0.0, 1e-7)
    squared = sum(z * (f.score**2).sum(-1) for z, f in zip(Z, found, strict=True))
    close(sum(z * f.curvature for z, f in zip(Z, found, strict=True)), squared, 1e-6)
    label = np.arange(5) % k
    one = channel.posterior(omega, label, v)
    close(one.score, slopes(lambda w: channel.posterior(w, label, v).log_z, omega), 2e-6)
    bend = slopes(lambda w: channel.posterior(w, label, v).score, omega)
    close(one.diagonal, -np.einsum("nhh->nh", bend), 2e-5)
    # Labels drawn at fields N(ω, v) have these probabilities.
    fields = omega[0] + math.sqrt(v) * rng.standard_normal((SAMPLES, k))
    counts = np.bincount(channel.sample(fields, rng), minlength=k) / SAMPLES
    spread = np.sqrt(Z[:, 0] * (1 - Z[:, 0]) / SAMPLES)
    assert np.all(np.abs(counts - Z[:, 0]) <= 4.5 * spread + 1e-12), (counts, Z[:, 0])
    # The same chance from gaps.
    gaps = np.sort(rng.uniform(-0.5, 2.0, (k - 1, 4)), axis=0)
    law = channel.label_law(gaps, v)
    lead = np.concatenate([np.zeros((1, 4)), -gaps]).T
    same = channel.posterior(lead, np.zeros(4, dtype=int), v)
    close(law.z, np.exp(same.log_z), 1e-7)
    close(law.slopes.T, -same.score[:, 1:] * np.exp(same.log_z)[:, None], 1e-7)
    # c = E[z_y − mean]/(k − 1), and the error of the rule itself on labels as drawn.
    z = rng.standard_normal((SAMPLES, k))
    drawn = channel.sample(z, rng)
    up = (z[np.arange(SAMPLES), drawn] - z.mean(1)) / (k - 1)
    assert abs(up.mean() - channel.signal(k)) <= 4.5 * up.std() / math.sqrt(SAMPLES)
    student = 0.8 * z + 0.6 * rng.standard_normal(z.shape)

    def clean(tau: Any) -> Any:
        from polyceptron.sides.generalisation import error_from_angle

        return error_from_angle(np.arctan2(1.0, tau), k)

    rate, wrong = float(channel.drawn_error(0.8 / 0.6, k, clean)), student.argmax(1) != drawn
    assert abs(wrong.mean() - rate) <= 4.5 * wrong.std() / math.sqrt(SAMPLES)


def check_prior(prior: Any) -> None:
    """Mean 0, variance 1, derivatives of ln g, samples, Nishimori, and the row of k classes."""
    rng = np.random.default_rng(0)
    start = prior.tilted(0.0, 0.0)
    close([start.log_g, start.mean, start.variance], [0.0, 0.0, 1.0], 1e-9)
    b = np.linspace(-3.0, 3.0, 13)[:, None] + 0.017
    tilted = prior.tilted(b[:, 0], 1.7)
    close(tilted.mean, slopes(lambda x: prior.tilted(x[..., 0], 1.7).log_g, b)[:, 0], 1e-7)
    close(tilted.variance, slopes(lambda x: prior.tilted(x[..., 0], 1.7).mean, b)[:, 0], 1e-6)
    w = prior.sample(rng, (SAMPLES,))
    for at, precision in ((0.6, 0.8), (-1.1, 2.0)):
        values = np.exp(at * w - 0.5 * precision * w**2)
        error = values.std() / math.sqrt(SAMPLES)
        assert abs(values.mean() - np.exp(prior.tilted(at, precision).log_g)) <= 4.5 * error
    # Seen as γ = Λw + √Λ ξ the posterior mean overlaps with the truth as with itself.
    seen = 1.5 * w + math.sqrt(1.5) * rng.standard_normal(SAMPLES)
    mean = prior.tilted(seen, 1.5).mean
    gap = mean * w - mean**2
    assert abs(gap.mean()) <= 4.5 * gap.std() / math.sqrt(SAMPLES)
    for k in (2, 3, 4):
        row, gamma = prior.row(k), 2 * rng.standard_normal((6, k))
        found = row.posterior(gamma, 1.3)
        close(found.mean, slopes(lambda g, row=row: row.posterior(g, 1.3).log_g, gamma), 1e-7)
        bend = slopes(lambda g, row=row: row.posterior(g, 1.3).mean, gamma)
        close(found.variance, np.trace(bend, axis1=1, axis2=2), 1e-6)
        plain = WeightsRow(prior, k).posterior(gamma, 1.3)
        for ours, theirs in zip(found, plain, strict=True):
            close(ours, theirs, 1e-9)
    assert PRIORS.read(prior.name) == prior


def check_loss_member(loss: Any, k: int) -> None:
    """Derivatives, optimality of the proximal point, its derivative, symmetry of the classes."""
    rng = np.random.default_rng(0)
    check_loss(loss, k)
    check_symmetric(loss, k)
    omega, y = 2 * rng.standard_normal((8, k)), np.arange(8) % k
    for V in (0.05, 0.8, 6.0):
        z = loss.prox(omega, y, V)
        f, trace = loss.denoise(omega, y, V)
        moved = (z - omega) / V
        close(f - f.mean(1, keepdims=True), moved - moved.mean(1, keepdims=True), 1e-7)
        here = ((z - omega) ** 2).sum(1) / (2 * V) + loss.value_at_prox(z, y)
        for _ in range(20):  # no point nearby is better; hard constraints: no allowed one
            other = z + 0.05 * rng.standard_normal(z.shape)
            there = ((other - omega) ** 2).sum(1) / (2 * V) + loss.value(other, y)
            assert np.all(there >= here - 1e-9)
        bend = slopes(lambda w, V=V: loss.prox(w, y, V), omega)
        along = bend.sum((1, 2)) / k
        close(trace, ((k - 1) - (np.trace(bend, axis1=1, axis2=2) - along)) / V, 2e-5)
    if loss.scale_free:
        close(loss.denoise(omega, y, 2.0)[0], loss.denoise(omega, y, 1.0)[0] / 2, 1e-12)
    order = rng.permutation(k)
    swapped = loss.prox(omega[:, order], np.argsort(order)[y], 0.8)
    close(swapped, loss.prox(omega, y, 0.8)[:, order], 1e-8)
    if loss.probabilities(omega) is not None:
        close(loss.probabilities(omega).sum(1), 1.0, 1e-12)
    assert type(LOSSES.read(loss.name)) is type(loss)


def check_penalty(penalty: Any) -> None:
    """The minimiser of its own objective, and the weights side against drawn weights."""
    rng = np.random.default_rng(0)
    d, k = 300_000, 3
    hats = Conjugates(1.4, 0.9, 0.7)
    u = rng.standard_normal((d, k))
    u -= u.mean(1, keepdims=True)
    noise = rng.standard_normal((d, k))
    noise -= noise.mean(1, keepdims=True)
    gamma = hats.m * u + math.sqrt(hats.q) * noise
    found = penalty.denoise(gamma, hats.V)
    bend = slopes(lambda g: penalty.denoise(g, hats.V).mean, gamma[:50])
    trace = np.trace(bend, axis1=1, axis2=2) - bend.sum((1, 2)) / k  # on class differences
    close(found.variance[:50], trace, 1e-6)
    law = penalty.law(hats, isotropic(), GaussianPrior().row(k))
    for sampled, exact in (
        ((found.mean * u).sum(1) / (k - 1), law.m),
        ((found.mean**2).sum(1) / (k - 1), law.q),
        (found.variance / (k - 1), law.V),
    ):
        assert abs(sampled.mean() - exact) <= 4.5 * sampled.std() / math.sqrt(d) + 1e-12
    assert PENALTIES.read(penalty.name) == penalty


def check_estimator(estimator: Any) -> None:
    """Its name; chance without data; and its theory against simulations in 200 dimensions."""
    assert ESTIMATORS.read(estimator.name).name == estimator.name
    teacher = Teacher(3)
    student = student_of(estimator)
    nothing_learned, theory = student.rows(teacher, [0.0, 2.0])
    close(nothing_learned["generalisation_error"], 2 / 3, 1e-9)
    runs, dimension = 8, 200
    errors = np.array(
        [
            student.simulate(teacher, 2.0, dimension, seed)[0]["generalisation_error"]
            for seed in range(runs)
        ]
    )
    allowed = 4.5 * errors.std(ddof=1) / math.sqrt(runs) + 2 / dimension + theory["uncertainty"]
    assert abs(errors.mean() - theory["generalisation_error"]) < allowed, (errors, theory)


def fresh_settings(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the explorer offers as it starts now: its menus are made once, by its own modules."""
    fresh: dict[str, Any] = {}
    for module in (polyceptron.report.explorer.members, polyceptron.report.explorer.settings):
        spec = module.__spec__
        assert spec is not None
        assert spec.loader is not None
        again = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, again)
        spec.loader.exec_module(again)
        fresh = vars(again)
    return fresh
