"""Every member of every registry, through one harness; and controls that must fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.registry.harness import (
    check_channel,
    check_estimator,
    check_loss_member,
    check_penalty,
    check_prior,
)

from polyceptron.errors import InvalidInput
from polyceptron.numerics.orthant import Orthant
from polyceptron.problem import (
    CHANNELS,
    ESTIMATORS,
    LOSSES,
    PENALTIES,
    PRIORS,
    SGD,
    CrossEntropy,
    GaussianNoise,
)
from polyceptron.problem.penalties import Ridge
from polyceptron.problem.priors import GaussianPrior, Tilted
from polyceptron.students.sgd import SGDStudent


def named(members: list[Any]) -> Any:
    return {"argvalues": members, "ids": [member.name for member in members]}


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("channel", **named(CHANNELS.examples()))
def test_channel(channel: Any, k: int) -> None:
    check_channel(channel, k)
    assert CHANNELS.read(channel.name) == channel


@pytest.mark.parametrize("channel", **named(CHANNELS.examples()))
def test_channel_behind_features_that_hide_a_share(channel: Any) -> None:
    """The same identities, and the labels that the whole fields would have given."""
    behind = channel.behind(0.3)
    check_channel(behind, 3)
    rng, z, n = np.random.default_rng(1), np.array([0.9, -0.4, 0.2]), 200_000
    whole = np.sqrt(0.7) * z + np.sqrt(0.3) * rng.standard_normal((n, 3))
    counts = np.bincount(channel.sample(whole, rng), minlength=3) / n
    (chances,) = behind.chances(z[None])
    assert np.all(np.abs(counts - chances) < 4.5 * np.sqrt(chances * (1 - chances) / n))
    assert np.abs(counts - channel.chances(z[None])[0]).max() > 0.02  # what is hidden shows


@pytest.mark.parametrize("prior", **named(PRIORS.examples()))
def test_prior(prior: Any) -> None:
    check_prior(prior)


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("loss", **named(LOSSES.examples()))
def test_loss(loss: Any, k: int) -> None:
    check_loss_member(loss, k)


@pytest.mark.parametrize("penalty", **named(PENALTIES.examples()))
def test_penalty(penalty: Any) -> None:
    check_penalty(penalty)


@pytest.mark.parametrize("estimator", **named(ESTIMATORS.examples()))
def test_estimator(estimator: Any) -> None:
    check_estimator(estimator)


# Controls: a member with one fault must not pass.


class DoubledScore(GaussianNoise):
    def utility(self, omega: Any, label: Any, variance: Any, order: int) -> Orthant:
        found = super().utility(omega, label, variance, order)
        return Orthant(found.log_z, 2 * found.score, found.diagonal)


class WrongLabels(GaussianNoise):
    def sample_utility(self, fields: Any, rng: Any) -> Any:
        return fields + 0.6 * rng.standard_normal(fields.shape)


class WrongVariance(GaussianPrior):
    def tilted(self, b: Any, precision: Any) -> Tilted:
        found = super().tilted(b, precision)
        return Tilted(found.log_g, found.mean, 0.99 * found.variance)


class WrongSamples(GaussianPrior):
    def sample(self, rng: Any, size: Any) -> Any:
        return 1.02 * rng.standard_normal(size)


class WrongProx(CrossEntropy):
    name = "wrong-prox"

    def prox(self, omega: Any, y: Any, V: Any) -> Any:
        return super().prox(omega, y, 1.01 * np.asarray(V))


class DoubledGradient(CrossEntropy):
    def gradient(self, z: Any, y: Any) -> Any:
        return 2 * super().gradient(z, y)


class WrongRidge(Ridge):
    def law(self, hats: Any, spectrum: Any, row: Any) -> Any:
        law = super().law(hats, spectrum, row)
        return replace(law, q=1.02 * law.q)


@pytest.mark.parametrize("channel", [DoubledScore(0.25), WrongLabels(0.25)])
def test_a_wrong_channel_is_seen(channel: Any) -> None:
    with pytest.raises(AssertionError):
        check_channel(channel, 3)


@pytest.mark.parametrize("prior", [WrongVariance(), WrongSamples()])
def test_a_wrong_prior_is_seen(prior: Any) -> None:
    with pytest.raises(AssertionError):
        check_prior(prior)


def test_a_wrong_theory_of_an_estimator_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    theory_of_another_rate = SGDStudent(SGD(rate=30.0)).rows
    monkeypatch.setattr(SGDStudent, "rows", lambda self, *given: theory_of_another_rate(*given))
    with pytest.raises(AssertionError):
        check_estimator(SGD(rate=1.0))


def test_a_wrong_prox_is_seen() -> None:
    with pytest.raises(AssertionError):
        check_loss_member(WrongProx(), 3)


def test_a_doubled_gradient_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not the derivative"):
        check_loss_member(DoubledGradient(), 3)


def test_a_wrong_penalty_is_seen() -> None:
    with pytest.raises(AssertionError):
        check_penalty(WrongRidge(0.3))
