"""The Bayes-optimal estimator: the posterior mean of the teacher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from polyceptron.errors import InvalidInput
from polyceptron.model.estimators.base import (
    Estimator,
    Jump,
    Probabilities,
    Row,
    StudentLaw,
    late,
    pass_cost,
)
from polyceptron.model.law import Decay, Law

if TYPE_CHECKING:
    from polyceptron.model.teacher import AnyTeacher


@dataclass(frozen=True)
class BayesOptimal(Estimator):
    """The posterior mean of the teacher: no estimator has a lower error.

    >>> BayesOptimal().name
    'bayes'
    """

    name: ClassVar[str] = "bayes"  # type: ignore[misc]
    source: ClassVar[str] = "amp"
    branches: ClassVar[bool] = True
    calibrated: ClassVar[bool] = True

    def rows(
        self, teacher: AnyTeacher, alpha: Any, *, branch: str = "optimal", tol: float | None = None
    ) -> list[Row]:
        return late("theory.bayes_optimal.fixed_points.bayes_rows")(teacher, alpha, branch, tol)

    def follow(self, teacher: AnyTeacher, branch: str = "optimal") -> Callable[..., Row]:
        """At its own tolerance: its points share their tables."""
        return lambda alpha, tol=None: self.rows(teacher, [alpha], branch=branch)[0]

    def law(self, teacher: AnyTeacher, alpha: float, tol: float | None = None) -> StudentLaw:
        point = late("theory.bayes_optimal.fixed_points.fixed_points")(teacher, alpha, tol)[0]
        return StudentLaw(Law.bayes(point.v), point.uncertainty, point.status)

    def probabilities(self, teacher: AnyTeacher, law: Law) -> Probabilities | None:
        chances = late("theory.calibration.label_chances")
        return lambda omega: chances(teacher.channel, omega, law)

    def decay(self, teacher: AnyTeacher) -> Decay | None:
        if not teacher.prior.gaussian:
            raise InvalidInput(
                f"the Bayes-optimal error of a teacher with prior {teacher.prior.name!r} falls "
                f"faster than any power of alpha: there is no exponent to find"
            )
        return Decay(1.0)

    def jumps(self, teacher: AnyTeacher) -> Sequence[Jump]:
        """α_IT of what is possible, α_algo of what message passing reaches."""
        found = late("theory.bayes_optimal.transitions.transitions")(teacher)
        if found.alpha_it is None or found.alpha_algo is None:
            return ()
        return (
            Jump("optimal", found.alpha_it, found.alpha_it_uncertainty or 0.0),
            Jump("amp", found.alpha_algo, found.alpha_algo_uncertainty or 0.0),
        )

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
        run = late("experiments.simulate.run_amp")
        return [run(teacher, alpha, dimension, seed, **settings)[0] for _ in (self, *also)]

    def point_cost(self, n_classes: int) -> float:
        return 0.08 * n_classes**2

    def fit_cost(self, n_samples: int, dimension: int, n_classes: int) -> float:
        return 0.1 + 60 * pass_cost(n_samples, dimension, n_classes) + 1e-3 * n_samples**0.5
