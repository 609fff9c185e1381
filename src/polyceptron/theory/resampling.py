"""Two students on one data set: bootstrap samples, subsamples and folds, exactly.

Student a gives sample μ the weight w_aμ: a Poisson number of copies (bootstrap), 1 or 0 (a
subsample, folds). That is V → wV in the proximal map, with f = w f^(wV): one student solves

    m̂ = αE[w M(wV)],   q̂ = αE[w² Q(wV)],   V̂ = αE[w C(wV)].

Two of them share teacher, inputs and labels. Their fields ω₁, ω₂ have one more covariance, q₁₂, and
with u ~ N(0, q₁₂) what they have in common, η the rest of one of them and f̄ = E[w f^(wV)],

    q̂₁₂ = αc (1/r) E Σ_l Z_l(u) ‖E_η f̄_l(u + √(q − q₁₂) η)‖²,     c = E[w₁w₂]/E[w]²,

Z at the law (m, q₁₂): c = 1 for independent resampling; `populations/matrix_pairs.py` has it, and
that of classes that are not alike. The weights side turns (m̂, q̂₁₂, V̂) into q₁₂ as it turns
(m̂, q̂, V̂) into q; q̂₁₂ = 0 are students of data sets of their own. Of B students

    fields' mean     q_B = q/B + (1 − 1/B) q₁₂, and the error at m/√q_B
    one prediction   varies over resamples by q − q₁₂, over fresh data by q − q₁₂ at q̂₁₂ = 0
    two of them      agree with probability 1 − ε(q₁₂/q)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from scipy.optimize import brentq
from scipy.stats import poisson

from polyceptron.checks import check_alpha, check_tolerance
from polyceptron.display import ShortDisplay
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import estimate_from_replicates
from polyceptron.problem.losses import Loss
from polyceptron.problem.order import Conjugates, ScalarOrder
from polyceptron.problem.populations import AnyTeacher, check_population
from polyceptron.problem.specs import as_erm
from polyceptron.rows import Status
from polyceptron.sides.fields.integrand import Averages, Averaging
from polyceptron.sides.generalisation import error_on_labels, error_slope, generalisation_error
from polyceptron.sides.matrix.fields import MatrixOrder, MatrixProblem
from polyceptron.sides.scalar import FieldsSide, Problem, erm_sides
from polyceptron.theory.erm.fixed_point import erm_fixed_point, solve
from polyceptron.theory.erm.point import ErmFixedPoint
from polyceptron.theory.erm.unequal_classes import matrix_problem
from polyceptron.theory.resampling_pairs import pair_hats, population_pair

if TYPE_CHECKING:
    import pandas as pd

_RARE, _SEEN = 1e-11, 1e-3  # p w² of the copies that are left out; of those of matrices, by tol
_EDGE, _CLOSE = 1e-4, {2: 1e-7, 3: 1e-5}  # of the way from students of fresh data to equal ones
_TOLERANCE = {2: 1e-6, 3: 1e-4}


class Scheme(NamedTuple):
    """Weights w > 0 of a sample with their probabilities, c = E[w₁w₂]/E[w]², and how many fits."""

    counts: tuple[tuple[float, float], ...]
    coupling: float = 1.0
    most: float = math.inf


def read_scheme(text: Any) -> Scheme:
    """What a written scheme means.

    >>> round(read_scheme("folds:5").coupling, 6)
    0.9375
    """
    name, _, number = str(text).partition(":")
    try:
        share = float(number) if number or name != "bootstrap" else 1.0
    except ValueError:
        share = math.nan
    if name == "bootstrap" and 0 < share <= 10:
        w = np.arange(1, 100)
        p = poisson.pmf(w, share)
        kept = p * w * w > _RARE
        return Scheme(tuple(zip(w[kept].tolist(), p[kept].tolist(), strict=True)))
    if name == "subsample" and 0 < share <= 1:
        return Scheme(((1.0, share),))
    if name == "folds" and share >= 2 and share == round(share):
        return Scheme(((1.0, 1 - 1 / share),), (1 - 2 / share) / (1 - 1 / share) ** 2, share)
    raise InvalidInput(
        f"unknown resampling {text!r}: allowed are bootstrap, bootstrap:SHARE, subsample:SHARE, "
        "folds:NUMBER, with a share from 0 to 1 (10 for the bootstrap) and two folds or more"
    )


@dataclass(frozen=True)
class ResampledSide(FieldsSide):
    """What n = αd samples tell a student that gives each of them a random weight."""

    counts: tuple[tuple[float, float], ...] = ((1.0, 1.0),)

    def averages(self, level: int, reference: ScalarOrder) -> Averaging:
        if self.explicit(reference) is not None:
            return cast(Averaging, self.explicit)
        args, weights = (self.student, self.channel, self.n_classes), [w for w, _ in self.counts]
        each = [self.rule.place(*args, _at(reference, w), level) for w in weights]
        return lambda law: self._mixed([f(_at(law, w)) for f, w in zip(each, weights, strict=True)])

    def explicit(self, law: ScalarOrder) -> Averages | None:
        found = [FieldsSide.explicit(self, _at(law, w)) for w, _ in self.counts]
        return self._mixed([a for a in found if a is not None]) if found[0] is not None else None

    def _mixed(self, each: list[Averages]) -> Averages:
        power = {"Q": 2, "error": 0, "mass": 0}
        w, p = np.array(self.counts).T
        mixed = {
            name: (p * w ** power.get(name, 1)) @ np.array([getattr(a, name) for a in each])
            for name in Averages._fields
        }
        return Averages(**{**mixed, "mass": mixed["mass"] + 1 - p.sum()})


def _at(law: ScalarOrder, weight: float) -> ScalarOrder:
    return replace(law, V=weight * law.V)


@dataclass(frozen=True, repr=False)
class Resampling(ShortDisplay):
    """The overlap q₁₂ of two students, and what it says of them; `frame` has all of it as rows.

    Of classes that are not alike m (G, r) and q, V, q₁₂ (G, r, r) are those of each group.
    """

    scheme: str
    alpha: float
    ridge: float
    m: float | Array
    q: float | Array
    V: float | Array
    q12: float | Array
    q12_uncertainty: float | Array
    status: Status
    rows: tuple[dict[str, Any], ...]

    @property
    def frame(self) -> pd.DataFrame:
        """Columns quantity, fits, value, uncertainty, status."""
        import pandas as pd

        return pd.DataFrame(list(self.rows))


def resampling(
    teacher: Any,
    estimator: Any,
    alpha: float,
    scheme: str = "bootstrap",
    fits: Sequence[float] = (1, 10, math.inf),
    tol: float | None = None,
) -> Resampling:
    """Fits on resampled data, for n = αd, d → ∞: bagging, variance, cross-validation, agreement.

    Parameters
    ----------
    teacher : Teacher, Perceptron or Mixture
    estimator : ERM, Loss or str
        With a ridge above 0.
    alpha : float
        n/d of the whole data set.
    scheme : str
        'bootstrap' (n draws with replacement; 'bootstrap:0.5' for n/2), 'subsample:0.5' (each
        sample with probability 1/2), 'folds:5' (all samples but those of one fold, another for
        each fit).
    fits : list of float
        Numbers B of fits whose fields are averaged; inf for all, which are K of K folds.
    tol : float, optional
        Of each row: by default 1e-6, 1e-4 and 3e-3 for k = 2, k = 3 and more (3e-3 for hinges of
        three classes that are not alike).

    Returns
    -------
    Resampling
        Its rows: 'error' of B averaged fits, 'bias' of one of them (that of K-fold cross-validation
        for folds) against the fit of all data, 'agreement' of two, and the variance of a field over
        resamples, over fresh data sets, and their ratio (of classes that are not alike the mean
        over k − 1 orthonormal class differences, and over groups by their shares).

    Examples
    --------
    >>> from polyceptron.problem import ERM, Teacher
    >>> found = resampling(Teacher(3), ERM("square", 0.5), 2.0)
    >>> found.frame.query("quantity == 'error'").value.round(4).tolist()
    [0.3785, 0.3154, 0.3054]
    """
    check_population(teacher)
    spec, how = as_erm(estimator), read_scheme(scheme)
    if spec.penalty is not None or isinstance(spec.ridge, str) or spec.ridge == 0:
        raise InvalidInput(f"resampling needs a number above 0 as its ridge, got {spec.columns}")
    alpha, k = check_alpha(alpha), teacher.n_classes
    if alpha == 0:
        raise InvalidInput("resampling needs samples: alpha must be above 0")
    for number in fits:
        if not (number >= 1 and (math.isinf(number) or number == round(number))):
            raise InvalidInput(f"the number of fits must be a whole number or inf, got {number!r}")
    matrices = None if spec.sees_equal_classes(teacher) else matrix_problem(teacher, spec, alpha)
    sampled = k > 3 or (matrices is not None and matrices.sampled)
    tol = check_tolerance(tol, 3e-3 if sampled else _TOLERANCE[k])
    rows: list[dict[str, Any]] = []

    def add(quantity: str, value: float, doubt: float, number: float = math.nan) -> None:
        status = Status.OK if doubt <= tol * max(1.0, abs(value)) else Status.TOLERANCE_NOT_MET
        numbers = {"fits": number, "value": value, "uncertainty": doubt, "status": status}
        rows.append({"quantity": quantity, **numbers})

    def made(m: Any, q: Any, V: Any, q12: Any, bar: Any) -> Resampling:
        missed = any(row["status"] != Status.OK for row in rows)
        status, ridge = Status.TOLERANCE_NOT_MET if missed else Status.OK, float(spec.ridge)
        return Resampling(str(scheme), alpha, ridge, m, q, V, q12, bar, status, tuple(rows))

    bagged = list(dict.fromkeys(min(float(number), how.most) for number in fits))
    if matrices is not None:
        copies = [(w, p) for w, p in how.counts if w == 1 or p * w * w > _SEEN * tol]
        matrices = replace(matrices, copies=tuple(copies))
        point, shared, found = population_pair(matrices, how.coupling, bagged, tol)
        for (quantity, number), numbers in found.items():
            add(quantity, *numbers, number)
        return made(point.m, point.Q, point.V, *shared)
    whole = erm_sides(teacher, spec.loss, float(spec.ridge), alpha)
    side = ResampledSide(teacher.channel, spec.loss, k, alpha, counts=how.counts)
    problem = replace(whole, fields=side)
    fine = tol / 100 if k <= 3 else min(tol / 10, 1e-4)
    one, full = solve(problem, fine), erm_fixed_point(teacher, spec, alpha, fine)
    if not (math.isfinite(one.tau) and math.isfinite(full.tau)):
        raise ComputationFailed(f"the fixed point at alpha {alpha:g} was not found")
    loose, loose_full = (  # of ln q, ln V and ln τ, by the fixed points' own uncertainty
        4 * point.uncertainty / max(error_slope(teacher.channel, point.tau, k), 1e-300)
        for point in (one, full)
    )
    q12, spread = _overlap(teacher, problem, one, how.coupling)
    within = one.q - q12
    doubt = spread + loose * within

    def error(number: float, shared: float) -> float:
        rest = one.law.residual * one.q / number + (1 - 1 / number) * (shared - one.m**2)
        tau = one.m / math.sqrt(max(rest, 1e-300))
        return float(error_on_labels(teacher.channel, tau, k))

    for number in bagged:
        value = error(number, q12)
        moved = abs(error(number, min(q12 + doubt, one.q)) - value) if number > 1 else 0.0
        add("error", value, one.uncertainty + 1.5 * moved, number)
    bias = one.generalisation_error - full.generalisation_error
    add("bias", bias, one.uncertainty + full.uncertainty, 1.0)
    same, least = (
        1 - generalisation_error(min(max(shared / one.q, -1.0), 1.0), k)
        for shared in (q12, q12 - doubt)
    )
    add("agreement", same, same - least, 2.0)
    fresh = full.q - whole.weights(Conjugates(full.m_hat, 0.0, full.V_hat)).q
    ratio = within / fresh
    add("variance over resamples", within, doubt)
    add("variance over fresh data", fresh, loose_full * fresh)
    add("ratio of variances", ratio, doubt / fresh + ratio * loose_full)
    return made(one.m, one.q, one.V, q12, spread + loose * q12)


def _overlap(
    teacher: AnyTeacher, problem: Problem, one: ErmFixedPoint, coupling: float
) -> tuple[float, float]:
    """q₁₂ and its uncertainty: a root in (q₁₂ of fresh data, q), corrected by a finer rule."""
    side = cast(ResampledSide, problem.fields)

    def after(q_hat: Array) -> Array:
        return np.array(
            [problem.weights(Conjugates(one.m_hat, float(x), one.V_hat)).q for x in q_hat]
        )

    low, high = float(after(np.zeros(1))[0]), one.q
    if coupling == 0:
        return low, 1e-9 * high
    if side.counts == ((1.0, 1.0),):  # all samples: the same students
        return high, 0.0
    psi = [pair_average(teacher, side, one.law, level) for level in (0, 1)]

    def off(x: float, level: int = 0) -> Array:
        return after(problem.alpha * coupling * psi[level](x)) - x

    ends = [low + share * (high - low) for share in (_EDGE, 1 - _EDGE)]
    if off(ends[0]).mean() <= 0:
        return low, _EDGE * (high - low)
    if off(ends[1]).mean() >= 0:
        return high, _EDGE * (high - low)
    close = _CLOSE[min(side.n_classes, 3)] * (high - low)
    root = float(brentq(lambda x: float(off(x).mean()), ends[0], ends[1], xtol=close))
    step = 1e-3 * min(root - low, high - root)
    slope = float((off(root + step) - off(root)).mean()) / step
    for _ in range(2 if side.n_classes > 3 else 1):
        left = estimate_from_replicates(off(root, 1))
        move = float(left.value) / slope
        root = min(max(root - move, ends[0]), ends[1])
    return root, abs(move) + abs(float(left.uncertainty) / slope) + 1e-9 * high


def pair_average(
    teacher: AnyTeacher, side: ResampledSide, law: ScalarOrder, level: int
) -> Callable[[float], Array]:
    """q₁₂ → (1/r) E Σ_l Z_l ‖E_η f̄_l‖², one value a replicate."""
    if FieldsSide.explicit(side, law) is None:
        return _by_nodes(teacher, side, law, level)

    def linear(q12: float) -> Array:
        """f is linear in ω and of one direction for all weights: (Σ p w √Q)²."""
        pair = ScalarOrder.of_overlaps(law.m, q12, law.V)
        each = [(FieldsSide.explicit(side, _at(pair, w)), w, p) for w, p in side.counts]
        return np.asarray(sum(p * w * np.sqrt(a.Q) for a, w, p in each if a) ** 2)

    return linear


def _by_nodes(
    teacher: AnyTeacher, side: ResampledSide, law: ScalarOrder, level: int
) -> Callable[[float], Array]:
    """That of matrices, which are multiples of the identity, from label 1 alone."""
    k, eye = side.n_classes, np.eye(side.n_classes - 1)
    problem = MatrixProblem(
        teacher, cast(Loss, side.student), np.ones(k), 1.0, 1.0, False, side.counts
    )
    Q, V, none = law.q * law.residual * eye[None], law.V * eye[None], np.zeros(k - 1)
    order = MatrixOrder(none[None], Q, V, none, law.m * eye)
    average = pair_hats(problem, order, level, labels=1)

    def psi(q12: float) -> Array:
        hats = average((q12 - law.m**2) * eye[None])
        return np.asarray(k / (k - 1) * np.trace(hats[:, 0], axis1=1, axis2=2))

    return psi
