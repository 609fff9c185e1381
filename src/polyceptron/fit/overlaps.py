"""Overlaps of fitted weights with the teacher's, and the generalisation error they imply, exactly.

    m = ⟨PŴ, PW*⟩/(d r),   q = ‖PŴ‖²/(d r),   P = I − 11ᵀ/k,  r = k − 1
    ε = P_x(argmax Ŵᵀx ≠ y),    y drawn at the fields W*ᵀx/√d,    x ~ N(0, I_d)

For given weights ε is a probability of the 2(k−1) class differences of student fields s and teacher
fields t, centred and jointly Gaussian. Gaussian noise on the teacher's fields adds to their
covariance, guessed labels are a mixture; any other channel is sampled. k = 2: arccos(ρ)/π.

k = 3: each class contributes an orthant probability of two student and two teacher differences.
With the cross-correlations times τ it is a product of two wedges at τ = 0, and by Plackett's
identity its derivative in τ is elementary:

    ∂P/∂c_ij = (1/4 + arcsin(ρ_ij)/2π) / (2π √(1 − c_ij²)),

with ρ_ij the correlation of the other two differences given that these two vanish: one integral
over τ by the tanh-sinh rule, since it may be singular at τ = 1.

k ≥ 4: quasi-Monte Carlo, whose replicates show the error, of a smooth function. Let σ² be the least
eigenvalue of the joint covariance of the class differences. Then s = g + σξ and t = g' + σξ' with
independent noise ξ, ξ', so that given g and g'

    P(argmax s = argmax t | g, g') = Σ_l Z_l(g, σ²) Z_l(g', σ²)

with the argmax probabilities Z of isotropic noise. From this the same function is subtracted for
the class-symmetric part of the covariances, whose mean is known. With labels drawn by a channel, or
where σ² vanishes, the student alone has noise, of variance ν in every direction once t is known:
P(argmax s = y | g, t) = Σ_l Z_l(g, ν) P(y = l | t).
"""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from polyceptron.checks import as_numbers, check_tolerance, difference_basis
from polyceptron.data.sparse_checks import compressed_rows
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import estimate_from_replicates, uniform_replicates
from polyceptron.numerics.orthant import GRID, win_probabilities
from polyceptron.problem.channels import Channel, as_channel
from polyceptron.problem.order import PaperMatrices
from polyceptron.problem.spectrum import as_spectrum
from polyceptron.sides.generalisation import generalisation_error

DEFAULT_TOL, DEFAULT_TOL_MANY = 1e-3, 3e-3  # up to 5 classes, above: less than instances differ
_SAME = 1e-13  # weights that agree with the teacher's to this relative precision make no errors
_MEMORY = 400_000  # numbers in the largest temporary
_FLAT = 1e-7  # least noise per class direction (of 1) that the smooth integrand resolves


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
    W, T = _differences(weights, teacher_weights, features)
    size = W.shape[0] * (W.shape[1] - 1)
    return Overlaps(*(float(np.vdot(a, b)) / size for a, b in ((W, T), (W, W), (T, T))))


