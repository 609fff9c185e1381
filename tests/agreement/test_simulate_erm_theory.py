"""Finite instances of empirical risk minimisation against the large-dimension theory."""

from __future__ import annotations

from functools import cache

import pytest
from tests.fits import run_erm

from polyceptron.numerics.averages import Average
from polyceptron.problem import ERM, Teacher
from polyceptron.questions.curve_rows import curve_rows

pytestmark = pytest.mark.slow

D, INSTANCES = 200, 10
BIAS = 4 / D  # corrections of order 1/d, relative
CASES = [
    (2, "cross-entropy", 0.5, 1.5),
    (3, "cross-entropy", 0.1, 2.0),
    (3, "square", 1.0, 2.0),
    (3, "max-margin", 0.0, 3.0),
    (4, "square", 1.0, 2.0),
]


@cache
def instances(teacher, estimator, alpha):
    return [run_erm(teacher, [estimator], alpha, D, seed)[0] for seed in range(INSTANCES)]


@pytest.mark.parametrize(("k", "loss", "ridge", "alpha"), CASES)
def test_mean_of_instances_meets_theory(k, loss, ridge, alpha):
    teacher = Teacher(k)
    theory = curve_rows(teacher, ERM(loss, ridge), [alpha])[0]
    rows = instances(teacher, ERM(loss, ridge), alpha)
    for name in ("m", "q", "generalisation_error", "training_loss"):
        found = Average.of(row[name] for row in rows)
        allowed = 4 * found.standard_error + BIAS * abs(theory[name])
        allowed += theory.get("uncertainty", 0.0)
        assert abs(found.mean - theory[name]) < allowed, name


def test_a_wrong_ridge_would_be_noticed():
    theory = curve_rows(Teacher(3), ERM("cross-entropy", 0.2), [2.0])[0]
    found = Average.of(row["q"] for row in instances(Teacher(3), ERM("cross-entropy", 0.1), 2.0))
    assert abs(found.mean - theory["q"]) > 4 * found.standard_error + BIAS * theory["q"]


@pytest.mark.parametrize(
    ("noise", "loss", "ridge"),
    [
        ("gaussian:0.25", "square", "optimal"),
        ("softmax:2", "cross-entropy", 0.3),
        ("flips:0.1", "square", "optimal"),
        ("flips:0.1", "cross-entropy", 0.3),
    ],
)
def test_noisy_instances_meet_the_theory_of_their_noise(noise, loss, ridge):
    teacher = Teacher(3, noise=noise)
    rows = instances(teacher, ERM(loss, ridge), 2.0)
    theory = curve_rows(teacher, ERM(loss, ridge), [2.0])[0]
    clean = curve_rows(Teacher(3), ERM(loss, ridge), [2.0])[0]
    for name in ("m", "q", "generalisation_error", "clean_error", "training_loss"):
        found = Average.of(row[name] for row in rows)
        allowed = 4 * found.standard_error + BIAS * abs(theory[name])
        assert abs(found.mean - theory[name]) < allowed, name
        if name == "generalisation_error":  # the control: without noise it would not be met
            assert abs(found.mean - clean[name]) > allowed
