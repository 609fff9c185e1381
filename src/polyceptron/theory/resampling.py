"""Two students on one data set: bootstrap samples, subsamples and folds, exactly.

An extension of eq. SE of the paper, where n = αd samples fix m, q, V of one student. Student a
gives sample μ the weight w_aμ: how often it was drawn (bootstrap, a Poisson number in the limit), 1
or 0 (a subsample, folds). Two students share teacher, inputs and labels, so that their fields
ω₁, ω₂ have one more covariance, q₁₂. It is made of q̂₁₂, α times the mean product of what a sample
does to both (f_out of eq. SE), as q is made of q̂. It depends on the scheme by the law of w and by

    c = E[w₁w₂]/E[w]²

which is 1 for independent weights. For weights 1 or 0 the mean product is c times that of
independent ones. These are all schemes here. From q₁₂ follows, for B students,

    fields' mean     q_B = q/B + (1 − 1/B) q₁₂, and the error at the correlation m/√q_B
    one prediction   varies over resamples by q − q₁₂, over fresh data by q − q₁₂ at q̂₁₂ = 0,
                     as students of data of their own share the teacher alone
    two of them      agree with probability 1 − ε(q₁₂/q), ε(ρ) the error at correlation ρ

This module reads the scheme, checks the input and collects the rows. The equations of q₁₂ and the
error bars are in `resampling_equal_classes.py` (numbers) and `resampling_pairs.py` (matrices, for
unequal classes).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from scipy.stats import poisson

from polyceptron.checks import check_alpha, check_tolerance
from polyceptron.display import ShortDisplay
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem.populations import AnyTeacher, Population, check_population
from polyceptron.problem.specs import ERM, Estimator, as_erm
from polyceptron.rows import Row, Status
from polyceptron.sides.matrix.order import MatrixProblem
from polyceptron.theory.erm.unequal_classes import matrix_problem
from polyceptron.theory.resampling_equal_classes import TwoStudents, two_students
from polyceptron.theory.resampling_pairs import population_pair

if TYPE_CHECKING:
    import pandas as pd

# Weights w of probability p are left out where p w² is below this: f_out grows with w at most, so
# that p w² bounds their part of q̂ up to the squared slope of the loss. No error bar counts them.
# With matrices each weight costs a pass over the fields side, so that the bound is a share of tol.
NEGLIGIBLE_SECOND_MOMENT = 1e-11
NEGLIGIBLE_SHARE_OF_TOLERANCE = 1e-3

# Default tolerances of a row for two and three classes, and where averages are sampled.
DEFAULT_TOLERANCES = {2: 1e-6, 3: 1e-4}
SAMPLED_TOLERANCE = 3e-3


class Scheme(NamedTuple):
    """How samples are weighted.

    Attributes
    ----------
    text : str
        As written.
    counts : tuple of (w, p)
        Weights w > 0 of a sample with their probabilities; it has weight 0 otherwise.
    coupling : float
        c = E[w₁w₂]/E[w]² of two students.
    most : float
        The largest number of fits: K for K folds.
    """

    text: str
    counts: tuple[tuple[float, float], ...]
    coupling: float = 1.0
    most: float = math.inf


def read_scheme(text: str) -> Scheme:
    """Return what a written scheme means.

    Examples
    --------
    >>> round(read_scheme("folds:5").coupling, 6)
    0.9375
    """
    name, _, number = str(text).partition(":")
    if name == "bootstrap" and not number:
        number = "1"
    try:
        share = float(number)
    except ValueError:
        share = math.nan
    if name == "bootstrap" and 0 < share <= 10:
        w = np.arange(1, 100)  # far beyond the largest that matters at a share of 10
        counts = tuple(zip(w.tolist(), poisson.pmf(w, share).tolist(), strict=True))
        return Scheme(str(text), _weights_that_matter(counts, NEGLIGIBLE_SECOND_MOMENT))
    if name == "subsample" and 0 < share <= 1:
        return Scheme(str(text), ((1.0, share),))
    if name == "folds" and share >= 2 and share == round(share):
        in_one_fit = 1 - 1 / share
        in_both_fits = 1 - 2 / share
        return Scheme(str(text), ((1.0, in_one_fit),), in_both_fits / in_one_fit**2, share)
    raise InvalidInput(
        f"unknown resampling {text!r}: allowed are bootstrap, bootstrap:SHARE, subsample:SHARE, "
        "folds:NUMBER, with a share from 0 to 1 (10 for the bootstrap) and two folds or more"
    )


def _weights_that_matter(
    counts: tuple[tuple[float, float], ...], smallest: float
) -> tuple[tuple[float, float], ...]:
    """Return the (w, p) with p w² above `smallest`, and w = 1, so that samples are seen at all."""
    return tuple((w, p) for w, p in counts if w == 1 or p * w * w > smallest)


@dataclass(frozen=True, repr=False)
class Resampling(ShortDisplay):
    """The overlap q₁₂ of two students, and what it says of them; `frame` has all of it as rows.

    With equal classes m, q, V and q₁₂ are numbers. With unequal ones they are on r = k − 1 class
    differences, for each of G groups (the classes of a mixture, or the one group of a teacher):
    m (G, r) and q, V, q₁₂ (G, r, r).
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
    rows: tuple[Row, ...]

    @property
    def frame(self) -> pd.DataFrame:
        """The rows as a table with columns quantity, fits, value, uncertainty, status."""
        import pandas as pd

        return pd.DataFrame(list(self.rows))


