"""What a student is: all that curves, plans, sweeps, pictures and the explorer ask of one.

A specification (`problem.specs`) says which estimator is meant; the student of that kind computes
its theory and simulates it. Built-in students hold their specification in `spec`. A student of your
own is one class that is both, a `CustomStudent`:

    @dataclass(frozen=True)
    class Hebb(CustomStudent):
        name = "hebb"
        def rows(self, teacher, alpha, *, branch="optimal", tol=None): ...
        def simulate(self, teacher, alpha, dimension, seed, *, also=(), **settings): ...

    ESTIMATORS.add(Entry("hebb", "the sum of the samples of each class", Hebb))
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import AnyTeacher
from polyceptron.problem.specs.base import Estimator, Probabilities
from polyceptron.rows import Row, Status


class StudentOrder(NamedTuple):
    """The order parameters of a student at one α, and how well they are known."""

    order: ScalarOrder
    uncertainty: float  # of the generalisation error
    status: Status
    ridge: float | None = None
    has_scale: bool = True  # False where only the direction of the weights is known


class Jump(NamedTuple):
    """A discontinuity of the error of one branch."""

    branch: str
    alpha: float
    uncertainty: float


class Student(ABC):
    """The theory and the simulation of one estimator."""

    spec: Any  # the specification that this student computes, an Estimator

    @abstractmethod
    def rows(
        self,
        teacher: AnyTeacher,
        alpha: Any,
        *,
        branch: str = "optimal",
        tol: float | None = None,
    ) -> list[Row]:
        """Return one row of theory for each α, in the order given."""

    def parts(
        self,
        teacher: AnyTeacher,
        parts: Iterable[Iterable[float]],
        *,
        branch: str = "optimal",
        tol: float | None = None,
        searched: float = math.inf,
    ) -> Iterator[list[Row]]:
        """Yield the rows of one curve part by part.

        Parameters
        ----------
        parts : iterable of iterables of float
            The values of α of each part.
        searched : float
            A best ridge is searched for in this many parts and interpolated in the others.
        """
        for part in parts:
            yield self.rows(teacher, list(part), branch=branch, tol=tol)

    def order_parameters(
        self, teacher: AnyTeacher, alpha: float, tol: float | None = None
    ) -> StudentOrder:
        """Return (τ, q, V) at α, from the overlaps m, q and V of the student's row."""
        (row,) = self.rows(teacher, [alpha], tol=tol)
        order = ScalarOrder.of_overlaps(row["m"], row["q"], row.get("V", math.nan))
        return StudentOrder(order, row["uncertainty"], row["status"], row.get("ridge"))

    def probabilities(self, teacher: AnyTeacher, order: ScalarOrder) -> Probabilities | None:
        """Return the student's class probabilities as a function of its fields, if it has any."""
        return None

    def jumps(self, teacher: AnyTeacher) -> Sequence[Jump]:
        """Return where the error jumps, one entry for each branch that a plan distinguishes."""
        return ()

    def largest_alpha(self, teacher: AnyTeacher) -> float:
        """Return the α up to which the student is defined."""
        return math.inf

    @abstractmethod
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
        """Fit one drawn data set.

        Parameters
        ----------
        alpha, dimension, seed
            The data are `teacher.sample(round(alpha * dimension), dimension, seed)`.
        also : sequence of Estimator
            Further specifications of the same kind, fitted to the same data.
        settings
            Options of the solver.

        Returns
        -------
        list of Row
            The student's own row, then one for each in `also`.
        """


class CustomStudent(Estimator, Student):
    """A specification that computes itself: the base of a student of your own."""

    @property
    def spec(self) -> Self:
        """The specification that this student computes: itself."""
        return self
