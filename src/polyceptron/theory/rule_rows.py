"""Rows of the rules that minimise no loss of all fields: one-vs-rest, class means, discriminants.

One-vs-rest has k binary students, each class against all others, and the largest field wins.
Student c minimises Σ_μ ℓ(s_μ h_μ) + (λ/2)‖w_c‖² with h = w_c·x/√d + b and s = 1 for its own class,
else −1. It is empirical risk minimisation in all k fields with a loss that is a sum over them: the
proximal map acts on each field alone, with one V. Where classes are alike the fields' covariance is
q on the class differences and p along (1, …, 1), which no label shows, and b is one number:

    m̂ = (α/r) E Σ_l ∇Z_l·f_l,   q̂ = (α/r) E Σ_l Z_l‖f_⊥‖²,   p̂ = α E Σ_l Z_l (1·f)²/k,
    V̂ = (α/k) E Σ_l Z_l Σ_c(−∂f_c),   E Σ_l Z_l 1·f = 0                                    (gives b)

with Z at mean (m/q)ω_⊥ and variance 1 − m²/q; then the ridge's weights side, p having no signal.
The error is that of the correlation m/√q, as for every student of class differences. Averages are
taken over the points of `sides/fields/points.py` with label 1, k times. For losses with kinks V̂
comes by parts: with x the fields of variance 1, of which ω_c = √q(x_c − x̄) + √p x̄ + b,

    (√q r + √p) C = r√q (m/q) M − E Σ_l Z_l x·f_l.

A binary loss is a loss of two classes with fields (−h/2, h/2), so that V is halved there. Two
classes are that loss at ridge 2λ, with fields twice as large; so are, nearly, more of them, from
which the search for their own law begins.

Class means of a teacher whose classes are alike, W = Σ_μ x_μ(e_y − 1/k)ᵀ/√d, have no response to
their own fields: with c = E[e_y·z]/(k − 1) the channel's signal

    m = αc⟨s²θ⟩,     q − m² = (αc)²(⟨s³θ⟩ − ⟨s²θ⟩²) + (α/k)⟨s²⟩

Of a mixture the mean of class j is μ_j/√d and noise of variance s_j/(αp_j d) in every direction, so
that in group c, with levels of eigenvalues as in `sides/scores.py`,

    mean Σ G,   covariance Σ s_c G + diag_j(⟨s_c s_j⟩/(αp_j)),   b_j = −(G_jj + ⟨s_j⟩/(αp_j))/2

Discriminant analysis with a ridge is least squares with that ridge where classes are alike.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import approx_fprime

from polyceptron.checks import check_alphas, check_tolerance, difference_basis
from polyceptron.display import steps
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import N_REPLICATES, estimate_from_replicates
from polyceptron.problem import ERM, AnyTeacher, Estimator, Loss, Population
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.penalties import spectrum_sums
from polyceptron.problem.populations import check_population, check_teacher
from polyceptron.rows import Status, make_row
from polyceptron.sides.fields.points import boundary_points
from polyceptron.sides.generalisation import error_at_tau, error_on_labels, error_slope
from polyceptron.sides.scores import FieldsDistribution, population_scores
from polyceptron.solve.minimise import Minimum, Place, Trial, check_minimum, minimise
from polyceptron.solve.root import Root, newton
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.erm.rows import erm_rows

_LEVELS = (0, 1, 3, 5)  # of the points
_STEP = 1e-3  # of a numerical derivative in θ
_ROOT = 1e-7  # of θ
_RIDGES = (math.log(1e-6), math.log(1e3))  # ln λ, beyond which no larger one is a better start
_SMALLEST = 1e-8  # ridge that is tried in the search for the best
_FIRST, _UP, _SHORTEST = -3.0, 2.0, 0.05  # of ln λ: a search's start, a step up, the shortest
_ROUNDING = 1e-12  # of an error in closed form
Nodes = tuple[Array, Array]  # fields of variance 1 (k, n) with label 1, and weights (n,)


@dataclass(frozen=True)
class BinaryStudents:
    """k binary students of a loss at one α: the equations for θ = (ln τ, ln q, √p, ln V, b)."""

    teacher: AnyTeacher
    loss: Loss
    ridge: float
    alpha: float

    @np.errstate(all="ignore")  # far from the root
    def values(self, theta: Array, nodes: Nodes) -> Array:
        """θ less that after a round, training error and loss: (7, replicates)."""
        x, weight = nodes
        k, a = len(x), self.alpha
        law, root_p, b = ScalarOrder(*np.exp(theta[[0, 1, 3]]).tolist()), theta[2], theta[4]
        common = x.mean(0)
        across = x - common
        omega = math.sqrt(law.q) * across + root_p * common + b
        gaps = law.slope * math.sqrt(law.q) * (across[0] - across[1:])
        label = self.teacher.channel.label_law(gaps, law.residual)
        sides, own = np.stack([-omega.ravel() / 2, omega.ravel() / 2], 1), np.zeros(x.shape, int)
        own[0] = 1
        f, stiff = self.loss.denoise(sides, own.ravel(), law.V / 2)
        values = self.loss.value_at_prox(sides + law.V / 2 * f, own.ravel()).reshape(x.shape)
        f = (f[:, 1] - f[:, 0]).reshape(x.shape) / 2  # a loss of differences pulls both alike
        held, total, Z = omega + law.V * f, f.sum(0), label.z
        parts = np.stack(
            [
                (label.slopes * (f[0] - f[1:])).sum(0) / (k - 1),
                Z * ((f**2).sum(0) - total**2 / k) / (k - 1),
                Z * total**2 / k,
                Z * stiff.reshape(x.shape).sum(0) / (2 * k),
                Z * total / k,
                Z * (held[0] < held[1:].max(0)),
                Z * values.sum(0),
            ]
        )
        M, Q, P, C, pull, *trained = (parts * weight).reshape(7, N_REPLICATES, -1).sum(2)
        if self.loss.coordinates.jumps:  # −∂f is a step function of θ
            x_f = (weight * Z * (x * f).sum(0)).reshape(N_REPLICATES, -1).sum(1)
            slope = (k - 1) * math.sqrt(law.q) * law.slope
            C = (slope * M - x_f) / ((k - 1) * math.sqrt(law.q) + root_p)
        sums, m = spectrum_sums(self.ridge, self.teacher.features, a * C), a * M
        rest = a * Q * sums.norm + m**2 * sums.spread
        m = m * sums.mean
        tau, q, V = (
            np.log(np.maximum(v, 1e-300)) for v in (m / np.sqrt(rest), m**2 + rest, sums.response)
        )
        new = [tau, q, np.sqrt(a * P * sums.norm), V, b + pull / C]
        return np.concatenate([theta[:, None] - np.array(new), trained])

    def nodes(self, theta: Array, level: int) -> Nodes:
        """Placed for the law at θ."""
        law = ScalarOrder(*np.exp(theta[[0, 1, 3]]).tolist())
        own, k = self.loss.coordinates, self.teacher.n_classes
        below, weight, first = boundary_points(own, self.teacher.channel, k, law, level)
        return np.concatenate([first[None], first - below]), N_REPLICATES * weight

    def start(self) -> Array:
        """θ of the loss in all fields at twice the ridge, which is that of the square loss."""
        k = self.teacher.n_classes
        near = erm_fixed_point(self.teacher, ERM(self.loss, 2 * self.ridge), self.alpha, 1e-2)
        logs = np.log([near.tau, 4 * near.q, 2 * near.V])
        return np.array([logs[0], logs[1], 0.5, logs[2], -math.log(k - 1)])

    def solve(
        self, theta: Array, nodes: Nodes, slopes: Array | None = None
    ) -> tuple[Array, Array, Array] | None:
        """The root next to θ on these points, the values there and their slopes ∂/∂θ (7, 5)."""
        found = self.root(theta, nodes, slopes)
        if not found.converged:
            return None
        slopes = self.slopes(found.theta, nodes) if slopes is None else slopes.copy()
        slopes[:5] = found.jacobian
        return found.theta, self.values(found.theta, nodes), slopes

    def root(self, theta: Array, nodes: Nodes, slopes: Array | None) -> Root:
        """By Newton's method from θ, with slopes ∂/∂θ (7, 5) from near by if there are some."""
        near = None if slopes is None else slopes[:5]
        return newton(lambda at: self.means(at, nodes)[:5], theta, tol=_ROOT, jacobian=near)

    def means(self, theta: Array, nodes: Nodes) -> Array:
        """Of the values over all replicates: (7,)."""
        return np.asarray(self.values(theta, nodes).mean(1))

    def slopes(self, theta: Array, nodes: Nodes) -> Array:
        """∂/∂θ of the means, (7, 5)."""
        return np.asarray(approx_fprime(theta, self.means, _STEP, nodes))


