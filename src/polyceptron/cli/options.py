"""Options that several commands share, declared once, and what they mean together.

Where a help text lists names, it holds a word in braces that stands for a registry: the names are
filled in when help is shown (`NamesInHelp`), since reading them takes longer than parsing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from polyceptron.errors import InvalidInput
from polyceptron.ranges import parse_numbers

if TYPE_CHECKING:
    from polyceptron.model import AnyTeacher, Estimator


def registered_names() -> dict[str, tuple[str, ...]]:
    """What the words in braces stand for."""
    from polyceptron.model import CHANNELS, FEATURES, LOSSES, PRIORS, estimator_names

    return {
        "features": tuple(entry.form for entry in FEATURES.entries),
        "priors": tuple(entry.form for entry in PRIORS.entries),
        "noises": tuple(entry.form for entry in CHANNELS.entries),
        "losses": LOSSES.names,
        "estimators": estimator_names(),
    }


def fill_names(text: str) -> str:
    """The help text with its words in braces replaced.

    >>> fill_names("Loss: {losses}.")
    'Loss: cross-entropy, square, max-margin.'
    """
    if "{" not in text:
        return text
    return text.format(**{word: ", ".join(names) for word, names in registered_names().items()})


class NamesInHelp(TyperCommand):
    """A command whose help lists what is registered when it is shown."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _prepare_help(self.get_params(ctx))
        # A paragraph is broken where the terminal ends, not where our own line did.
        self.help = re.sub(r"(?<!\n)\n *(?!\n)", " ", self.help or "")
        super().format_help(ctx, formatter)


class PlainGroup(TyperGroup):
    """All commands together."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _prepare_help(self.get_params(ctx))
        super().format_help(ctx, formatter)


def _prepare_help(parameters: Iterable[Any]) -> None:
    """Names for words in braces, as text that is no markup; a flag takes no value."""
    from rich.markup import escape

    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        text = getattr(parameter, "help", None)
        if text and "{" in text:
            # An empty tag keeps :A: what it is, not the picture of that name.
            parameter.help = re.sub(r":(?=\w+:)", ":[b][/b]", escape(fill_names(text)))


def _complete(word: str) -> Any:
    """Completions of an option: the names that the word stands for."""

    def names(incomplete: str) -> list[str]:
        written = (form.split("[")[0] for form in registered_names()[word])
        starts = (form.split(":")[0] + (":" if ":" in form else "") for form in written)
        return [name for name in starts if name.startswith(incomplete)]

    return names


Classes = Annotated[
    int | None, typer.Option("--classes", "-k", help="Number of classes k (2 for the perceptron).")
]
ClassesOrThree = Annotated[
    int | None,
    typer.Option(
        "--classes", "-k", help="Number of classes k (default: 3, or 2 for the perceptron)."
    ),
]
Prior = Annotated[
    str,
    typer.Option(
        "--prior", help="Teacher's weights: {priors}.", autocompletion=_complete("priors")
    ),
]
Model = Annotated[
    str, typer.Option("--model", help="argmax, or perceptron (one vector, two classes).")
]
Noise = Annotated[
    str,
    typer.Option(
        "--noise", help="Noise of the labels: {noises}.", autocompletion=_complete("noises")
    ),
]
Features = Annotated[
    str,
    typer.Option(
        "--features",
        help="Spectrum of the inputs: {features}, or a CSV file with columns eigenvalue, signal.",
        autocompletion=_complete("features"),
    ),
]
Alpha = Annotated[
    str, typer.Option("--alpha", "-a", help="n/d: 0.5,1,2 or a range start:stop:count[:log].")
]
OneEstimator = Annotated[
    str,
    typer.Option(
        "--estimator", "-e", help="One of {estimators}.", autocompletion=_complete("estimators")
    ),
]
OneLoss = Annotated[
    str,
    typer.Option("--estimator", "-e", help="One of {losses}.", autocompletion=_complete("losses")),
]
Estimators = Annotated[
    list[str],
    typer.Option(
        "--estimator",
        "-e",
        help="One of {estimators}; repeat for several.",
        autocompletion=_complete("estimators"),
    ),
]
OneRidge = Annotated[str, typer.Option("--ridge", help="λ: a number, 0, or optimal.")]
Tolerance = Annotated[
    float | None, typer.Option("--tol", help="Wanted uncertainty of what is computed.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, with every column.")]
Csv = Annotated[Path | None, typer.Option("--csv", help="Write every column to this CSV file.")]


def build_teacher(
    model: str,
    classes: int | None,
    prior: str,
    noise: str,
    features: str,
    default: int | None = None,
) -> AnyTeacher:
    """The teacher that the options describe; the perceptron needs no --classes.

    What was done to make the spectrum a unit one goes to standard error.
    """
    from polyceptron.cli.printing import say
    from polyceptron.model import make_teacher

    if classes is None:
        classes = 2 if model == "perceptron" else default
    if classes is None:
        raise InvalidInput("--classes is missing: how many classes, 2 or more?")
    teacher = make_teacher(model, classes, prior, noise, features)
    if not teacher.features.isotropic:
        say(f"features: {teacher.features.describe()}")
    return teacher


def build_estimator(name: str, ridge: str) -> Estimator:
    """One estimator; a ridge given to one that takes none is refused, unless it is 0 or optimal."""
    from polyceptron.model import make_estimator, takes_ridge

    value = read_ridge(ridge)
    plain = make_estimator(name)
    if takes_ridge(name):
        return make_estimator(name, value)
    if value not in (0, "optimal"):
        raise InvalidInput(f"{name} takes no ridge, got --ridge {ridge}")
    return plain


def build_estimators(names: list[str], ridges: list[str]) -> list[Estimator]:
    """Every estimator named, at every ridge given ("optimal" or a number; default optimal)."""
    from polyceptron.model import make_estimator, takes_ridge

    values: list[float | str] = []
    for text in ridges:
        values += [text] if text == "optimal" else list(parse_numbers(text, "--ridge", log=True))
    estimators: list[Estimator] = []
    for name in names:
        plain = make_estimator(name)
        if takes_ridge(name):
            estimators += [make_estimator(name, ridge) for ridge in values or ["optimal"]]
        elif values and len(names) == 1:
            raise InvalidInput(f"{name} takes no ridge, got --ridge {ridges[0]}")
        else:
            estimators.append(plain)
    return estimators


def read_ridge(text: str) -> float | str:
    """One ridge: a number or the word optimal."""
    if text == "optimal":
        return text
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(
            f"--ridge takes a number of 0 or more, or optimal, got {text!r}"
        ) from None


def describe_teacher(teacher: AnyTeacher) -> str:
    """The problem in words, for the title of a table."""
    noise = "" if teacher.noise.noiseless else f", noise {teacher.noise.name}"
    name = teacher.features.name
    features = "" if name == "isotropic" else f", features {name if len(name) < 40 else name[:37]}"
    return (
        f"{teacher.model}, k = {teacher.n_classes}, {teacher.prior.name} weights{noise}{features}"
    )
