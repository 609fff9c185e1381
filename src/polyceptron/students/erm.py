"""Empirical risk minimisation: its theory is the fixed point, its simulation is the minimiser.

`ErmStudent` is the student of a specification `ERM`: a loss with a ridge λ or another penalty. Its
rows of theory are the fixed point of the paper's eq. SE with the error of eq. generalization_ERM,
computed in `theory/erm` with their error bars; (τ, q, V) there has τ = ρ/√(1 − ρ²), ρ = m/√q, in
place of m. Its rows of simulation are minimisers of eq. optimization_ERM (`fit/erm.py`) on drawn
samples X (n, d), y (n,), n = αd, with the teacher's weights `truth` (d, k): overlaps and errors of
the weights (d, k) found. Pruning, intercepts and class weights are not in the paper.

Several specifications with one loss can be fitted to the same samples. There are three ways:

- equal classes without intercepts: ridges share one path of fits,
- a `Pruned` population, where a part of the samples is kept,
- all others: unequal classes, intercepts, class weights.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from polyceptron.checks import check_alphas
from polyceptron.data.watching import uninterrupted
from polyceptron.errors import InvalidInput
from polyceptron.fit.erm import fit_erm, fit_erm_path
from polyceptron.fit.solvers.erm_fit import ERMFit
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.population import numbers_text
from polyceptron.problem.populations import AnyTeacher
from polyceptron.problem.pruned import Pruned
from polyceptron.problem.specs import ERM, Estimator, Probabilities
from polyceptron.rows import Row, make_row
from polyceptron.sides.scores import population_scores
from polyceptron.students.base import Student, StudentOrder
from polyceptron.students.measuring import measured, n_samples, weights_law
from polyceptron.theory.erm.fixed_point import erm_fixed_point, student_order
from polyceptron.theory.erm.probed import check_spec_of_probe, probed_order
from polyceptron.theory.erm.pruned_rows import check_spec_of_pruned, pruned_parts
from polyceptron.theory.erm.rows import erm_parts
from polyceptron.theory.separability import separable_up_to

FIT_TOLERANCE = 1e-8  # distance of simulated weights to the minimiser, relative


@dataclass(frozen=True)
class ErmStudent(Student):
    """The minimiser of a loss with a ridge or another penalty."""

    spec: ERM

    def rows(
        self,
        teacher: AnyTeacher,
        alpha: Any,
        *,
        branch: str = "optimal",
        tol: float | None = None,
    ) -> list[Row]:
        """Return one row of theory for each α, in the order given."""
        (rows,) = self.parts(teacher, [check_alphas(alpha)], branch=branch, tol=tol)
        return rows

    def parts(
        self,
        teacher: AnyTeacher,
        parts: Iterable[Iterable[float]],
        *,
        branch: str = "optimal",
        tol: float | None = None,
        searched: float = math.inf,
    ) -> Iterator[list[Row]]:
        """Yield the rows part by part; those of a `Pruned` population have their own theory.

        A best ridge is searched for in the first `searched` parts and interpolated in the others.
        There is one branch, whatever `branch` says.
        """
        if isinstance(teacher, Pruned):
            yield from pruned_parts(teacher, self.spec, parts, tol, searched)
        else:
            yield from erm_parts(teacher, self.spec, parts, tol, searched)

    def order_parameters(
        self, teacher: AnyTeacher, alpha: float, tol: float | None = None
    ) -> StudentOrder:
        """Return (τ, q, V) at α, of the samples that are kept where some are not.

        A hard margin fixes the direction of the weights alone: they have no scale, and q = V = 1.
        """
        if isinstance(teacher, Pruned):
            alpha = teacher.keep * alpha
            if teacher.probe_counts and alpha > 0:
                found, order, has_scale = probed_order(teacher, self.spec, alpha, tol)
                point = found.point
                return StudentOrder(order, found.uncertainty, point.status, point.ridge, has_scale)
            teacher = teacher.kept
        point, order, has_scale = student_order(teacher, self.spec, alpha, tol)
        return StudentOrder(order, point.uncertainty, point.status, point.ridge, has_scale)

    def probabilities(self, teacher: AnyTeacher, order: ScalarOrder) -> Probabilities | None:
        """Return the class probabilities as a function of the fields (n, k), if there are any."""
        return self.spec.probabilities(teacher, order)

    def largest_alpha(self, teacher: AnyTeacher) -> float:
        """Return α_s for a hard margin, which needs separable data."""
        if not self.spec.hard_margin:
            return math.inf
        return separable_up_to(teacher, self.spec.intercept)

    def simulate(
        self,
        teacher: AnyTeacher,
        alpha: float,
        dimension: int,
        seed: int,
        *,
        also: Sequence[Estimator] = (),
        **settings: Any,
    ) -> list[Row]:
        """Fit every specification to one drawn data set; return a row for each."""
        specs: list[Any] = [self.spec, *also]
        if len({spec.loss.name for spec in specs}) > 1:
            raise InvalidInput("specifications that share their data must have the same loss")
        if isinstance(teacher, Pruned):
            return _rows_of_pruned(teacher, specs, alpha, dimension, seed, **settings)
        # Class weights of a loss make equal classes unequal for it.
        if all(spec.sees_equal_classes(teacher) and not spec.intercept for spec in specs):
            return _rows_of_equal_classes(teacher, specs, alpha, dimension, seed, **settings)
        return _rows_of_unequal_classes(teacher, specs, alpha, dimension, seed, **settings)


def _rows_of_equal_classes(
    teacher: AnyTeacher,
    specs: Sequence[ERM],
    alpha: float,
    dimension: int,
    seed: int,
    *,
    solver: str = "auto",
    tol: float = FIT_TOLERANCE,
    test_samples: int | None = None,
) -> list[Row]:
    """Fit every specification to the same samples; those with a ridge share one path of fits.

    A ridge 'optimal' is the theory's best at this α. The errors follow from the overlaps of the
    weights, or are counted on `test_samples` new samples.
    """
    n = n_samples(alpha, dimension)
    loss = specs[0].loss
    settings: dict[str, Any] = {"n_classes": teacher.n_classes, "tol": tol}
    ridges = [_ridge_of(spec, teacher, alpha) for spec in specs if spec.penalty is None]
    X, y, truth = teacher.sample(n, dimension, seed)
    path = iter(_path(X, y, loss, ridges, solver=solver, **settings))
    rows = []
    for spec in specs:
        if spec.penalty is None:
            fit = next(path)  # in the order of `ridges`, which is that of the specifications
        else:
            fit = fit_erm(X, y, loss, penalty=spec.penalty, **settings)
        uninterrupted(fit)
        chances = _probabilities_of(fit, loss, teacher.n_classes)
        found = measured(fit.weights, truth, teacher, seed, test_samples, chances)
        rows.append(_row(teacher, spec, fit, found, alpha, dimension, n, seed))
    return rows


def _rows_of_pruned(
    population: Pruned,
    specs: Sequence[ERM],
    alpha: float,
    dimension: int,
    seed: int,
    *,
    solver: str = "auto",
    tol: float = FIT_TOLERANCE,
    test_samples: int | None = None,
) -> list[Row]:
    """Fit every specification to the samples that are kept of round(αd); errors are of fresh ones.

    A ridge 'optimal' is the theory's best for the selection.
    """
    for spec in specs:
        check_spec_of_pruned(spec)
    n = n_samples(alpha, dimension)
    teacher = population.teacher
    X, y, truth = population.sample(n, dimension, seed)
    rows = []
    for spec in specs:
        kept_alpha = population.keep * alpha
        settings: dict[str, Any] = {"n_classes": teacher.n_classes, "tol": tol}
        if spec.penalty is None:
            if population.probe_counts:
                check_spec_of_probe(spec)
            ridge = _ridge_of(spec, population.kept, kept_alpha)
            fit = fit_erm(X, y, spec.loss, ridge, solver=solver, **settings)
        else:
            fit = fit_erm(X, y, spec.loss, penalty=spec.penalty, **settings)
        uninterrupted(fit)
        chances = _probabilities_of(fit, spec.loss, teacher.n_classes)
        found = measured(fit.weights, truth, teacher, seed, test_samples, chances)
        row = _row(population, spec, fit, found, alpha, dimension, n, seed)
        rows.append(row | {"alpha_kept": len(y) / dimension})
    return rows


def _rows_of_unequal_classes(
    teacher: Any,
    specs: Sequence[ERM],
    alpha: float,
    dimension: int,
    seed: int,
    *,
    solver: str = "auto",
    tol: float = FIT_TOLERANCE,
    test_samples: int | None = None,
) -> list[Row]:
    """Fit every specification to the same samples, with its intercept and class weights.

    Class weights are those of the population, as in the theory. The scores follow from the law of
    the fields of the weights, exactly, so that `test_samples` are not drawn.
    """
    if any(isinstance(spec.ridge, str) for spec in specs):
        raise InvalidInput("fits of classes that are not alike take a ridge as a number")
    n = n_samples(alpha, dimension)
    loss = specs[0].loss
    X, y, truth = teacher.sample(n, dimension, seed)
    rows = []
    for spec in specs:
        class_weight = None
        if spec.class_weight is not None:
            class_weight = dict(enumerate(spec.loss_weights(teacher.class_shares).tolist()))
        settings: dict[str, Any] = {
            "intercept": spec.intercept,
            "class_weight": class_weight,
            "n_classes": teacher.n_classes,
            "tol": tol,
        }
        if spec.penalty is None:
            fit = fit_erm(X, y, loss, float(spec.ridge), solver=solver, **settings)
        else:
            fit = fit_erm(X, y, loss, penalty=spec.penalty, **settings)
        uninterrupted(fit)
        law = weights_law(teacher, fit.weights, fit.intercepts, truth)
        found = population_scores(law, _probabilities_of(fit, loss, teacher.n_classes)).columns
        if spec.intercept:
            found["intercepts"] = numbers_text(fit.intercepts - fit.intercepts.mean())
        rows.append(_row(teacher, spec, fit, found, alpha, dimension, n, seed))
    return rows


def _path(X: Any, y: Any, loss: Any, ridges: list[Any], **settings: Any) -> list[ERMFit]:
    """Return one fit for each ridge; none for no ridge."""
    if not ridges:
        return []
    return fit_erm_path(X, y, loss, ridges, **settings)


def _row(
    teacher: Any,
    spec: ERM,
    fit: Any,
    found: Row,
    alpha: float,
    dimension: int,
    n: int,
    seed: int,
) -> Row:
    """Return the row of one fit; `found` has its overlaps and errors."""
    columns = dict(spec.columns)
    if spec.penalty is None:
        columns["ridge"] = fit.ridge
    return make_row(
        source="erm",
        **teacher.columns,
        alpha=float(alpha),
        **columns,
        training_error=fit.training_error,
        training_loss=fit.training_loss,
        status=fit.status,
        dimension=dimension,
        n_samples=n,
        seed=seed,
        **found,
    )


def _probabilities_of(fit: Any, loss: Any, n_classes: int) -> Any:
    """Return the fit's probabilities as a function of its fields, None if it has none.

    At λ = 0 the fit of separable data is that of another loss, max-margin: a direction alone. Of
    other fits one call says whether the loss has probabilities.
    """
    if fit.loss != loss.name or loss.probabilities(np.zeros((1, n_classes))) is None:
        return None
    return loss.probabilities


def _ridge_of(spec: ERM, teacher: AnyTeacher, alpha: float) -> Any:
    """Return the ridge as a number; 'optimal' is the theory's best at this α."""
    if spec.ridge == "optimal":
        return _best_ridge(teacher, spec.loss, float(alpha))
    return spec.ridge


@lru_cache(maxsize=4096)
def _best_ridge(teacher: AnyTeacher, loss: Any, alpha: float) -> float:
    """Return the ridge of least error, once for a problem: all its instances are fitted at it."""
    return float(erm_fixed_point(teacher, ERM(loss, "optimal"), alpha).ridge)
