"""What every estimator says of itself, whoever computes it.

A specification is plain data: a name, its parameters, and the mathematics that needs no solving.
The student of the same kind, in `students/`, computes its theory and its fits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem.order import Decay
from polyceptron.problem.populations import AnyTeacher, Population

Row = dict[str, Any]
Probabilities = Callable[[Array], Array]  # fields (n, k) to class probabilities (n, k)


class Estimator:
    """What is done with the data: a name and its parameters, from which a student is made."""

    name: str  # in the column `estimator` of rows, at the shell, in sweeps and menus
    source: ClassVar[str] = "erm"  # of its simulated rows; 'amp' for message passing
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
        """Return the same estimator at another ridge or penalty; most have none to choose."""
        for value in (ridge, penalty):
            if value not in (None, 0, "optimal") and value == value:  # NaN: absent
                raise InvalidInput(f"{self.name} takes no ridge, got {value!r}")
        return self

    def sees_equal_classes(self, population: Population) -> bool:
        """Whether every class looks the same to it: scalars suffice, and its intercept is 0."""
        return population.symmetric

    def decay(self, teacher: AnyTeacher) -> Decay | None:
        """Return the p of ε − floor ≈ C α^(−p), and C, where they are known."""
        return None
