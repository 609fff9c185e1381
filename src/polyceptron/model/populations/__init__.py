"""How one sample is made: populations, one file each."""

from typing import Any

from polyceptron.errors import InvalidInput
from polyceptron.model.populations.mixture import Mixture as Mixture
from polyceptron.model.populations.population import Dataset as Dataset
from polyceptron.model.populations.population import Levels as Levels
from polyceptron.model.populations.population import Population as Population
from polyceptron.model.populations.teacher import AnyTeacher as AnyTeacher
from polyceptron.model.populations.teacher import Perceptron as Perceptron
from polyceptron.model.populations.teacher import Teacher as Teacher
from polyceptron.model.populations.teacher import check_teacher as check_teacher
from polyceptron.model.populations.teacher import make_teacher as make_teacher


def make_population(model: str, n_classes: int | None = None, **columns: Any) -> Population:
    """A population from the columns of a row; those that are None do not count.

    >>> one = Mixture((0.7, 0.3), separation=1.5, variances=(1, 2))
    >>> make_population(**one.columns) == one
    True
    """
    given = {name: value for name, value in columns.items() if value is not None}
    if model == "mixture" and "features" in given:
        raise InvalidInput("a mixture with covariances in full cannot be made from a row")
    mixed, taught = ("separation", "variances", "levels"), ("prior", "noise", "features", "biases")
    if wrong := set(given) - {"shares", "gram", *(mixed if model == "mixture" else taught)}:
        raise InvalidInput(f"the model {model!r} takes no {', '.join(sorted(wrong))}")
    if model != "mixture":
        return make_teacher(model, n_classes, **given)
    if "shares" not in given:
        raise InvalidInput("a mixture needs shares, one number for each class")
    made = Mixture(**given)
    if n_classes not in (None, made.n_classes):
        raise InvalidInput(f"{n_classes} classes need as many shares, got {given.get('shares')}")
    return made


def check_population(population: Any) -> None:
    """A population, or an error message."""
    if not isinstance(population, Population):
        raise InvalidInput(
            f"the teacher must be Teacher(n_classes), Perceptron() or Mixture(shares=…), got "
            f"{population!r}"
        )