@np.errstate(under="ignore")  # Densities far out are 0.
def resampling(
    teacher: Population,
    estimator: Estimator | str,
    alpha: float,
    scheme: str = "bootstrap",
    fits: Sequence[float] = (1, 10, math.inf),
    tol: float | None = None,
) -> Resampling:
    """Describe fits on resampled data at n = αd, d → ∞: bagging, variance, agreement.

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
        The tolerance of each row: by default 1e-6, 1e-4 and 3e-3 for k = 2, k = 3 and more (3e-3
        for hinges of three unequal classes).

    Returns
    -------
    Resampling
        Its rows:

        - 'error' of B averaged fits,
        - 'bias', the error of one of them less that of the fit of all data; for folds it is the
          bias of K-fold cross-validation,
        - 'agreement', the probability that two of them give the same answer,
        - 'variance over resamples' and 'variance over fresh data' of a field on a normalised class
          difference, and 'ratio of variances', the first over the second. For unequal classes the
          variances are means over k − 1 orthonormal differences, and over groups by their shares.

    Examples
    --------
    >>> from polyceptron.problem import ERM, Teacher
    >>> found = resampling(Teacher(3), ERM("square", 0.5), 2.0)
    >>> found.frame.query("quantity == 'error'").value.round(4).tolist()
    [0.3785, 0.3154, 0.3054]
    """
    check_population(teacher)
    spec = as_erm(estimator)
    how = read_scheme(scheme)
    alpha = check_alpha(alpha)
    _check_request(spec, alpha, fits)
    # No more than K of K folds: 10 and inf are then one row.
    numbers = list(dict.fromkeys(min(float(number), how.most) for number in fits))
    # Classes are equal unless the teacher, its shares or the class weights of the loss differ.
    if spec.sees_equal_classes(teacher):
        return _with_equal_classes(cast(AnyTeacher, teacher), spec, alpha, how, numbers, tol)
    return _with_unequal_classes(teacher, spec, alpha, how, numbers, tol)


