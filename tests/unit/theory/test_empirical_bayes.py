"""Empirical Bayes: what the evidence chooses is right where the truth is in the family."""

from __future__ import annotations

import pytest

import polyceptron as pc
from polyceptron.theory.bayes.fixed_points import fixed_points
from polyceptron.theory.mismatched import mismatched_point


@pytest.mark.parametrize(
    ("k", "noise", "family"),
    [
        (2, "gaussian:0.5", "gaussian"),
        (2, "softmax:2", "softmax"),
        (3, "flips:0.1", "flips"),
        (3, "gaussian:0.5", "gaussian"),
    ],
)
def test_the_true_noise_is_chosen_and_nothing_is_lost(k: int, noise: str, family: str) -> None:
    """By Gibbs the mean of ln P(labels | noise) is largest at the noise that drew them."""
    teacher = pc.Teacher(k, noise=noise)
    found = pc.empirical_bayes(teacher, 3.0, family)
    true_number = float(noise.split(":")[1])
    for choice in (found.by_evidence, found.by_test_loss):
        assert float(choice.noise.split(":")[1]) == pytest.approx(true_number, rel=0.01)
    best = fixed_points(teacher, 3.0)[0]
    for choice in (found.by_evidence, found.by_error, found.by_test_loss):
        assert choice.generalisation_error == pytest.approx(best.generalisation_error, abs=2e-6)
    assert found.lost_error <= found.lost_error_uncertainty + 1e-7


def test_the_limit_without_noise_is_chosen_for_labels_without_noise() -> None:
    found = pc.empirical_bayes(pc.Teacher(2), 2.0)
    assert (found.by_evidence.noise, found.by_error.noise) == ("none", "none")
    assert not found.by_evidence.inside


def test_a_wrong_family_costs_little_and_prefers_too_little_noise() -> None:
    """Flips under Gaussian noise: brute force over a grid sees the same two minima."""
    teacher = pc.Teacher(2, noise="flips:0.1")
    found = pc.empirical_bayes(teacher, 8.0)
    chosen, best = (
        float(choice.noise.removeprefix("gaussian:"))
        for choice in (found.by_evidence, found.by_error)
    )
    assert chosen < best
    assert 0 < found.lost_error < 0.01 * found.by_error.generalisation_error
    grid = [0.3, 0.5, 0.66, 0.9, 1.2, 1.55, 2.0, 3.0]
    points = [mismatched_point(teacher, pc.MismatchedBayes(f"gaussian:{v}"), 8.0) for v in grid]
    by_evidence = max(range(len(grid)), key=lambda i: points[i].evidence)
    by_error = min(range(len(grid)), key=lambda i: points[i].generalisation_error)
    assert (grid[by_evidence], grid[by_error]) == (0.66, 1.55)
    assert chosen == pytest.approx(0.66, abs=0.1)
    assert best == pytest.approx(1.55, abs=0.2)


def test_wrong_input_gets_a_sentence() -> None:
    with pytest.raises(pc.InvalidInput, match=r"'cauchy'.*gaussian, softmax, flips"):
        pc.empirical_bayes(pc.Teacher(2), 1.0, "cauchy")
    with pytest.raises(pc.InvalidInput, match="needs samples"):
        pc.empirical_bayes(pc.Teacher(2), 0.0)
    with pytest.raises(pc.InvalidInput, match="alpha"):
        pc.empirical_bayes(pc.Teacher(2), -1.0)
    with pytest.raises(pc.InvalidInput, match="alike"):
        pc.empirical_bayes(pc.Mixture((0.5, 0.5), separation=2.0), 1.0)
