"""Scores of a student's probabilities at known order parameters (m, q, V), as columns of its row.

    test_loss           −E Σ_l t_l ln p_l
    brier               E Σ_l t_l ‖p − e_l‖²
    calibration_error   Σ_b w_b |a_b − c_b| over 15 even bins b of the confidence max p

with p the student's probabilities and t the true ones, given the student's fields ω ~ N(0, q) on a
fresh sample. Each has an uncertainty (`sides/probability_scores.py`).
"""

import math
from collections.abc import Iterable

import numpy as np

from polyceptron.numerics.estimate import Estimate
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import AnyTeacher
from polyceptron.rows import Row, make_row
from polyceptron.sides.fresh_scores import N_BINS
from polyceptron.sides.probability_scores import ProbabilityScores
from polyceptron.students import Student


def with_scores(teacher: AnyTeacher, student: Student, rows: Iterable[Row]) -> list[Row]:
    """Return the rows with the scores of the student's probabilities, where it has any.

    A row has none without data (q = 0), and where the fields have a direction but no scale. Rows of
    unequal classes are returned as they are: theirs come with the solution, since the distribution
    of their fields is not given by three numbers (m, q, V).
    """
    if not student.spec.sees_equal_classes(teacher):
        return list(rows)
    scored = []
    for row in rows:
        scores = {}
        order = _order_parameters(row)
        if order is not None:
            uncertainty = float(row.get("uncertainty", math.nan))
            scores = fresh_scores(teacher, student, order, uncertainty)
        scored.append(make_row(**{**scores, **row}))  # a student's own score has a bar
    return scored


def _order_parameters(row: Row) -> ScalarOrder | None:
    """Return (τ, q, V) of a row, or None where its fields have no scale."""
    is_hard_margin = row.get("ridge") == 0 and row.get("training_error") == 0
    q = float(row.get("q", math.nan))
    if is_hard_margin or not math.isfinite(q) or q <= 0:
        return None
    m = float(row.get("m", math.nan))
    V = float(row.get("V", math.nan))
    return ScalarOrder.of_overlaps(m, q, V)


def fresh_scores(
    teacher: AnyTeacher, student: Student, order: ScalarOrder, error_uncertainty: float = 0.0
) -> dict[str, float]:
    """Return test loss, Brier score and calibration error at known order parameters.

    Parameters
    ----------
    teacher : Teacher or Perceptron
    student : Student
    order : ScalarOrder
        The order parameters τ = ρ/√(1 − ρ²), q and V of the student.
    error_uncertainty : float
        Of the generalisation error, from which follows how well `order` is known.

    Returns
    -------
    dict
        The scores and their uncertainties by column; empty for a student without probabilities.
    """
    probabilities = student.probabilities(teacher, order)
    if probabilities is None:
        return {}
    k = teacher.n_classes
    scores = ProbabilityScores(teacher.channel, k, order, error_uncertainty)
    if student.spec.calibrated:  # its probabilities are the true ones given the fields
        test_loss, brier = scores.means(None)
        calibration_error = Estimate(np.zeros(()), np.zeros(()))
    else:
        test_loss, brier = scores.means(probabilities)
        _, calibration_error = scores.calibration(probabilities, np.linspace(1 / k, 1, N_BINS + 1))
    return {
        "test_loss": float(test_loss.value),
        "test_loss_uncertainty": float(test_loss.uncertainty),
        "brier": float(brier.value),
        "brier_uncertainty": float(brier.uncertainty),
        "calibration_error": float(calibration_error.value),
        "calibration_error_uncertainty": float(calibration_error.uncertainty),
    }
