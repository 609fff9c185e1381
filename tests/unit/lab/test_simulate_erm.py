"""One instance of empirical risk minimisation as rows."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fits import run_erm

import polyceptron as pc
from polyceptron.errors import InvalidInput
from polyceptron.fit.erm import fit_erm
from polyceptron.fit.overlaps import overlaps
from polyceptron.problem import Perceptron, Teacher
from polyceptron.rows import COLUMNS


def test_rows_hold_the_fit_of_the_stated_seed():
    teacher = Teacher(3)
    rows = run_erm(teacher, [pc.ERM("cross_entropy", r) for r in (0.1, 1.0)], 2.0, 60, seed=4)
    data = teacher.sample(120, 60, seed=4)
    for row, ridge in zip(rows, [0.1, 1.0], strict=True):
        assert set(row) <= set(COLUMNS)
        fit = fit_erm(data.X, data.y, "cross-entropy", ridge)
        order = overlaps(fit.weights, data.weights)
        assert row["m"] == pytest.approx(order.m, rel=1e-6)
        assert row["q"] == pytest.approx(order.q, rel=1e-6)
        assert row["training_loss"] == pytest.approx(fit.training_loss, rel=1e-6)
        assert (row["source"], row["estimator"], row["ridge"]) == ("erm", "cross-entropy", ridge)
        assert (row["n_samples"], row["dimension"], row["seed"]) == (120, 60, 4)
        assert row["status"] == "ok"


@pytest.mark.parametrize("name", ["cross-entropy", "square", "max-margin"])
def test_a_test_set_agrees_with_the_exact_error(name):
    ridges = [0.0] if name == "max-margin" else [0.5]
    exact = run_erm(Teacher(3), [pc.ERM(name, r) for r in ridges], 1.5, 80, seed=1)[0]
    tested = run_erm(
        Teacher(3), [pc.ERM(name, r) for r in ridges], 1.5, 80, seed=1, test_samples=40_000
    )[0]
    gap = exact["generalisation_error"] - tested["generalisation_error"]
    assert abs(gap) < 4 * tested["uncertainty"]
    assert 0 < tested["uncertainty"] < 0.01
    assert exact["uncertainty"] < 1e-6


def test_the_perceptron_is_a_teacher_too():
    row = run_erm(Perceptron(), [pc.ERM("square", 1.0)], 3.0, 50, seed=0)[0]
    assert row["model"] == "perceptron"
    assert 0 < row["generalisation_error"] < 0.5


def test_no_samples_is_a_sentence():
    with pytest.raises(InvalidInput, match="no sample"):
        run_erm(Teacher(3), [pc.ERM("square", 1.0)], 0.001, 50, seed=0)
    with pytest.raises(InvalidInput, match="test_samples"):
        run_erm(Teacher(3), [pc.ERM("square", 1.0)], 1.0, 50, seed=0, test_samples=0)


def test_same_seed_same_rows():
    once, again = (run_erm(Teacher(4), [pc.ERM("square", 0.3)], 1.0, 40, seed=7) for _ in range(2))
    assert once == again
    other = run_erm(Teacher(4), [pc.ERM("square", 0.3)], 1.0, 40, seed=8)
    assert not np.isclose(once[0]["m"], other[0]["m"])
