"""Overlaps of fitted weights with the teacher's, and the generalisation error they imply, exactly.

    m = ⟨ŴP, W*P⟩/(d r),   q = ‖ŴP‖²/(d r),   P = I − 11ᵀ/k,  r = k − 1                   (eq. mqv)
    ε = P_x(argmax Ŵᵀx ≠ y),    y drawn at the fields W*ᵀx/√d,    x ~ N(0, I_d)

ε is the paper's eq:generalization_error_general for given weights, which have the covariances of
fields that are measured in place of those of the limit (eq:generalization_ERM). Weights Ŵ, W* are
(d, k), with k classes. In the code W and T are both, centred over the classes and, where labels see
no scale, divided by their norms; S, T and C (r, r) are covariances of s, of t and between them in
an orthonormal basis (k, r) of class differences (`difference_basis`).

For given weights ε is a probability of the 2(k−1) class differences of student fields s and teacher
fields t, which are centred and jointly Gaussian. Gaussian noise on the teacher's fields adds to
their covariance; labels that are guessed are a mixture; any other channel is sampled.

k = 2: ε = arccos(ρ)/π.

k = 3: an integral over correlations, by Plackett's identity (`three_class_error`).

k ≥ 4: quasi-Monte Carlo of a smooth function; the scatter of its replicates gives the uncertainty.
Let σ² be the least eigenvalue of the joint covariance of the class differences. Then s = g + σξ and
t = g' + σξ' with independent noise ξ, ξ', so that given g and g'

    P(argmax s = argmax t | g, g') = Σ_l Z_l(g, σ²) Z_l(g', σ²)

with the probability Z_l(g, σ²) that class l has the largest of g + σξ. A control variate is
subtracted: the same function of class-symmetric covariances, whose mean is known. With labels drawn
by a channel, or where σ² vanishes, the student alone has noise, of variance ν in every direction
once t is known: P(argmax s = y | g, t) = Σ_l Z_l(g, ν) P(y = l | t).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import pdist
from scipy.special import ndtri

from polyceptron.checks import as_numbers, check_tolerance, difference_basis
from polyceptron.data.sparse_checks import compressed_rows
from polyceptron.errors import InvalidInput
from polyceptron.fit.three_class_error import STEPS, LabelDifferences
from polyceptron.numerics import TINY, Array
from polyceptron.numerics.estimate import estimate_from_replicates, uniform_replicates
from polyceptron.numerics.orthant import GRID, win_probabilities
from polyceptron.problem.channels import Channel, as_channel
from polyceptron.problem.order import PaperMatrices
from polyceptron.problem.spectrum import as_spectrum
from polyceptron.sides.generalisation import generalisation_error

# Uncertainty at which sampling stops, up to 5 classes and above: the errors of instances of usual
# size differ by more.
DEFAULT_TOL = 1e-3
DEFAULT_TOL_MANY = 3e-3
# Weights of norm 1 whose entries are the teacher's up to this are taken for them.
EQUAL_WEIGHTS = 1e-13
ROUNDING_OF_ANGLE = 1e-15  # of a generalisation error, absolute
ROUNDING_OF_INTEGRALS = 1e-14  # the same
N_REPLICATES = 16  # of quasi-Monte Carlo, which show its error
LOG2_POINTS = range(7, 13)  # of a replicate: points are doubled until the tolerance is met
# An event of probability 5/n is missed by all of n points with probability e⁻⁵ < 1 %.
UNSEEN_POINTS = 5.0
_MEMORY = 400_000  # numbers in the largest temporary
_FLAT = 1e-7  # least noise per class direction (of 1) that the smooth integrand resolves


class Overlaps(NamedTuple):
    """Overlaps m and q, and the teacher's own squared norm (1 as d → ∞), per class direction."""

    m: float
    q: float
    teacher: float

    @property
    def correlation(self) -> float:
        """Return ρ = m/√(q·teacher), 0 for zero weights."""
        scale = math.sqrt(self.q * self.teacher)
        if scale == 0:
            return 0.0
        return _clipped(self.m / scale, -1.0, 1.0)


class ErrorEstimate(NamedTuple):
    """A generalisation error and its absolute uncertainty, which holds in 99 of 100 cases."""

    value: float
    uncertainty: float


def _clipped(number: float, low: float, high: float) -> float:
    """Return a number, or the end of the interval [low, high] that it is beyond."""
    return min(high, max(low, number))