def _with_equal_classes(
    teacher: AnyTeacher,
    spec: ERM,
    alpha: float,
    scheme: Scheme,
    numbers: Sequence[float],
    tol: float | None,
) -> Resampling:
    """Return the result where order parameters are numbers, for these numbers of fits."""
    tol = check_tolerance(tol, DEFAULT_TOLERANCES.get(teacher.n_classes, SAMPLED_TOLERANCE))
    pair = two_students(teacher, spec, alpha, scheme.counts, scheme.coupling, tol)
    rows = ResultRows(tol)
    rows.add_pair(pair, numbers)
    return Resampling(
        scheme=scheme.text,
        alpha=alpha,
        ridge=float(spec.ridge),
        m=pair.one.m,
        q=pair.one.q,
        V=pair.one.V,
        q12=pair.q12,
        q12_uncertainty=pair.q12_uncertainty,
        status=rows.status,
        rows=tuple(rows.rows),
    )


def _with_unequal_classes(
    population: Population,
    spec: ERM,
    alpha: float,
    scheme: Scheme,
    numbers: Sequence[float],
    tol: float | None,
) -> Resampling:
    """Return the result where order parameters are matrices, for these numbers of fits."""
    problem = matrix_problem(population, spec, alpha)
    tol = check_tolerance(tol, _matrix_tolerance(problem))
    smallest = NEGLIGIBLE_SHARE_OF_TOLERANCE * tol
    problem = replace(problem, copies=_weights_that_matter(scheme.counts, smallest))
    point, overlap, found = population_pair(problem, scheme.coupling, numbers, tol)
    rows = ResultRows(tol)
    for (quantity, number), (value, uncertainty) in found.items():
        rows.add(quantity, value, uncertainty, number)
    return Resampling(
        scheme=scheme.text,
        alpha=alpha,
        ridge=float(spec.ridge),
        m=point.m,
        q=point.Q,
        V=point.V,
        q12=overlap.value,
        q12_uncertainty=overlap.uncertainty,
        status=rows.status,
        rows=tuple(rows.rows),
    )


def _check_request(spec: ERM, alpha: float, fits: Sequence[float]) -> None:
    """Raise `InvalidInput` where the theory does not apply."""
    if spec.penalty is not None or isinstance(spec.ridge, str) or spec.ridge == 0:
        raise InvalidInput(f"resampling needs a number above 0 as its ridge, got {spec.columns}")
    if alpha == 0:
        raise InvalidInput("resampling needs samples: alpha must be above 0")
    for number in fits:
        if not (number >= 1 and (math.isinf(number) or number == round(number))):
            raise InvalidInput(f"the number of fits must be a whole number or inf, got {number!r}")


def _matrix_tolerance(problem: MatrixProblem) -> float:
    """Return the default tolerance of unequal classes; four and more are always sampled."""
    if problem.sampled:
        return SAMPLED_TOLERANCE
    return DEFAULT_TOLERANCES[problem.n_classes]


@dataclass
class ResultRows:
    """The rows of a result, each with a status by its own uncertainty."""

    tol: float
    rows: list[Row] = field(default_factory=list)

    @property
    def status(self) -> Status:
        """OK if every row met the tolerance."""
        if all(row["status"] == Status.OK for row in self.rows):
            return Status.OK
        return Status.TOLERANCE_NOT_MET

    def add(self, quantity: str, value: float, uncertainty: float, fits: float = math.nan) -> None:
        """Add a row; the tolerance is relative for values above 1."""
        status = Status.TOLERANCE_NOT_MET
        if uncertainty <= self.tol * max(1.0, abs(value)):
            status = Status.OK
        self.rows.append(
            {
                "quantity": quantity,
                "fits": fits,
                "value": value,
                "uncertainty": uncertainty,
                "status": status,
            }
        )

    def add_pair(self, pair: TwoStudents, numbers: Sequence[float]) -> None:
        """Add all rows of two students of equal classes, for these numbers B of averaged fits."""
        for number in numbers:
            self.add("error", *pair.error_of_average(number), number)
        self.add("bias", *pair.bias(), 1.0)
        self.add("agreement", *pair.agreement(), 2.0)
        self.add("variance over resamples", *pair.variance_over_resamples())
        self.add("variance over fresh data", *pair.variance_over_fresh_data())
        self.add("ratio of variances", *pair.ratio_of_variances())
