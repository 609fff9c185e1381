"""Finite instances of empirical risk minimisation against the large-dimension theory."""

from __future__ import annotations

import math

import numpy as np
import pytest

from polyceptron.experiments.simulate_erm import run_erm
from polyceptron.model import ERM, Teacher
from polyceptron.theory import curve_rows

D, INSTANCES = 250, 16
BIAS = 4 / D  # corrections of order 1/d, relative
CASES = [
    (2, "cross-entropy", 0.5, 1.5),
    (3, "cross-entropy", 0.1, 2.0),
    (3, "square", 1.0, 2.0),
    (3, "square", 0.2, 0.7),
    (3, "max-margin", 0.0, 3.0),
    (4, "square", 1.0, 2.0),
]


@pytest.mark.parametrize(("k", "loss", "ridge", "alpha"), CASES)
def test_mean_of_instances_meets_theory(k, loss, ridge, alpha):
    teacher = Teacher(k)
    theory = curve_rows(teacher, ERM(loss, ridge), [alpha])[0]
    rows = [run_erm(teacher, loss, [ridge], alpha, D, seed)[0] for seed in range(INSTANCES)]
    for name in ("m", "q", "generalisation_error", "training_loss"):
        values = np.array([row[name] for row in rows])
        spread = values.std(ddof=1) / math.sqrt(INSTANCES)
        allowed = 4 * spread + BIAS * abs(theory[name]) + theory.get("uncertainty", 0.0)
        assert abs(values.mean() - theory[name]) < allowed, name


def test_a_wrong_ridge_would_be_noticed():
    theory = curve_rows(Teacher(3), ERM("cross-entropy", 0.2), [2.0])[0]
    rows = [
        run_erm(Teacher(3), "cross-entropy", [0.1], 2.0, D, seed)[0] for seed in range(INSTANCES)
    ]
    values = np.array([row["q"] for row in rows])
    spread = values.std(ddof=1) / math.sqrt(INSTANCES)
    assert abs(values.mean() - theory["q"]) > 4 * spread + BIAS * theory["q"]