class RidgePath:
    """Roots on few points over ln λ: each begins at the nearest known one, along its tangent

        dθ/d ln λ = −(∂F/∂θ)⁻¹ ∂F/∂ln λ,

    of which the first component is 0 at the λ of least error. The first is one of a large λ, where
    the start is near.
    """

    def __init__(self, students: BinaryStudents) -> None:
        self.students = students
        self._seen: dict[float, tuple[Array, Array, Array]] = {}

    def at(self, x: float) -> tuple[Array, Array, Array]:
        """θ, ∂F/∂θ (7, 5) and the tangent at ln λ = x."""
        if x in self._seen:
            return self._seen[x]
        if not self._seen and x < _FIRST:
            self.at(_FIRST)
        here = replace(self.students, ridge=math.exp(x))
        near = min(self._seen, key=lambda other: abs(other - x), default=math.inf)
        theta, slopes, tangent = self._seen.get(near) or (here.start(), None, np.zeros(5))
        theta = theta + (x - near) * tangent if self._seen else theta
        nodes = here.nodes(theta, _LEVELS[0])
        found = here.root(theta, nodes, slopes)
        if not found.converged:  # from half-way, or from a larger λ
            if x > _RIDGES[1] or abs(x - near) < _SHORTEST:
                raise ComputationFailed(
                    f"no fixed point of one-vs-rest at alpha {here.alpha:g} and ridge "
                    f"{here.ridge:.3g}: give a larger ridge"
                )
            self.at((x + near) / 2 if self._seen else x + _UP)
            return self.at(x)
        theta, slopes = found.theta, here.slopes(found.theta, nodes)
        low, high = (
            replace(here, ridge=math.exp(x + s)).means(theta, nodes)[:5] for s in (-_STEP, _STEP)
        )
        tangent = np.asarray(np.linalg.solve(slopes[:5], (low - high) / (2 * _STEP)))
        self._seen[x] = theta, slopes, tangent
        return self._seen[x]

    def trial(self, ridge: float) -> Trial:
        """The error at a ridge on few points and its slope in ln λ, for the minimiser."""
        try:
            theta, _, tangent = self.at(math.log(ridge))
        except ComputationFailed:
            return Trial(math.inf)
        channel = self.students.teacher.channel
        n_classes = self.students.teacher.n_classes
        tau = math.exp(theta[0])
        error = float(error_on_labels(channel, tau, n_classes))
        return Trial(error, -error_slope(channel, tau, n_classes) * float(tangent[0]))

    def best(self, tol: float) -> Minimum:
        """The minimum of the error over the ridge, on few points."""
        alpha = self.students.alpha
        largest = 1e3 * max(1.0, alpha)
        found = minimise(self.trial, math.exp(_FIRST), tol, range_=(_SMALLEST, largest))
        if found is None:
            raise ComputationFailed(
                f"no fixed point of one-vs-rest at alpha {alpha:g} on the way to the optimal "
                f"ridge: give a ridge instead of 'optimal'"
            )
        return found


