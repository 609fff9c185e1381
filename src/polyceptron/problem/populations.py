"""How one sample is made: populations, one file each."""

from typing import Any

from polyceptron.errors import InvalidInput
from polyceptron.problem.mixture import Mixture as Mixture
from polyceptron.problem.population import Dataset as Dataset
from polyceptron.problem.population import FeatureLevels as FeatureLevels
from polyceptron.problem.population import Population as Population
from polyceptron.problem.teacher import AnyTeacher as AnyTeacher
from polyceptron.problem.teacher import Perceptron as Perceptron
from polyceptron.problem.teacher import Teacher as Teacher
from polyceptron.problem.teacher import check_teacher as check_teacher
from polyceptron.problem.teacher import make_teacher as make_teacher

# A new population: its file, and its class here.
POPULATIONS: dict[str, type[Population]] = {
    kind.model: kind for kind in (Teacher, Perceptron, Mixture)
}


def make_population(model: str, n_classes: int | None = None, **columns: Any) -> Population:
    """Return the population that the columns of a row describe; None stands for no column.

    >>> mixture = Mixture((0.7, 0.3), separation=1.5, variances=(1, 2))
    >>> make_population(**mixture.columns) == mixture
    True
    """
    if model not in POPULATIONS:
        raise InvalidInput(f"unknown model {model!r}: allowed are {', '.join(POPULATIONS)}")
    given = {name: value for name, value in columns.items() if value is not None}
    if wrong := set(given) - set(POPULATIONS[model].takes):
        raise InvalidInput(f"the model {model!r} takes no {', '.join(sorted(wrong))}")
    return POPULATIONS[model].of_columns(n_classes, **given)


def check_population(population: object) -> None:
    """Raise `InvalidInput` of what is no population."""
    if not isinstance(population, Population):
        raise InvalidInput(
            f"the teacher must be Teacher(n_classes), Perceptron() or Mixture(shares=…), got "
            f"{population!r}"
        )
