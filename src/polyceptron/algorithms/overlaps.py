"""Overlaps of fitted weights with the teacher's, and the generalisation error they imply, exactly.

    m = ⟨PŴ, PW*⟩/(d r),   q = ‖PŴ‖²/(d r),   P = I − 11ᵀ/k,  r = k − 1
    ε = P_x(argmax Ŵᵀx ≠ y),    y drawn at the fields W*ᵀx/√d,    x ~ N(0, I_d)

For given weights ε is a probability of the 2(k−1) Gaussian class differences, so no test set is
needed. k = 2: arccos(ρ)/π. k = 3: one integral of elementary functions. k ≥ 4: quasi-Monte
Carlo over a smooth integrand, with its uncertainty (see `class_agreement`). Gaussian noise on the
teacher's fields adds to their covariance, labels that are guesses are a mixture; any other channel
is sampled (`drawn_agreement`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from polyceptron.algorithms.agreement import drawn_label_error, sampled_error, three_class_agreement
from polyceptron.errors import InvalidInput
from polyceptron.model.channels import as_channel
from polyceptron.model.checks import as_numbers, check_tolerance
from polyceptron.model.features import as_spectrum
from polyceptron.numerics import Array

# What k ≥ 4 classes are computed to unless asked otherwise: an instance at d = 1000 differs from
# the next by more, and each further digit costs a hundred times the points.
DEFAULT_TOL, DEFAULT_TOL_MANY = 1e-3, 3e-3  # up to 5 classes, above
_SAME = 1e-13  # weights that agree with the teacher's to this relative precision make no errors


class Overlaps(NamedTuple):
    """m, q and the teacher's own norm (1 for an infinite teacher), per class direction."""

    m: float
    q: float
    teacher: float

    @property
    def correlation(self) -> float:
        """ρ = m/√(q·teacher), 0 for zero weights."""
        scale = math.sqrt(self.q * self.teacher)
        return min(1.0, max(-1.0, self.m / scale)) if scale > 0 else 0.0


class ErrorEstimate(NamedTuple):
    """A generalisation error and its absolute uncertainty, which holds in 99 of 100 cases."""

    value: float
    uncertainty: float


def overlaps(weights: Any, teacher_weights: Any, features: Any = "isotropic") -> Overlaps:
    """m and q of weights (d, k) with teacher weights (d, k), in the covariance of the features.

    >>> overlaps([[2.0, 0.0]], [[1.0, -1.0]])
    Overlaps(m=2.0, q=2.0, teacher=2.0)
    """
    W, T = _differences(weights, teacher_weights)
    spectrum = as_spectrum(features)
    if not spectrum.isotropic:
        W, T = W * spectrum.deviations(len(W)), T * spectrum.deviations(len(W))
    size = W.shape[0] * (W.shape[1] - 1)
    return Overlaps(*(float(np.vdot(a, b)) / size for a, b in ((W, T), (W, W), (T, T))))