def one_vs_rest_rows(
    teacher: AnyTeacher, estimator: Any, alphas: Iterable[float], tol: float | None = None
) -> list[dict[str, Any]]:
    """One row for each α of `estimator`, which has a loss, a ridge and columns."""
    check_teacher(teacher)
    tol, rows = check_tolerance(tol, 1e-4), []
    for alpha in steps(check_alphas(alphas)):
        if alpha == 0:  # no sample: every field is 0
            (row,) = erm_rows(teacher, ERM(estimator.loss, estimator.ridge), [alpha])
            rows.append({**row, "estimator": estimator.name})
            continue
        if teacher.n_classes == 2:
            rows.append(_of_two(teacher, estimator, alpha, tol))
            continue
        path = RidgePath(BinaryStudents(teacher, estimator.loss, 1.0, alpha))
        columns = {**teacher.columns, **estimator.columns, "alpha": alpha}
        if estimator.ridge == "optimal":
            columns |= _best_point(path, tol)
        else:
            columns |= _point(path, float(estimator.ridge), tol)
        rows.append(make_row(source="theory", **columns))
    return rows


def _best_point(path: RidgePath, tol: float) -> dict[str, Any]:
    """The columns at the ridge of least error, whose uncertainty counts what is left open.

    The ridge is searched for on few points, and compared with its neighbours on as many as the
    tolerance asks for.
    """
    coarse = path.best(tol)

    def trial(ridge: float) -> Trial:
        columns = _point(path, ridge, tol)
        return Trial(columns.get("generalisation_error", math.inf), answer=columns)

    found = coarse
    if coarse.place == Place.INSIDE:
        found = check_minimum(trial, coarse.parameter, tol) or coarse
    columns = found.trial.answer or _point(path, found.parameter, tol)
    if "uncertainty" in columns:
        columns["uncertainty"] += found.left_open
        if columns["uncertainty"] > tol or found.place == Place.EDGE:
            columns["status"] = Status.TOLERANCE_NOT_MET
    return {**columns, "ridge": found.parameter}