def overlaps(weights: Any, teacher_weights: Any, features: Any = "isotropic") -> Overlaps:
    """Return m and q of weights with those of a teacher, in the covariance of the features.

    Parameters
    ----------
    weights, teacher_weights : array_like (d, k)
    features : str, array_like or Spectrum

    Returns
    -------
    Overlaps

    Examples
    --------
    >>> overlaps([[2.0, 0.0]], [[1.0, -1.0]])
    Overlaps(m=2.0, q=2.0, teacher=2.0)
    """
    W, T = _differences(weights, teacher_weights, features)
    d, k = W.shape
    size = d * (k - 1)
    return Overlaps(
        m=float(np.vdot(W, T)) / size,
        q=float(np.vdot(W, W)) / size,
        teacher=float(np.vdot(T, T)) / size,
    )


def overlap_matrices(
    weights: Any, teacher_weights: Any, features: Any = "isotropic"
) -> PaperMatrices:
    """Return m and q of fitted weights as the paper writes them, each entry measured.

    There is no V: it is (1/d) tr of the inverse Hessian of the fit, which its data and loss decide
    and its weights alone do not.

    Parameters
    ----------
    weights, teacher_weights : array_like (d, k)
    features : str, array_like or Spectrum

    Returns
    -------
    PaperMatrices
        m = W̃ᵀT̃/d and q = W̃ᵀW̃/d with w̃_h = w_h − w_k, (k−1, k−1).

    Examples
    --------
    >>> overlap_matrices([[2.0, 0.0]], [[1.0, -1.0]]).q
    array([[4.]])
    """
    W, T = _differences(weights, teacher_weights, features)
    W = W[:, :-1] - W[:, -1:]
    T = T[:, :-1] - T[:, -1:]
    return PaperMatrices(W.T @ T / len(W), W.T @ W / len(W))


def exact_generalisation_error(
    weights: Any,
    teacher_weights: Any,
    *,
    noise: Any = "none",
    features: Any = "isotropic",
    tol: float | None = None,
    seed: int = 0,
) -> ErrorEstimate:
    """Return ε of the classifier argmax(weightsᵀx) on a teacher's labels, without a test set.

    Parameters
    ----------
    weights, teacher_weights : array of shape (d, k)
        Weights of the student, and those that labelled the data. Ties go to the first class.
    noise : str or Channel, default="none"
        The noise of the labels; without it ε is the error for the rule argmax(teacher_weightsᵀx).
    features : str or Spectrum, default="isotropic"
        The covariance of x; what features hide of the teacher is in `teacher.channel`, not in them.
    tol : float, default=None
        Where quasi-Monte Carlo is needed, for k ≥ 4 or a noise that is neither Gaussian nor flips,
        the uncertainty to stop at. If it is not met with 4096 points in each of 16 replicates, the
        uncertainty that is returned is larger.
    seed : int, default=0
        Seed of its random numbers.

    Returns
    -------
    ErrorEstimate
        `value`, and the `uncertainty` that holds in 99 of 100 cases.

    Examples
    --------
    >>> weights = [[1.0, 0.0], [0.0, 0.0]]
    >>> exact_generalisation_error(weights, [[1.0, 0.0], [1.0, 0.0]]).value
    0.25
    """
    W, T = _differences(weights, teacher_weights, features)
    d, k = W.shape
    channel = as_channel(noise)
    variance = channel.utility_variance  # of Gaussian noise on the teacher's fields, or None
    guessed_share = k * channel.guess(k)  # `guess` is the probability of each class by guessing
    tol = check_tolerance(tol, DEFAULT_TOL if k <= 5 else DEFAULT_TOL_MANY)
    size = float(np.linalg.norm(T))
    W = _unit(W)  # labels see no scale
    T = _unit(T)
    if not T.any():
        raise InvalidInput("the teacher's weights are the same for every class: it has no rule")
    if variance is None:
        T = T * (size / math.sqrt(d))
        return _sampled_error(W.T @ W, T.T @ T, W.T @ T, channel, tol, seed)
    # In units of the teacher's norm, per class direction.
    added = 0.0
    if variance > 0:
        added = variance * d / size / size
    unguessed = _error_in_gaussian_noise(W, T, added, tol, seed)
    value = (1 - guessed_share) * unguessed.value + guessed_share * (1 - 1 / k)
    return ErrorEstimate(value, (1 - guessed_share) * unguessed.uncertainty)


