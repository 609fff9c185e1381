"""Questions without a finite answer end in a status or a sentence, never in a traceback."""

import math

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.errors import InvalidInput
from polyceptron.questions.curve_rows import curve_rows
from polyceptron.theory.erm.unequal_classes import population_point


@pytest.mark.parametrize("noise", ["gaussian:0.008595", "softmax:3", "flips:0.1"])
def test_hard_margins_have_no_tail_where_labels_are_noisy(noise):
    with pytest.raises(InvalidInput, match="max-margin ends at alpha_s"):
        pc.asymptotics(pc.Teacher(4, noise=noise), pc.ERM("max-margin"))


def test_hard_margins_have_no_tail_on_a_mixture():
    with pytest.raises(InvalidInput, match="max-margin ends at alpha_s"):
        pc.asymptotics(pc.Mixture((0.5, 0.5), separation=2.0), pc.ERM("max-margin"))


@pytest.mark.parametrize("shares", [(0.6, 0.3, 0.1), (0.9, 0.1)])
def test_scores_of_a_biased_bayes_row_are_its_own(shares):
    teacher = pc.Teacher(len(shares), shares=shares)
    (scored,) = curve_rows(teacher, "bayes", [1.0], scores=True)
    (plain,) = curve_rows(teacher, "bayes", [1.0])
    assert scored == plain
    assert math.isfinite(scored["test_loss"])


def test_a_search_that_meets_a_singular_matrix_says_not_converged():
    shares = tuple(np.arange(1, 11) / 55)
    weights = tuple(np.geomspace(0.15, 7.8, 10))
    student = pc.ERM("smoothed:0.39", 6e-5, class_weight=weights)
    point = population_point(pc.Mixture(shares, separation=2.0), student, 1e3)
    assert point.status == "not-converged"
    assert math.isnan(point.generalisation_error)
