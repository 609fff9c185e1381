"""The table of ±1 weights: a part made again, other rules, what a row can tell in all, limits."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pytest

from polyceptron.numerics.estimate import estimate_from_replicates
from polyceptron.problem import Teacher, as_prior, finite_prior
from polyceptron.sides.weights.finite_rows import finite_row_variance
from polyceptron.sides.weights.point_rows import point_variance
from polyceptron.sides.weights.row_differences import row_entropy
from polyceptron.sides.weights.sign_table import (
    fitted,
    is_sign,
    leading,
    limit,
    sign_moments,
    sign_table,
    table_rows,
)
from polyceptron.theory.bayes.channel_table import channel_table
from polyceptron.theory.bayes.fixed_points import fixed_points
from polyceptron.theory.bayes.solution_curve import curve_of
from polyceptron.theory.bayes.transitions import transitions
from sign_rows import made, nodes, row_lattice_variance

SIGNS = as_prior("rademacher")


@pytest.mark.parametrize(
    "prior", [SIGNS, as_prior("ternary"), finite_prior([-2, 0, 1], [0.2, 0.4, 0.4])]
)
def test_the_lattice_reproduces_the_sum_over_points(prior) -> None:
    for q_hat in (0.01, 1.0, 6.0):
        exact = point_variance(Teacher(3, prior), q_hat)
        found, missing = row_lattice_variance(prior, 3, q_hat, digits=20, dropped=1e-16)
        assert found == pytest.approx(exact, rel=3e-9)
        assert missing < 1e-8
        coarse, _ = row_lattice_variance(prior, 3, q_hat, digits=5)
        assert coarse != pytest.approx(exact, rel=1e-6)  # a control


@pytest.mark.parametrize(("k", "s"), [(4, 0.7), (4, 2.05), (4, 3.0), (5, 1.5), (5, 2.3), (7, 1.3)])
def test_a_part_made_again_is_the_table(k: int, s: float) -> None:
    exact, missing = row_lattice_variance(SIGNS, k, s * s, digits=13, dropped=1e-12)
    found = float(np.exp(sign_table(k).log_variance(np.array([s]))[0]))
    allowed = sign_table(k).error(s) + 1e-5 + missing
    assert found == pytest.approx(exact, rel=allowed)
    assert allowed < 2e-4


def test_rows_made_again_are_the_rows_kept() -> None:
    """The lattices of one node and the first samples, by the program that made the table."""
    at = nodes()[3]
    kept = {int(row[1]): row for row in table_rows() if row[0] == at}
    for _, k, v, error in islice(made(at), 5):
        if k <= 9:
            assert v == pytest.approx(kept[k][2], rel=1e-9)
            assert error == pytest.approx(kept[k][3], rel=0.1)
        else:  # the samples are of other averages now, and better ones
            assert abs(v - kept[k][2]) < 2.6 * np.hypot(error, kept[k][3])
            assert error < 0.5 * kept[k][3]
    assert np.unique(table_rows()[:, 0]).tolist() == nodes()


@pytest.mark.parametrize("k", [6, 10, 30, 100])
def test_sampled_rows_agree(k: int) -> None:
    for s in (1.0, 2.0):
        value, spread = estimate_from_replicates(
            finite_row_variance(SIGNS, k, s * s, 7 if k < 50 else 4)
        )
        found = float(np.exp(sign_table(k).log_variance(np.array([s]))[0]))
        assert abs(found - value) <= 1.5 * spread + sign_table(k).error(s) * found
        assert abs(1.05 * found - value) > 1.5 * spread  # such an error would be seen


@pytest.mark.parametrize("k", [4, 5, 7, 12, 40, 1000])
def test_in_the_end_a_row_has_told_its_entropy(k: int) -> None:
    """(r/2) ∫ v dq̂ = H, which the table knows nothing of."""
    x, weights = np.polynomial.legendre.leggauss(80)
    s = 4.5 * (x + 1)
    v = np.exp(sign_table(k).log_variance(s))
    told = (k - 1) * float((4.5 * weights * s) @ v)
    error = max(sign_table(k).error(float(here)) for here in s[s < 3])
    assert told == pytest.approx(row_entropy(Teacher(k, SIGNS)), rel=0.5 * error + 2e-6)


def test_a_value_left_out_is_found_again() -> None:
    """The fit in 1/k without the samples of one k, against them."""
    rows = table_rows()[table_rows()[:, 0] > 1.2]
    k = 17
    places, F, error = fitted(k, rows[rows[:, 1] != k])
    for s, _, v, spread in rows[rows[:, 1] == k]:
        i = int(np.argmin(np.abs(places - s)))
        here = math.exp(leading(k, np.array([s]))[0] + F[i] / k**2)
        assert abs(here - v) <= 3.5 * spread + error[i] / k**2 * v


def test_samples_of_many_classes_go_to_the_limit() -> None:
    """F at k = 12, 17 and 26, sampled, carried on to 1/k = 0 by a parabola that knows no limit."""
    rows = table_rows()
    for s in np.unique(rows[:, 0]):
        if not 1.2 < s < 1.45:  # the largest values, the smallest errors
            continue
        _, k, v, spread = rows[(rows[:, 0] == s) & (rows[:, 1] > 9)].T
        lead = np.array([leading(int(n), np.array([s]))[0] for n in k])
        shares = np.linalg.inv(np.stack([k**0, 1 / k, 1 / k**2], -1))[0]
        found = float(shares @ ((np.log(v) - lead) * k**2))
        allowed = 3 * float(np.linalg.norm(shares * spread / v * k**2)) + 0.05
        expected = float(limit(np.array([s]))[0])
        assert abs(found - expected) <= allowed
        assert abs(found) > allowed  # without the term of c₁ and the next it would be seen


def test_only_fair_signs_are_signs() -> None:
    assert is_sign(finite_prior([-1, 1], [0.5, 0.5]))
    assert not is_sign(finite_prior([-1.2, 0.8], [0.4, 0.6]))
    assert not is_sign(as_prior("ternary"))
    assert not is_sign(as_prior("gaussian"))


@pytest.mark.parametrize("k", [4, 7, 20, 100, 1000])
def test_transitions_of_signs_at_any_k(k: int) -> None:
    found = transitions(Teacher(k, SIGNS), 1e-3 if k <= 100 else 1e-2)
    assert found.status == "ok"
    curve = curve_of(Teacher(k, SIGNS))
    assert curve.n_replicates == 0
    (below,) = fixed_points(Teacher(k, SIGNS), 0.99 * found.alpha_it, branch="optimal")
    (above,) = fixed_points(Teacher(k, SIGNS), 1.01 * found.alpha_it, branch="optimal")
    assert below.generalisation_error > 0.1
    assert above.generalisation_error == 0


def test_transitions_of_a_thousand_classes_are_those_of_independent_signs() -> None:
    """Without the common shift, which is one unknown in a thousand: α_IT and α_algo by hand."""
    k, s = 1000, np.linspace(0.01, 3.0, 3000)
    m = sign_moments(s)[0]
    information, entropy = channel_table(Teacher(k).channel, k)(m)
    alpha = s**2 / information
    told = np.concatenate([[0.0], np.cumsum(0.5 * (s[1:] * m[1:] + s[:-1] * m[:-1]) * np.diff(s))])
    phi = 0.5 * k * s**2 * m - k * told + alpha * entropy
    fold = int(alpha.argmax())
    lead = phi[: fold + 1] + k * math.log(2)
    crossing = int(np.flatnonzero(lead > 0)[-1])
    found = transitions(Teacher(k, SIGNS))
    assert found.alpha_algo == pytest.approx(alpha[fold], rel=3e-3)
    assert found.alpha_it == pytest.approx(alpha[crossing], rel=3e-3)
    # Slower than ln ln k on the scale k/ln k, and not yet there.
    scaled = [transitions(Teacher(n, SIGNS)).alpha_it * math.log(n) / n for n in (100, 1000)]
    assert 0 < scaled[1] - scaled[0] < math.log(math.log(1000) / math.log(100))


def test_many_classes_at_the_scale_of_their_limit() -> None:
    """k = 1000: αε → (k − 1)C₂ for plentiful data; I near 2 ln k/k before."""
    k = 1000
    (two,) = fixed_points(Teacher(2), 1e6, branch="optimal")
    (many,) = fixed_points(Teacher(k), 1e7, branch="optimal")
    assert many.alpha * many.generalisation_error / (k - 1) == pytest.approx(
        two.alpha * two.generalisation_error, rel=2e-3
    )
    shares = []
    for n in (100, 300, 1000):
        information, _ = channel_table(Teacher(n).channel, n)(np.array([0.5]))
        shares.append(n * float(information[0]) / (2 * math.log(n)))
    assert 0.7 < shares[0] < shares[1] < shares[2] < 1


def test_labels_of_chance_are_separated_up_to_k_over_two_ln_k() -> None:
    """α_s = r/E dist²: the common level c of label and best competitors, one sample at a time."""
    k, n = 1000, 1500
    rng = np.random.default_rng(0)
    own, competitors = rng.standard_normal(n), -np.sort(-rng.standard_normal((n, k - 1)), axis=1)
    levels = (own[:, None] + np.cumsum(competitors, axis=1)) / np.arange(2, k + 1)
    lowered = np.argmax(
        np.append(competitors[:, 1:] <= levels[:, :-1], np.full((n, 1), True), 1), 1
    )
    c = levels[np.arange(n), lowered]
    distance = (c - own) ** 2 + (np.maximum(competitors - c[:, None], 0) ** 2).sum(1)
    distance[own >= competitors[:, 0]] = 0
    sampled = (k - 1) / distance.mean()
    grid = np.linspace(0.5, 4, 701)
    g = np.linspace(-8, 9, 1701)
    above = np.maximum(g - grid[:, None], 0)
    weight = np.exp(-0.5 * g**2) / math.sqrt(2 * math.pi) * (g[1] - g[0])
    at = int(np.argmin(np.abs(k * above @ weight - grid)))
    level = float(grid[at])
    expected = k / (level**2 + 1 + k * float(above[at] ** 2 @ weight))
    assert sampled == pytest.approx(expected, rel=0.08)
    assert 1 < sampled * 2 * math.log(k) / k < 2