def _unit(weights: Array) -> Array:
    """Return weights (d, k) of norm 1, or zeros; huge and tiny entries do not overflow."""
    scaled = weights / max(float(np.abs(weights).max()), TINY)
    norm = float(np.linalg.norm(scaled))
    if norm == 0:
        return np.asarray(scaled)
    return np.asarray(scaled / norm)


def _error_in_gaussian_noise(
    W: Array, T: Array, added: float, tol: float, seed: int
) -> ErrorEstimate:
    """Return P(argmax Wᵀx ≠ argmax(Tᵀx + √added ξ)) for unit weights W, T (d, k)."""
    k = W.shape[1]
    if added == 0 and np.abs(W - T).max() <= EQUAL_WEIGHTS:
        return ErrorEstimate(0.0, max(EQUAL_WEIGHTS, _largest_error(W, T)))
    if k == 2:
        return _error_of_two_classes(W, T, added)
    student = W.T @ W
    teacher = T.T @ T + added * (np.eye(k) - 1 / k)
    cross = W.T @ T
    if k == 3 and not _is_on_a_line(student) and not _is_on_a_line(teacher):
        return _error_of_three_classes(student, teacher, cross)
    return _sampled_error(student, teacher, cross, None, tol, seed)


def _largest_error(W: Array, T: Array) -> float:
    """Return a bound on ε of weights W (d, k) that are nearly T.

    Where the largest fields are those of classes h and l, the signs of two differences are
    opposite, w = w_h − w_l and t = t_h − t_l. The chance of that is the angle between w and t over
    π, at most ‖w − t‖/2‖t‖. These are summed over all pairs of classes.
    """
    apart = pdist((W - T).T)
    sizes = pdist(T.T)
    chances = np.ones_like(sizes)
    np.divide(apart, 2 * sizes, out=chances, where=sizes > apart)
    return min(1.0, float(chances[apart > 0].sum()))


def _error_of_two_classes(W: Array, T: Array, added: float) -> ErrorEstimate:
    """Return arccos(ρ)/π, the angle between unit vectors over π.

    Noise lengthens the teacher's vector in another direction. Without noise, half the angle is
    atan2(‖u − v‖, ‖u + v‖), which is accurate near 0.
    """
    if not W.any():
        return ErrorEstimate(0.5, ROUNDING_OF_ANGLE)
    if added > 0:
        rho = float(np.vdot(W, T))
        angle = math.atan2(math.sqrt(max(1 + added - rho * rho, 0.0)), rho)
    else:
        angle = 2 * math.atan2(float(np.linalg.norm(W - T)), float(np.linalg.norm(W + T)))
    return ErrorEstimate(angle / math.pi, ROUNDING_OF_ANGLE)


def _is_on_a_line(gram: Array) -> bool:
    """Return whether the fields of three classes, of covariance (3, 3), lie on a line."""
    _, middle, largest = np.linalg.eigvalsh(gram)
    return bool(middle <= 1e-9 * largest)


def _error_of_three_classes(student: Array, teacher: Array, cross: Array) -> ErrorEstimate:
    """Return ε by orthant probabilities, from the covariances (3, 3) of fields.

    The bar is the change when the step is halved, and what rounding does to the angles between
    student and teacher, which both steps share.
    """
    classes = [LabelDifferences.of(label, student, teacher, cross) for label in range(3)]
    coarse, fine = (sum(c.chance_to_win_both(step) for c in classes) for step in STEPS)
    rounding = ROUNDING_OF_INTEGRALS + sum(differences.rounding for differences in classes)
    return ErrorEstimate(_clipped(1 - fine, 0.0, 1.0), abs(fine - coarse) + rounding)


def _differences(weights: Any, teacher_weights: Any, features: Any) -> tuple[Array, Array]:
    """Return both (d, k) without the part common to all classes, for features of variance 1."""
    W = _numbers(weights, "weights")
    T = _numbers(teacher_weights, "teacher weights")
    if W.ndim != 2 or W.shape != T.shape or W.shape[1] < 2:
        raise InvalidInput(
            f"weights and teacher weights must both be (dimension, classes), got {W.shape} "
            f"and {T.shape}"
        )
    if not (np.isfinite(W).all() and np.isfinite(T).all()):
        raise InvalidInput("weights must be finite")
    spectrum = as_spectrum(features)
    W = W - W.mean(1, keepdims=True)
    T = T - T.mean(1, keepdims=True)
    if spectrum.isotropic:
        return W, T
    deviations = spectrum.deviations(len(W))
    return W * deviations, T * deviations