def _of_two(teacher: AnyTeacher, estimator: Any, alpha: float, tol: float) -> dict[str, Any]:
    """Both students are one, and their losses two."""
    ridge = estimator.ridge if isinstance(estimator.ridge, str) else 2 * estimator.ridge
    (row,) = erm_rows(teacher, ERM(estimator.loss, ridge), [alpha], tol)
    times = {"m": 2, "q": 4, "V": 2, "ridge": 0.5}
    times |= {"training_loss": 2, "training_loss_uncertainty": 2}
    return {**{n: v * times.get(n, 1) for n, v in row.items()}, "estimator": estimator.name}


def _point(path: RidgePath, ridge: float, tol: float) -> dict[str, Any]:
    """The columns of a fixed point with the error to `tol`: on more points until it is."""
    students = replace(path.students, ridge=ridge)
    channel, k = students.teacher.channel, students.teacher.n_classes
    columns = dict[str, Any]()
    try:
        theta, slopes, _ = path.at(math.log(ridge))
    except ComputationFailed:  # few points may have no root
        theta, slopes = students.start(), None
    for level in _LEVELS:
        found = students.solve(theta, students.nodes(theta, level), slopes)
        if found is None:
            continue
        theta, values, slopes = found
        off = np.linalg.solve(slopes[:5], values[:5])
        own = theta[:, None] - off + off.mean(1, keepdims=True)  # each replicate's θ
        law = ScalarOrder(*np.exp(theta[[0, 1, 3]]).tolist())
        error = float(error_on_labels(channel, law.tau, k))
        trained = values[5:] + slopes[5:] @ (own - theta[:, None])
        columns = {"m": law.m, "q": law.q, "V": law.V, "generalisation_error": error}
        if not channel.noiseless:
            columns["clean_error"] = float(error_at_tau(law.tau, k))
        for name, value, each in (
            ("", error, error_on_labels(channel, np.exp(own[0]), k)),
            *zip(("training_error", "training_loss"), values[5:].mean(1), trained, strict=True),
        ):
            spread = estimate_from_replicates(each)
            bar = float(spread.uncertainty + abs(spread.value - value))
            columns |= {name: float(value), f"{name}_uncertainty".strip("_"): bar}
        if columns["uncertainty"] <= tol:
            break
    columns.pop("", None)
    status = Status.TOLERANCE_NOT_MET if columns else Status.NOT_CONVERGED
    met = columns.get("uncertainty", math.inf) <= tol
    return {**columns, "status": Status.OK if met else status}