def overlap_matrices(
    weights: Any, teacher_weights: Any, features: Any = "isotropic"
) -> PaperMatrices:
    """m and q of fitted weights as the paper writes them, each entry measured.

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
    W, T = W[:, :-1] - W[:, -1:], T[:, :-1] - T[:, -1:]
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
    """ε of the classifier argmax(weightsᵀx) on labels drawn by a teacher, without a test set.

    Parameters
    ----------
    weights, teacher_weights : array of shape (d, k)
        Of the student, and those that labelled the data. Ties go to the first class.
    noise : str or Channel, default="none"
        Of the labels; without it ε is the error for the rule argmax(teacher_weightsᵀx).
    features : str or Spectrum, default="isotropic"
        Of x; what they hide of the teacher is in `teacher.channel`, not in them.
    tol : float, default=None
        Where quasi-Monte Carlo is needed, for k ≥ 4 or a noise that is neither Gaussian nor flips,
        the uncertainty to stop at.
    seed : int, default=0
        Of its random numbers.

    Returns
    -------
    ErrorEstimate
        `value`, and the `uncertainty` that holds in 99 of 100 cases.

    Examples
    --------
    >>> exact_generalisation_error([[1.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]).value
    0.25
    """
    W, T = _differences(weights, teacher_weights, features)
    d, k = W.shape
    channel = as_channel(noise)
    variance, guesses = channel.utility_variance, k * channel.guess(k)
    tol = check_tolerance(tol, DEFAULT_TOL if k <= 5 else DEFAULT_TOL_MANY)
    size = float(np.linalg.norm(T))
    W, T = (one / max(float(np.abs(one).max()), 1e-300) for one in (W, T))  # labels see no scale
    W, T = (one / (float(np.linalg.norm(one)) or 1.0) for one in (W, T))
    if not T.any():
        raise InvalidInput("the teacher's weights are the same for every class: it has no rule")
    if variance is None:
        T = T * (size / math.sqrt(d))
        return _sampled_error(W.T @ W, T.T @ T, W.T @ T, channel, tol, seed)
    # In units of the teacher's norm, per class direction.
    added = variance * d / size / size if variance > 0 else 0.0
    found = _utility_error(W, T, added, tol, seed)
    value = (1 - guesses) * found.value + guesses * (1 - 1 / k)
    return ErrorEstimate(value, (1 - guesses) * found.uncertainty)


def _utility_error(W: Array, T: Array, added: float, tol: float, seed: int) -> ErrorEstimate:
    """P(argmax Wᵀx ≠ argmax(Tᵀx + √added ξ)) for unit weights W, T (d, k)."""
    k = W.shape[1]
    if added == 0 and np.abs(W - T).max() <= _SAME:
        return ErrorEstimate(0.0, _SAME)
    if k == 2:
        # The angle between unit vectors, the teacher's lengthened by noise in another direction;
        # without noise, half of it is atan2(‖u − v‖, ‖u + v‖): accurate near 0.
        angle = 2 * math.atan2(float(np.linalg.norm(W - T)), float(np.linalg.norm(W + T)))
        if added > 0:
            rho = float(np.vdot(W, T))
            angle = math.atan2(math.sqrt(max(1 + added - rho * rho, 0.0)), rho)
        return ErrorEstimate(angle / math.pi if W.any() else 0.5, 1e-15)
    student, teacher, cross = W.T @ W, T.T @ T + added * (np.eye(k) - 1 / k), W.T @ T
    spreads = [np.linalg.eigvalsh(gram) for gram in (student, teacher)]
    if k == 3 and all(v[1] > 1e-9 * v[2] for v in spreads):  # no orthant is flat
        coarse, fine = (
            sum(_class_share(l, student, teacher, cross, step) for l in range(3))
            for step in (1 / 8, 1 / 16)
        )
        return ErrorEstimate(min(1.0, max(0.0, 1 - fine)), abs(fine - coarse) + 1e-14)
    return _sampled_error(student, teacher, cross, None, tol, seed)


def _differences(weights: Any, teacher_weights: Any, features: Any) -> tuple[Array, Array]:
    """Both without their part common to all classes, of features of unit variance."""
    given = {"weights": weights, "teacher weights": teacher_weights}  # thin: sparse ones are filled
    W, T = (as_numbers(_filled(one, name), name).astype(float) for name, one in given.items())
    if W.ndim != 2 or W.shape != T.shape or W.shape[1] < 2:
        raise InvalidInput(
            f"weights and teacher weights must both be (dimension, classes), got {W.shape} "
            f"and {T.shape}"
        )
    if not (np.isfinite(W).all() and np.isfinite(T).all()):
        raise InvalidInput("weights must be finite")
    spectrum = as_spectrum(features)
    size = 1.0 if spectrum.isotropic else spectrum.deviations(len(W))
    return (W - W.mean(1, keepdims=True)) * size, (T - T.mean(1, keepdims=True)) * size


def _filled(weights: Any, name: str) -> Any:
    """Weights as they are, or those of a sparse matrix as an array (d, k)."""
    if hasattr(weights, "tocsr"):
        return compressed_rows(weights, name).toarray()
    return weights


def _class_share(label: int, student: Array, teacher: Array, cross: Array, step: float) -> float:
    """P(label wins both), by Plackett's identity along τ in [0, 1]."""
    D = np.delete(np.eye(3)[label] - np.eye(3), label, axis=0)  # rows e_l − e_h
    S, T, C = D @ student @ D.T, D @ teacher @ D.T, D @ cross @ D.T
    s, t = np.sqrt(np.diag(S)), np.sqrt(np.diag(T))
    a, b = S[0, 1] / (s[0] * s[1]), T[0, 1] / (t[0] * t[1])
    c = np.clip(C / np.outer(s, t), -1.0, 1.0)
    wedge = [0.25 + math.asin(min(1.0, max(-1.0, r))) / (2 * math.pi) for r in (a, b)]
    # Nodes and weights on [0, 1] that also serve integrands with a root in the denominator.
    x = np.arange(-3.6, 3.6 + step / 2, step)
    tau = 1 / (1 + np.exp(-math.pi * np.sinh(x)))
    weight = step * math.pi * np.cosh(x) * tau * (1 - tau)
    slope = np.zeros_like(tau)
    for i, j in np.ndindex(2, 2):
        r = tau * c[i, j]
        free = np.maximum(1 - r * r, 1e-30)
        # Given x_i = y_j = 0, with the others' correlations p, q to x_i and u, v to y_j.
        p, u = a, tau * c[1 - i, j]
        q, v = tau * c[i, 1 - j], b
        vx = 1 - (p * p - 2 * r * p * u + u * u) / free
        vy = 1 - (q * q - 2 * r * q * v + v * v) / free
        xy = tau * c[1 - i, 1 - j] - (p * q - r * (p * v + u * q) + u * v) / free
        spread = np.sqrt(np.maximum(vx, 1e-150)) * np.sqrt(np.maximum(vy, 1e-150))
        rho = np.clip(xy / spread, -1.0, 1.0)
        slope += c[i, j] * (0.25 + np.arcsin(rho) / (2 * math.pi)) / (2 * math.pi * np.sqrt(free))
    return float(wedge[0] * wedge[1] + weight @ slope)


def _sampled_error(
    student: Array, teacher: Array, cross: Array, channel: Channel | None, tol: float, seed: int
) -> ErrorEstimate:
    """ε from the k×k covariances of s, of t and between them; labels by a channel, or argmax t."""
    k, basis = len(student), difference_basis(len(student))
    S, T, C = (basis.T @ part @ basis for part in (student, teacher, cross))
    # t = Aξ and s = Bξ + (what remains), for independent standard normal ξ.
    A = _root(T)
    B = C @ np.linalg.pinv(A, rcond=1e-12, hermitian=True)
    rest, known = S - B @ B.T, 0.0
    a, b = (math.sqrt((k - 1) / np.trace(part)) if part.any() else 1.0 for part in (S, T))
    joint = np.block([[a * a * S, a * b * C], [a * b * C.T, b * b * T]])
    noise = float(np.linalg.eigvalsh(joint)[0]) * (1 - 1e-6)
    rho = float(np.trace(C)) * a * b / (k - 1)
    if channel is None and noise > _FLAT and 0 < rho < 1:
        known = 1 - float(generalisation_error(rho, k))
        lift = np.kron(np.eye(2), basis) @ _common_first(joint, noise) / math.sqrt(noise)
        integrand = partial(_smooth_agreement, lift=lift, twin=basis * math.sqrt(rho / (1 - rho)))
    else:
        noise = float(np.linalg.eigvalsh(rest)[0]) * (1 - 1e-6)
        noise = noise if noise > _FLAT * float(np.trace(S)) else 0.0
        own = basis @ np.hstack([B, _root(rest - noise * np.eye(k - 1))])
        channel = as_channel("none") if channel is None else channel
        integrand = partial(_label_chance, teacher=basis @ A, own=own, noise=noise, channel=channel)
    sums, seen = np.zeros(16), 0
    for log2_points in range(7, 13):  # the points of one are the first half of the next
        points = ndtri(uniform_replicates(2 * k - 2, log2_points, seed, 16)[:, seen:])
        sums += integrand(points.reshape(-1, 2 * k - 2)).reshape(16, -1).sum(1)
        seen = 2**log2_points
        found = estimate_from_replicates(sums / seen)
        # What no point has seen has a probability below 5 over their number, in 99 of 100 cases.
        uncertainty = max(float(found.uncertainty), 5 / (16 * seen) if noise == 0 else 0.0)
        if uncertainty <= tol:
            break
    return ErrorEstimate(min(1.0, max(0.0, 1 - known - float(found.value))), uncertainty)


def _root(covariance: Array) -> Array:
    """The symmetric square root of a covariance, rounding below 0 cut off."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _label_chance(
    points: Array, teacher: Array, own: Array, noise: float, channel: Channel
) -> Array:
    """P(argmax s = y | g, t) at points (n, 2k−2): t from their first half, g from all of them."""
    chances = channel.chances(points[:, : teacher.shape[1]] @ teacher.T)
    g = points @ own.T
    if noise == 0:
        return np.asarray(np.take_along_axis(chances, g.argmax(1)[:, None], 1)[:, 0])
    return np.asarray((win_probabilities(g / math.sqrt(noise)) * chances).sum(1))


def _common_first(joint: Array, noise: float) -> Array:
    """L (2r, 2r) with LLᵀ = joint − noise·I, whose first r columns carry what s and t share."""
    r = joint.shape[0] // 2
    turn = np.kron(np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2), np.eye(r))
    G = turn @ joint @ turn - noise * np.eye(2 * r)
    shared = _root(G[:r, :r])
    mixed = G[r:, :r] @ np.linalg.pinv(shared, rcond=1e-12, hermitian=True)
    rest = _root(G[r:, r:] - mixed @ mixed.T)
    return np.asarray(turn @ np.block([[shared, np.zeros((r, r))], [mixed, rest]]))


def _smooth_agreement(points: Array, lift: Array, twin: Array) -> Array:
    """Σ_l Z_l(g)Z_l(g') − Σ_l Z_l(g₀)² (n,), (g, g') = lift·point and g₀ = twin·point."""
    k, r = twin.shape
    parts, chunks = [], -(-len(points) * k * GRID.size // _MEMORY)
    for part in np.array_split(points, chunks):
        fields = part @ lift.T
        both = win_probabilities(fields[:, :k]) * win_probabilities(fields[:, k:])
        parts.append((both - win_probabilities(part[:, :r] @ twin.T) ** 2).sum(1))
    return np.concatenate(parts)