def exact_generalisation_error(
    weights: Any,
    teacher_weights: Any,
    *,
    noise: Any = "none",
    features: Any = "isotropic",
    tol: float | None = None,
    seed: int = 0,
) -> ErrorEstimate:
    """ε of the classifier argmax(weightsᵀx) on labels drawn by the teacher; both weights (d, k).

    `noise` is the name of a registered noise of the labels, or a `Channel`; without it ε is the
    error for the rule argmax(teacher_weightsᵀx). `features`, a spectrum or its name, are those of
    x; what they hide of the teacher is in `teacher.channel`, not in them. Ties go to the first
    class, as in numpy's argmax. `tol` and `seed` matter where quasi-Monte Carlo is needed, for
    k ≥ 4 or a noise that is neither Gaussian nor flips: the uncertainty to stop at, and the random
    numbers.

    `weights` are the student's, `teacher_weights` those that labelled the data.

    >>> exact_generalisation_error([[1.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]).value
    0.25
    """
    W, T = _differences(weights, teacher_weights)
    d, k = W.shape
    spectrum = as_spectrum(features)
    if not spectrum.isotropic:
        W, T = W * spectrum.deviations(d), T * spectrum.deviations(d)
    channel = as_channel(noise)
    variance, guesses = channel.utility_variance, k * channel.guess(k)
    tol = check_tolerance(tol, DEFAULT_TOL if k <= 5 else DEFAULT_TOL_MANY)
    size = float(np.linalg.norm(T))
    W, T = _unit(W), _unit(T)
    if not T.any():
        raise InvalidInput("the teacher's weights are the same for every class: it has no rule")
    if variance is None:
        T = T * (size / math.sqrt(d))
        return ErrorEstimate(*drawn_label_error(W.T @ W, T.T @ T, W.T @ T, channel, tol, seed))
    # In units of the teacher's norm, per class direction.
    added = variance * d / size / size if variance > 0 else 0.0
    found = _utility_error(W, T, added, tol, seed)
    return ErrorEstimate(
        (1 - guesses) * found.value + guesses * (1 - 1 / k), (1 - guesses) * found.uncertainty
    )


def _utility_error(W: Array, T: Array, added: float, tol: float, seed: int) -> ErrorEstimate:
    """P(argmax Wᵀx ≠ argmax(Tᵀx + √added ξ)) for unit weights W, T (d, k)."""
    k = W.shape[1]
    if added == 0 and np.abs(W - T).max() <= _SAME:
        return ErrorEstimate(0.0, _SAME)
    if k == 2:
        return ErrorEstimate(_angle(W, T, added) / math.pi if W.any() else 0.5, 1e-15)
    noise = added * (np.eye(k) - 1 / k)
    student, teacher, cross = W.T @ W, T.T @ T + noise, W.T @ T
    if k == 3 and _distinct(student) and _distinct(teacher):
        agreement, uncertainty = three_class_agreement(student, teacher, cross)
        return ErrorEstimate(min(1.0, max(0.0, 1 - agreement)), uncertainty)
    return ErrorEstimate(*sampled_error(student, teacher, cross, tol, seed))


def _angle(W: Array, T: Array, added: float) -> float:
    """The angle between unit vectors u, v, v lengthened by noise in another direction.

    Without noise, half of it is atan2(‖u − v‖, ‖u + v‖): accurate near 0.
    """
    if added == 0:
        return 2 * math.atan2(float(np.linalg.norm(W - T)), float(np.linalg.norm(W + T)))
    rho = float(np.vdot(W, T))
    return math.atan2(math.sqrt(max(1 + added - rho * rho, 0.0)), rho)


def _differences(weights: Any, teacher_weights: Any) -> tuple[Array, Array]:
    """Both weights without their part common to all classes."""
    W = as_numbers(_dense(weights), "weights").astype(float)
    T = as_numbers(_dense(teacher_weights), "teacher weights").astype(float)
    if W.ndim != 2 or W.shape != T.shape or W.shape[1] < 2:
        raise InvalidInput(
            f"weights and teacher weights must both be (dimension, classes), got {W.shape} "
            f"and {T.shape}"
        )
    if not (np.isfinite(W).all() and np.isfinite(T).all()):
        raise InvalidInput("weights must be finite")
    return W - W.mean(1, keepdims=True), T - T.mean(1, keepdims=True)


def _dense(weights: Any) -> Any:
    """Sparse weights filled: they are thin."""
    return weights.toarray() if hasattr(weights, "toarray") else weights


def _unit(W: Array) -> Array:
    """W over its norm (0 stays 0): labels do not see the scale."""
    largest = float(np.abs(W).max())
    if largest == 0:
        return W
    W = W / largest
    return W / float(np.linalg.norm(W))


def _distinct(gram: Array) -> bool:
    """Whether the three class differences are neither zero nor parallel: no orthant is flat."""
    values = np.linalg.eigvalsh(gram)
    return bool(values[1] > 1e-9 * values[2])