def class_means_rows(
    teacher: Any, estimator: Estimator, alphas: Iterable[float], tol: float | None = None
) -> list[dict[str, Any]]:
    """One row for each α: of a teacher with classes that are alike, or of a mixture."""
    check_population(teacher)
    one = _of_teacher if teacher.symmetric else _of_mixture
    return [one(teacher, estimator, alpha) for alpha in check_alphas(alphas)]


def _of_teacher(teacher: AnyTeacher, estimator: Estimator, alpha: float) -> dict[str, Any]:
    channel, k, f = teacher.channel, teacher.n_classes, teacher.features
    s, share = f.eigenvalues, f.fraction
    along = s * f.signal * share  # of sum 1: the teacher's variance along each
    m = alpha * channel.signal(k) * float(s @ along)
    spread = float(((s - s @ along) ** 2) @ along)
    rest = (alpha * channel.signal(k)) ** 2 * spread + alpha / k * float(s**2 @ share)
    tau = m / math.sqrt(rest) if rest > 0 else 0.0
    return make_row(
        source="theory",
        **teacher.columns,
        **estimator.columns,
        alpha=alpha,
        m=m,
        q=m * m + rest,
        V=0.0,
        generalisation_error=float(error_on_labels(channel, tau, k)),
        uncertainty=max(_ROUNDING, channel.accuracy),
        status=Status.OK,
        clean_error=None if channel.noiseless else float(error_at_tau(tau, k)),
    )


def _of_mixture(population: Population, estimator: Estimator, alpha: float) -> dict[str, Any]:
    levels, p = population.levels_of_features, population.group_shares
    if population.label_channel is not None or levels is None or alpha == 0:
        raise InvalidInput(
            "the theory of class means takes a teacher whose classes are alike, or a mixture whose "
            f"covariances share eigenvectors, at an alpha above 0; got {population!r}"
        )
    f, s, G = levels.fraction, levels.variance, levels.gram
    noise = np.einsum("l,lc,lj->cj", f, s, s) / (alpha * p)
    covariance = np.einsum("lc,lij->cij", s, G) + noise[:, :, None] * np.eye(len(p))
    gram = G.sum(0)
    offset = -0.5 * (np.diag(gram) + f @ s / (alpha * p))
    T = difference_basis(len(p))
    law = FieldsDistribution(p, gram @ T, T.T @ covariance @ T, T.T @ offset)
    columns = {**population.columns, **estimator.columns, **population_scores(law).columns}
    return make_row(source="theory", **columns, alpha=alpha, status=Status.OK)


def lda_rows(
    teacher: AnyTeacher, estimator: Any, alphas: Iterable[float], tol: float | None = None
) -> list[dict[str, Any]]:
    """The rows of least squares with the same ridge, without what is trained on."""
    check_teacher(teacher)
    rows = erm_rows(teacher, ERM("square", estimator.ridge), list(alphas), tol)
    kept = [{n: v for n, v in row.items() if not n.startswith("training_")} for row in rows]
    return [{**row, "estimator": estimator.name} for row in kept]
