"""A row is what its own α says: in any list, order or company it is the row computed alone."""

import math
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyceptron import ERM, Mixture, Perceptron, Teacher, separability, transitions
from polyceptron.problem import ESTIMATORS, BayesOptimal
from polyceptron.questions.curve_rows import curve_rows

pytestmark = pytest.mark.slow

TEACHERS = {
    "k=2": Teacher(2, "rademacher"),
    "k=3": Teacher(3, "rademacher"),
    "k=3 flips": Teacher(3, "rademacher", "flips:0.1"),
    "k=3 gaussian": Teacher(3),
    "k=3 steps": Teacher(3, "ternary", "gaussian:0.02"),
    "k=4": Teacher(4, "rademacher"),
    "k=10": Teacher(10, "rademacher"),
    "perceptron flips": Perceptron("rademacher", "flips:0.1"),
}
AWAY = (0.0, 1e-15, -1e-15, 1e-12, -1e-12, 1e-7, -1e-7, 1e-3, -1e-3)


@cache
def candidates(name: str) -> tuple[float, ...]:
    """α at the transitions as returned, beside them, and anywhere."""
    found = transitions(TEACHERS[name])
    special = [a for a in (found.alpha_it, found.alpha_algo) if a is not None]
    near = [a * (1 + x) for a in special for x in AWAY]
    return tuple(sorted({*near, 0.0, 1e-9, 0.3, 1.0, 2.0, 3.0, 40.0, 1e5}))


@cache
def alone(name: str, branch: str, alpha: float) -> dict:
    return curve_rows(TEACHERS[name], BayesOptimal(), [alpha], branch=branch)[0]


@pytest.mark.parametrize("branch", ["optimal", "amp"])
@pytest.mark.parametrize("name", TEACHERS)
@settings(max_examples=4)
@given(data=st.data())
def test_a_row_does_not_depend_on_its_company(name, branch, data):
    alphas = data.draw(st.lists(st.sampled_from(candidates(name)), min_size=2, max_size=12))
    compare(name, branch, alphas)


@pytest.mark.parametrize("branch", ["optimal", "amp"])
@pytest.mark.parametrize("name", TEACHERS)
def test_all_rows_at_once_are_the_rows_alone(name, branch):
    compare(name, branch, candidates(name))


def compare(name, branch, alphas):
    together = curve_rows(TEACHERS[name], BayesOptimal(), list(alphas), branch=branch)
    for alpha, row in zip(alphas, together, strict=True):
        lone = alone(name, branch, alpha)
        assert row["status"] == lone["status"], alpha
        gap = abs(row["generalisation_error"] - lone["generalisation_error"])
        if lone["status"] == "undecided":  # the interval reaches to the other branch: be stricter
            assert gap < 1e-6, alpha
        else:
            assert gap <= row["uncertainty"] + lone["uncertainty"] + 1e-15, alpha
        assert math.isclose(row["q"], lone["q"], rel_tol=1e-6, abs_tol=1e-12), alpha
        assert 0 <= row["q"] <= 1, alpha


STUDENTS = {name: name for name in ESTIMATORS.choices if name != "bayes"} | {
    "cross-entropy, no ridge": ERM("cross-entropy", 0.0),
    "cross-entropy, best ridge": ERM("cross-entropy", "optimal"),
    "square, no ridge": ERM("square", 0.0),
}
NOISY = {2: Teacher(2, noise="flips:0.1"), 3: Teacher(3, noise="gaussian:0.3")}
NUMBERS = {
    "generalisation_error": "uncertainty",
    "training_error": "training_error_uncertainty",
    "training_loss": "training_loss_uncertainty",
}
threshold = cache(lambda teacher: separability(teacher).alpha_s)
BESIDE = (-0.02, -1e-3, -1e-6, 1e-6, 1e-3, 0.02)


@pytest.mark.parametrize("k", NOISY)
@pytest.mark.parametrize("name", STUDENTS)
@settings(max_examples=1)
@given(data=st.data())
def test_a_row_of_any_estimator_does_not_depend_on_its_company(name, k, data):
    """On both sides of α_s, where weights without a ridge diverge, and of α = 1, the square's."""
    limit = threshold(NOISY[k])
    alphas = [*(limit * (1 + x) for x in BESIDE), 0.3, 1.0, 1 + 1e-6, 20.0]
    company = data.draw(st.permutations(alphas))[: data.draw(st.integers(2, 5))]
    compare_students(NOISY[k], STUDENTS[name], company)


MANY = {4: Teacher(4, noise="flips:0.1"), 5: Teacher(5, noise="gaussian:0.3")}


@pytest.mark.parametrize(
    ("name", "k"),
    [
        ("cross-entropy", 5),
        ("cross-entropy, no ridge", 5),
        ("max-margin", 5),
        ("hinge", 4),
    ],
)
@settings(max_examples=1)
@given(data=st.data())
def test_nor_do_rows_of_more_classes(name, k, data):
    """On both sides of α_s, close to it and far away."""
    limit = threshold(MANY[k])
    company = data.draw(st.permutations([limit * (1 - 1e-2), limit * (1 + 2e-2), 20.0]))[:2]
    compare_students(MANY[k], STUDENTS[name], company)


@pytest.mark.parametrize("shares", [(0.8, 0.2), (0.5, 0.3, 0.2), (0.4, 0.3, 0.2, 0.1)])
def test_nor_do_rows_of_unequal_classes(shares):
    """To the last digit: no row begins where another ended."""
    clusters, student = Mixture(shares, separation=2.0), ERM("cross-entropy", 0.1, intercept=True)
    together = curve_rows(clusters, student, [3.0, 1.0])
    assert together == [curve_rows(clusters, student, [alpha])[0] for alpha in (3.0, 1.0)]


def compare_students(teacher, student, company):
    for alpha, row in zip(company, curve_rows(teacher, student, company), strict=True):
        lone = curve_rows(teacher, student, [alpha])[0]
        assert row["status"] == lone["status"], alpha
        for number, bar in NUMBERS.items():
            x, y = (float(r.get(number, math.nan)) for r in (row, lone))
            assert math.isnan(x) == math.isnan(y), (alpha, number)
            spread = sum(float(r.get(bar, 0.0)) for r in (row, lone))
            assert math.isnan(x) or abs(x - y) <= spread + 1e-15, (alpha, number)
