"""A posterior with assumptions of its own: replica-symmetric theory, and AMP with its channel."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.checks import check_size
from polyceptron.data.checks import check_choice
from polyceptron.data.watching import uninterrupted
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.message_passing.posterior_mean import amp
from polyceptron.message_passing.result import AMPResult
from polyceptron.numerics import Array
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import AnyTeacher, Dataset, check_teacher
from polyceptron.problem.specs import Estimator, MismatchedBayes, Probabilities
from polyceptron.rows import Row, make_row
from polyceptron.students.base import Student, StudentOrder
from polyceptron.students.measuring import check_seed, draw_single, measured, n_samples
from polyceptron.theory.mismatched import gibbs_error, mismatched_point, mismatched_rows

SMALLEST_VARIANCE = 1e-12  # of the posterior, so that its probabilities stay finite


@dataclass(frozen=True)
class MismatchedBayesStudent(Student):
    """The posterior mean under an assumed noise and an assumed variance of the weights."""

    spec: MismatchedBayes

    def rows(
        self,
        teacher: AnyTeacher,
        alpha: ArrayLike,
        *,
        branch: str = "optimal",
        tol: float | None = None,
    ) -> list[Row]:
        """Return the rows of the replica-symmetric theory at each α; there is one branch."""
        return mismatched_rows(teacher, self.spec, np.atleast_1d(alpha), tol)

    def order_parameters(
        self, teacher: AnyTeacher, alpha: float, tol: float | None = None
    ) -> StudentOrder:
        """Return the order parameters m, q and V at α."""
        point = mismatched_point(teacher, self.spec, alpha, tol)
        order = ScalarOrder.of_overlaps(point.m, point.q, point.V)
        return StudentOrder(order, point.uncertainty, point.status)

    def probabilities(self, teacher: AnyTeacher, order: ScalarOrder) -> Probabilities | None:
        """Return the function that takes fields ω (n, k) to predictive chances of classes."""
        return self._predictive(teacher, order.V)

    def simulate(
        self,
        teacher: AnyTeacher,
        alpha: float,
        dimension: int,
        seed: int,
        *,
        also: Sequence[Estimator] = (),
        dtype: str = "float64",
        test_samples: int | None = None,
        **settings: Any,
    ) -> list[Row]:
        """Run message passing with the assumed channel and prior on one drawn data set."""
        check_teacher(teacher)
        check_choice("precision", dtype, ("float32", "float64"))
        d = check_size(dimension, "dimension")
        n = n_samples(alpha, d)
        seed = check_seed(seed)
        try:
            data = _draw(teacher, n, d, seed, dtype)
            students = [self, *(MismatchedBayesStudent(spec) for spec in _mismatched(also))]
            return [
                student._row(teacher, alpha, data, seed, test_samples, **settings)
                for student in students
            ]
        except MemoryError:
            raise ComputationFailed(
                f"{n} samples in dimension {d} need {np.dtype(dtype).itemsize * n * d / 1e9:.3g} "
                "GB: choose a smaller dimension or alpha"
            ) from None

    def _row(
        self,
        teacher: AnyTeacher,
        alpha: float,
        data: Dataset,
        seed: int,
        test_samples: int | None,
        **settings: Any,
    ) -> Row:
        """Return the row of one run on given data."""
        X, y, truth = data
        result = self._run(teacher, data, **settings)
        V = float(np.mean(result.variance))
        predictive = self._predictive(teacher, V)
        found = measured(result.weights, truth, teacher, seed, test_samples, predictive)
        order = ScalarOrder.of_overlaps(found["m"], found["q"], V)
        answers = np.argmax(X @ result.weights.astype(X.dtype), axis=1)
        return make_row(
            source="amp",
            **teacher.columns,
            **self.spec.columns,
            alpha=alpha,
            V=V,
            gibbs_error=gibbs_error(teacher.channel, order, teacher.n_classes),
            training_error=float(np.mean(answers != y)),
            status=result.status,
            dimension=X.shape[1],
            n_samples=X.shape[0],
            seed=seed,
            **found,
        )

    def _run(self, teacher: AnyTeacher, data: Dataset, **settings: Any) -> AMPResult:
        """Run message passing with Gaussian weights of the assumed variance."""
        result = amp(
            data.X,
            data.y,
            "gaussian",
            teacher_weights=data.weights,
            model=teacher.model,
            n_classes=teacher.n_classes,
            noise=self.spec.noise,
            prior_variance=self.spec.variance,
            features=teacher.features,
            **settings,
        )
        return uninterrupted(result)

    def _predictive(self, teacher: AnyTeacher, V: float) -> Probabilities:
        """Return the predictive probabilities of fields ω (n, k) of posterior variance V."""
        channel = self.spec.assumed_channel(teacher)

        def chances(omega: Array) -> Array:
            """Return the chances (n, k) of the classes given fields ω (n, k)."""
            return channel.chances(omega, max(V, SMALLEST_VARIANCE))

        return chances


def _draw(teacher: AnyTeacher, n: int, d: int, seed: int, dtype: str) -> Dataset:
    """Draw n samples in the wanted precision."""
    if dtype == "float64":
        return teacher.sample(n, d, seed)
    return draw_single(teacher, n, d, seed)


def _mismatched(also: Sequence[Estimator]) -> list[MismatchedBayes]:
    """Return the further specifications, all of this kind."""
    for spec in also:
        if not isinstance(spec, MismatchedBayes):
            raise InvalidInput(f"{spec.name} is no posterior with other assumptions")
    return [spec for spec in also if isinstance(spec, MismatchedBayes)]