def _numbers(weights: Any, name: str) -> Array:
    """Return weights as doubles (d, k); those of a sparse matrix are filled, since k is small."""
    if hasattr(weights, "tocsr"):
        weights = compressed_rows(weights, name).toarray()
    return as_numbers(weights, name).astype(float)


class _Integrand(NamedTuple):
    """A function of standard normal points (n, 2k − 2) whose mean is 1 − ε − `known`.

    Something that no point has seen has a probability below `unseen_points` over their number: 0
    for a smooth function.
    """

    function: Callable[[Array], Array]
    known: float
    unseen_points: float


def _sampled_error(
    student: Array, teacher: Array, cross: Array, channel: Channel | None, tol: float, seed: int
) -> ErrorEstimate:
    """Return ε from the k×k covariances of s, of t and between them.

    Labels are drawn by a channel, or they are argmax t where there is none.
    """
    basis = difference_basis(len(student))
    S = basis.T @ student @ basis
    T = basis.T @ teacher @ basis
    C = basis.T @ cross @ basis
    integrand = None
    if channel is None:
        integrand = _agreement_integrand(S, T, C, basis)
    if integrand is None:
        integrand = _label_integrand(S, T, C, basis, channel)
    found = _quasi_monte_carlo(integrand, 2 * len(S), tol, seed)
    if channel is not None:
        return found
    return ErrorEstimate(found.value, found.uncertainty + _rounding_of_close_classes(teacher))


def _rounding_of_close_classes(teacher: Array) -> float:
    """Return the error of ε by rounding of the teacher's covariance (k, k), at most 1/2.

    Labels of two classes depend on the direction of t_h − t_l, also where it is short. Rounding of
    the covariance changes it by a few units of rounding over its squared length.
    """
    variances = np.diag(teacher)
    squared_gaps = variances[:, None] + variances - 2 * teacher
    closest = squared_gaps[np.triu_indices(len(teacher), 1)].min()
    rounding = 4 * float(np.finfo(float).eps) * float(np.trace(teacher))
    if closest <= 2 * rounding:
        return 0.5
    return rounding / float(closest)


def _agreement_integrand(S: Array, T: Array, C: Array, basis: Array) -> _Integrand | None:
    """Return P(argmax s = argmax t | g, g') less that of the class-symmetric part.

    S, T and C (k−1, k−1) are the covariances of the class differences of s, of t and between them.
    None where these have too little noise in common, or no positive correlation.
    """
    r = len(S)
    a = _scale(S)
    b = _scale(T)
    joint = np.block([[a * a * S, a * b * C], [a * b * C.T, b * b * T]])
    noise = _noise_of(joint)
    rho = float(np.trace(C)) * a * b / r
    if noise <= _FLAT or not 0 < rho < 1:
        return None
    # Fields of student and teacher (2k,) at a standard normal point, in units of the noise.
    lift = np.kron(np.eye(2), basis) @ _common_first(joint, noise) / math.sqrt(noise)
    # Symmetric fields √ρ g₀ + √(1 − ρ) ξ, in units of their noise; they use the same points.
    twin = basis * math.sqrt(rho / (1 - rho))
    known = 1 - float(generalisation_error(rho, r + 1))
    return _Integrand(partial(_smooth_agreement, lift=lift, twin=twin), known, 0.0)


def _label_integrand(
    S: Array, T: Array, C: Array, basis: Array, channel: Channel | None
) -> _Integrand:
    """Return P(argmax s = y | g, t) with labels y drawn by a channel from t, or y = argmax t.

    With independent standard normal ξ, t = Aξ and s = Bξ + what remains.
    """
    A = _root(T)
    B = C @ np.linalg.pinv(A, rcond=1e-12, hermitian=True)
    remaining = S - B @ B.T
    noise = _noise_of(remaining)
    unseen_points = 0.0
    if noise <= _FLAT * float(np.trace(S)):
        noise = 0.0
        unseen_points = UNSEEN_POINTS
    student_map = basis @ np.hstack([B, _root(remaining - noise * np.eye(len(S)))])
    function = partial(
        _label_chance,
        teacher_map=basis @ A,
        student_map=student_map,
        noise=noise,
        channel=channel,
    )
    return _Integrand(function, 0.0, unseen_points)


