"""What an estimator is: all that curves, plans, sweeps, pictures and the explorer ask of one.

An estimator says what is done with the data, and where its theory and its fits are computed. The
latter are functions of lower rooms, loaded when they are called (`late`): a specification imports
nothing, and a fit loads no theory. A new estimator subclasses `Estimator` with at least `name`,
`rows` (or `theory`) and `simulate` (or `runs`), and is added to `ESTIMATORS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from polyceptron.errors import InvalidInput
from polyceptron.problem.law import Decay, Law
from polyceptron.numerics import Array
from polyceptron.rows import Status

if TYPE_CHECKING:
    from polyceptron.problem.populations import AnyTeacher, Population

Row = dict[str, Any]
Probabilities = Callable[[Array], Array]  # of classes (n, k), at fields (n, k)


class StudentLaw(NamedTuple):
    """The law of the student's fields at one α, and how well it is known."""

    law: Law
    uncertainty: float  # of the generalisation error
    status: Status
    ridge: float | None = None
    scaled: bool = True  # or a direction only, whose fields have no scale


class Jump(NamedTuple):
    """A discontinuity of the error of one branch."""

    branch: str
    alpha: float
    uncertainty: float


def late(path: str) -> Callable[..., Any]:
    """The function at `room.module.name`, loaded now."""
    module, name = path.rsplit(".", 1)
    return getattr(import_module(f"polyceptron.{module}"), name)  # type: ignore[no-any-return]


class Estimator:
    """A student: what is done with the data."""

    name: str  # in the column `estimator` of rows, at the shell, in sweeps and menus
    source: ClassVar[str] = "erm"  # of its simulated rows; 'amp' for message passing
    theory: ClassVar[str]  # the function (teacher, estimator, α, tol) that makes its rows
    runs: ClassVar[str]  # (teacher, estimators, α, dimension, seed, ...), of its simulated rows
    branches: ClassVar[bool] = False  # several fixed points may coexist, as for Bayes-optimal
    calibrated: ClassVar[bool] = False  # its probabilities are those of the posterior
    takes_ridge: bool = False  # the strength of its penalty can be chosen
    hard_margin: bool = False  # it exists for separable data only: its curve ends at α_s
    explicit: bool = False  # a point of its theory is (nearly) a closed form, at any k

    @property
    def columns(self) -> Row:
        """The columns of a row from which `make_estimator` makes it again."""
        return {"estimator": self.name}

    def with_ridge(self, ridge: Any = None, penalty: Any = None) -> Self:
        """The same estimator at another ridge or penalty; nothing to choose for most."""
        for value in (ridge, penalty):
            if value not in (None, 0, "optimal") and value == value:  # NaN: absent
                raise InvalidInput(f"{self.name} takes no ridge, got {value!r}")
        return self

    def alike(self, population: Population) -> bool:
        """Whether every class looks the same to it: scalars suffice, and its intercept is 0."""
        return population.symmetric

    # Theory.

    def rows(
        self, teacher: AnyTeacher, alpha: Any, *, branch: str = "optimal", tol: float | None = None
    ) -> list[Row]:
        """One row of theory for each α, in the order given."""
        return late(self.theory)(teacher, self, alpha, tol)  # type: ignore[no-any-return]

    def parts(
        self,
        teacher: AnyTeacher,
        parts: Iterable[Iterable[float]],
        *,
        branch: str = "optimal",
        tol: float | None = None,
        searched: float = math.inf,
    ) -> Iterator[list[Row]]:
        """The rows of one curve part by part; a best ridge is searched for in the first ones."""
        for part in parts:
            yield self.rows(teacher, list(part), branch=branch, tol=tol)

    def law(self, teacher: AnyTeacher, alpha: float, tol: float | None = None) -> StudentLaw:
        """The law of its fields at α, from the overlaps of its row."""
        (row,) = self.rows(teacher, [alpha], tol=tol)
        law = Law.of_overlaps(row["m"], row["q"], row.get("V", math.nan))
        return StudentLaw(law, row["uncertainty"], row["status"], row.get("ridge"))

    def probabilities(self, teacher: AnyTeacher, law: Law) -> Probabilities | None:
        """Its own class probabilities as a function of the fields, if it has any."""
        return None

    def decay(self, teacher: AnyTeacher) -> Decay | None:
        """ε − floor ≈ C α^(−p), where p is known."""
        return None

    def jumps(self, teacher: AnyTeacher) -> Sequence[Jump]:
        """Where its error jumps, one entry for each branch that a plan distinguishes."""
        return ()

    def largest_alpha(self, teacher: AnyTeacher) -> float:
        """Up to where it is defined."""
        return math.inf

    # Data.

    def simulate(
        self, teacher: AnyTeacher, alpha: float, dimension: int, seed: int, *,
        also: Sequence[Estimator] = (), **settings: Any,
    ) -> list[Row]:  # fmt: skip
        """Rows of one drawn data set: its own, and those of its kind in `also`."""
        make, every = late(self.runs), [self, *also]
        return make(teacher, every, alpha, dimension, seed, **settings)  # type: ignore[no-any-return]

    # Cost, in seconds of one core: only the proportions matter.

    def point_cost(self, n_classes: int) -> float:
        """Of a point of its theory."""
        return (0.002 if self.explicit else 0.02) * n_classes**2

    def fit_cost(self, n_samples: int, dimension: int, n_classes: int) -> float:
        """Of a simulated row."""
        return 0.03 + 400 * pass_cost(n_samples, dimension, n_classes)


FLOPS = 5e9  # of one core in tall-thin matrix products, conservatively


def pass_cost(n_samples: int, dimension: int, n_classes: int) -> float:
    """Seconds of X W and Xᵀ f together: 4 n d (k − 1) operations."""
    return 4.0 * n_samples * dimension * max(1, n_classes - 1) / FLOPS
