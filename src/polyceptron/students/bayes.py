"""The Bayes-optimal student: its theory is the posterior's, its simulation is message passing."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from polyceptron.checks import check_size
from polyceptron.data.checks import check_choice
from polyceptron.data.watching import uninterrupted
from polyceptron.errors import ComputationFailed
from polyceptron.message_passing.posterior_mean import amp
from polyceptron.message_passing.result import AMPResult
from polyceptron.numerics import Array
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import AnyTeacher, Dataset, check_teacher
from polyceptron.problem.specs import BayesOptimal, Estimator, PosteriorAverage, Probabilities
from polyceptron.rows import Row, make_row
from polyceptron.sides.fresh_scores import chances_given_fields
from polyceptron.students.base import Jump, Student, StudentOrder
from polyceptron.students.measuring import check_seed, draw_single, measured, n_samples
from polyceptron.theory.bayes.fixed_points import bayes_rows, fixed_points
from polyceptron.theory.bayes.population_rule import bayes_population_rows
from polyceptron.theory.bayes.transitions import all_jumps

# The branch that message passing reaches from each start.
REACHED = {"uninformed": "amp", "informed": "informed"}
SCORES_OF_THE_POSTERIOR = ("test_loss", "brier", "calibration_error")
SMALLEST_VARIANCE = 1e-12  # of the posterior, so that its probabilities stay finite


@dataclass(frozen=True)
class BayesStudent(Student):
    """The posterior mean, in theory and by message passing."""

    spec: BayesOptimal

    def rows(
        self,
        teacher: AnyTeacher,
        alpha: float | Sequence[float],
        *,
        branch: str = "optimal",
        tol: float | None = None,
    ) -> list[Row]:
        """Return the rows of the theory at each α, for the points of a branch (see `BRANCHES`)."""
        if not teacher.symmetric:
            return bayes_population_rows(teacher, alpha)
        return bayes_rows(teacher, alpha, branch, tol)

    def order_parameters(
        self, teacher: AnyTeacher, alpha: float, tol: float | None = None
    ) -> StudentOrder:
        """Return the order parameters of the best state at α: m = q and V = 1 − q."""
        point = fixed_points(teacher, alpha, tol)[0]
        return StudentOrder(ScalarOrder.bayes(point.v), point.uncertainty, point.status)

    def probabilities(self, teacher: AnyTeacher, order: ScalarOrder) -> Probabilities | None:
        """Return the function that takes fields ω (n, k) to the posterior's chances of classes."""

        def posterior_chances(omega: Array) -> Array:
            """Return the chances (n, k) of the classes given fields ω (n, k)."""
            return chances_given_fields(teacher.channel, omega, order)

        return posterior_chances

    def jumps(self, teacher: AnyTeacher) -> Sequence[Jump]:
        """Return every jump of the best error, up to α_IT, and of AMP's error, up to α_algo."""
        if not teacher.symmetric:  # Gaussian weights or means: the error is smooth
            return ()
        found = all_jumps(teacher)
        optimal = [Jump("optimal", *place) for place in found.optimal]
        algorithmic = [Jump("amp", *place) for place in found.amp]
        return (*optimal, *algorithmic)

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
        """Run message passing on one drawn data set, and return a row of it for each student.

        `also` are further students that read the same run; `settings` are those of `run_amp`.
        """
        row, _ = run_amp(teacher, alpha, dimension, seed, **settings)
        rows = []
        for spec in (self.spec, *also):
            own = {**row, "estimator": spec.name}
            if not spec.calibrated:
                own = {n: value for n, value in own.items() if n not in SCORES_OF_THE_POSTERIOR}
            rows.append(own)
        return rows


@dataclass(frozen=True)
class PosteriorAverageStudent(BayesStudent):
    """The posterior's average used as if it were the teacher's weights."""

    spec: PosteriorAverage

    def rows(
        self,
        teacher: AnyTeacher,
        alpha: float | Sequence[float],
        *,
        branch: str = "optimal",
        tol: float | None = None,
    ) -> list[Row]:
        """Return the rows of the Bayes-optimal student under the name of this one."""
        check_teacher(teacher)
        found = super().rows(teacher, alpha, branch=branch, tol=tol)
        return [{**row, "estimator": self.spec.name} for row in found]

    def probabilities(self, teacher: AnyTeacher, order: ScalarOrder) -> Probabilities | None:
        """Return the teacher's own chances, taken at the average; None if there is no noise."""
        if teacher.channel.noiseless:
            return None
        return teacher.channel.chances


def run_amp(
    teacher: AnyTeacher,
    alpha: float,
    dimension: int,
    seed: int,
    *,
    start: str = "uninformed",
    dtype: str = "float64",
    test_samples: int | None = None,
    **settings: Any,
) -> tuple[Row, AMPResult]:
    """Run message passing on round(αd) samples of a teacher in d dimensions.

    Parameters
    ----------
    seed : int
        `teacher.sample(n_samples, dimension, seed)` draws the same data again.
    start : 'uninformed' or 'informed'
    dtype : 'float64' or 'float32'
    test_samples : int, optional
        Measure the error and the scores on so many new samples, in place of the exact error.
    settings
        `variances`, `tol` and `max_iter` of `amp`.

    Returns
    -------
    Row, AMPResult
        The row of the run, and the run itself.
    """
    check_teacher(teacher)
    check_choice("precision", dtype, ("float32", "float64"))
    d = check_size(dimension, "dimension")
    n = n_samples(alpha, dimension)
    seed = check_seed(seed)
    try:
        X, y, truth = _draw(teacher, n, d, seed, dtype)
        result = amp(
            X,
            y,
            teacher.prior,
            teacher_weights=truth,
            start=start,
            model=teacher.model,
            n_classes=teacher.n_classes,
            noise=teacher.noise,
            features=teacher.features,
            **settings,
        )
        uninterrupted(result)
        training_error = float(np.mean(np.argmax(X @ result.weights.astype(X.dtype), axis=1) != y))
    except MemoryError:
        raise ComputationFailed(
            f"{n} samples in dimension {d} need {np.dtype(dtype).itemsize * n * d / 1e9:.3g} GB: "
            "choose a smaller dimension or alpha"
        ) from None
    V = _mean_variance(result, teacher.n_classes)
    chances = partial(teacher.channel.chances, variance=max(V, SMALLEST_VARIANCE))
    row = make_row(
        source="amp",
        **teacher.columns,
        estimator=BayesOptimal.name,
        alpha=alpha,
        V=V,
        branch=REACHED[start],
        training_error=training_error,
        status=result.status,
        dimension=d,
        n_samples=n,
        seed=seed,
        **measured(result.weights, truth, teacher, seed, test_samples, chances),
    )
    return row, result


def _draw(teacher: AnyTeacher, n: int, d: int, seed: int, dtype: str) -> Dataset:
    """Draw n samples in the wanted precision."""
    if dtype == "float64":
        return teacher.sample(n, d, seed)
    return draw_single(teacher, n, d, seed)


def _mean_variance(result: AMPResult, n_classes: int) -> float:
    """Return the posterior variance of a class direction, averaged over coordinates."""
    variance = np.asarray(result.variance)
    if variance.ndim == 3:  # covariances (d, k, k), of rank k − 1
        variance = np.trace(variance, axis1=1, axis2=2) / (n_classes - 1)
    return float(variance.mean())