def _scale(covariance: Array) -> float:
    """Return the factor that makes the mean variance of the fields 1; 1 for fields of 0."""
    if not covariance.any():
        return 1.0
    return math.sqrt(len(covariance) / np.trace(covariance))


def _noise_of(covariance: Array) -> float:
    """Return the variance that all directions have, a little less than the least eigenvalue."""
    return float(np.linalg.eigvalsh(covariance)[0]) * (1 - 1e-6)


def _quasi_monte_carlo(
    integrand: _Integrand, n_dimensions: int, tol: float, seed: int
) -> ErrorEstimate:
    """Double the points of each replicate until the uncertainty of ε is at most `tol`."""
    sums = np.zeros(N_REPLICATES)
    n_points = 0
    for log2_points in LOG2_POINTS:  # the points before are the first half of these
        uniform = uniform_replicates(n_dimensions, log2_points, seed, N_REPLICATES)
        points = ndtri(uniform[:, n_points:]).reshape(-1, n_dimensions)
        sums += integrand.function(points).reshape(N_REPLICATES, -1).sum(1)
        n_points = 2**log2_points
        mean = estimate_from_replicates(sums / n_points)
        unseen = integrand.unseen_points / (N_REPLICATES * n_points)
        uncertainty = max(float(mean.uncertainty), unseen)
        if uncertainty <= tol:
            break
    error = 1 - integrand.known - float(mean.value)
    return ErrorEstimate(_clipped(error, 0.0, 1.0), uncertainty)


def _root(covariance: Array) -> Array:
    """Return the symmetric square root of a covariance, rounding below 0 cut off."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _label_chance(
    points: Array, teacher_map: Array, student_map: Array, noise: float, channel: Channel | None
) -> Array:
    """Return P(argmax s = y | g, t) (n,) at points (n, 2k−2).

    t (n, k) comes from the first half of each point by `teacher_map` (k, k−1), g from all of it by
    `student_map` (k, 2k−2).
    """
    chances = _chances_of_labels(points[:, : teacher_map.shape[1]] @ teacher_map.T, channel)
    g = points @ student_map.T
    if noise == 0:
        return np.asarray(np.take_along_axis(chances, g.argmax(1)[:, None], 1)[:, 0])
    return np.asarray((win_probabilities(g / math.sqrt(noise)) * chances).sum(1))


def _chances_of_labels(t: Array, channel: Channel | None) -> Array:
    """Return P(y = l) (n, k) at the teacher's fields t (n, k); without a channel y = argmax t.

    A channel without noise would not do: it is smooth over 1e-6, and classes may be closer.
    """
    if channel is None:
        return np.asarray(np.eye(t.shape[1])[t.argmax(1)])
    return channel.chances(t)


def _common_first(joint: Array, noise: float) -> Array:
    """Return L (2r, 2r) with LLᵀ = joint − noise·I.

    Its first r columns carry what s and t share.
    """
    r = joint.shape[0] // 2
    turn = np.kron(np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2), np.eye(r))
    G = turn @ joint @ turn - noise * np.eye(2 * r)
    shared = _root(G[:r, :r])
    mixed = G[r:, :r] @ np.linalg.pinv(shared, rcond=1e-12, hermitian=True)
    remaining = _root(G[r:, r:] - mixed @ mixed.T)
    return np.asarray(turn @ np.block([[shared, np.zeros((r, r))], [mixed, remaining]]))


def _smooth_agreement(points: Array, lift: Array, twin: Array) -> Array:
    """Return Σ_l Z_l(g)Z_l(g') − Σ_l Z_l(g₀)² (n,), (g, g') = lift·point and g₀ = twin·point."""
    k, r = twin.shape
    n_chunks = math.ceil(len(points) * k * GRID.size / _MEMORY)
    agreements = []
    for chunk in np.array_split(points, n_chunks):
        fields = chunk @ lift.T
        agree = win_probabilities(fields[:, :k]) * win_probabilities(fields[:, k:])
        symmetric = win_probabilities(chunk[:, :r] @ twin.T) ** 2
        agreements.append((agree - symmetric).sum(1))
    return np.concatenate(agreements)
