"""Options that several commands share, declared once, and what they mean together.

Where a help text lists names, it holds a word in braces that stands for a registry: the names are
filled in when help is shown (`NamesInHelp`), since reading them takes longer than parsing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from polyceptron.cli.printing import say
from polyceptron.errors import InvalidInput
from polyceptron.ranges import cut_text, parse_numbers

if TYPE_CHECKING:
    from polyceptron.model import AnyTeacher, Estimator


def registered_names() -> dict[str, tuple[str, ...]]:
    """What the words in braces stand for."""
    from polyceptron.model import CHANNELS, ESTIMATORS, FEATURES, LOSSES, PENALTIES, PRIORS

    return {
        "features": tuple(entry.form for entry in FEATURES.entries),
        "priors": tuple(entry.form for entry in PRIORS.entries),
        "noises": tuple(entry.form for entry in CHANNELS.entries),
        "penalties": tuple(entry.form for entry in PENALTIES.entries),
        "losses": LOSSES.names,
        "estimators": tuple(entry.form for entry in ESTIMATORS.entries),
    }


def fill_names(text: str) -> str:
    """The help text with its words in braces replaced.

    >>> fill_names("Loss: {losses}.")
    'Loss: cross-entropy, square, max-margin.'
    """
    if "{" not in text:
        return text
    return text.format(**{word: ", ".join(names) for word, names in registered_names().items()})


class NamesInHelp:
    """Help in which words in braces are names, as text that is no markup; a flag takes no value."""

    def format_help(self: Any, ctx: Any, formatter: Any) -> None:
        from rich.markup import escape

        for parameter in self.get_params(ctx):
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            text = getattr(parameter, "help", None)
            if text and "{" in text:
                # An empty tag keeps :A: what it is, not the picture of that name.
                parameter.help = re.sub(r":(?=\w+:)", ":[b][/b]", escape(fill_names(text)))
        super().format_help(ctx, formatter)  # type: ignore[misc]


class Command(NamesInHelp, TyperCommand):
    """One command."""


class CommandGroup(NamesInHelp, TyperGroup):
    """All commands together."""


def option(help: str, *flags: str, **more: Any) -> Any:
    """An option; its values complete to what a word in braces of its help stands for."""
    words = re.findall(r"\{(\w+)\}", help)

    def complete(incomplete: str) -> list[str]:
        written = (form.split("[")[0] for form in registered_names()[words[0]])
        starts = (form.split(":")[0] + (":" if ":" in form else "") for form in written)
        return [name for name in starts if name.startswith(incomplete)]

    return typer.Option(*flags, help=help, autocompletion=complete if words else None, **more)


_ESTIMATOR = ("--estimator", "-e")
_FEATURES = "Spectrum of the inputs: {features}, or a CSV file with columns eigenvalue, signal."
_PENALTY = "In place of a ridge, one of {penalties}"
_THREE = "Number of classes k (default: 3, or 2 for the perceptron)."
_ONE_OF = "One of {estimators}"
Classes = Annotated[
    int | None, option("Number of classes k (2 for the perceptron).", "--classes", "-k")
]
ClassesOrThree = Annotated[int | None, option(_THREE, "--classes", "-k")]
Prior = Annotated[str, option("Teacher's weights: {priors}.")]
Model = Annotated[str, option("argmax, or perceptron (one vector, two classes).")]
Noise = Annotated[str, option("Noise of the labels: {noises}.")]
Features = Annotated[str, option(_FEATURES)]
Alpha = Annotated[str, option("n/d: 0.5,1,2 or a range start:stop:count[:log].", "--alpha", "-a")]
OneEstimator = Annotated[str, option(f"{_ONE_OF}.", *_ESTIMATOR)]
OneLoss = Annotated[str, option("One of {losses}.", *_ESTIMATOR)]
Estimators = Annotated[list[str], option(f"{_ONE_OF}; repeat for several.", *_ESTIMATOR)]
Penalties = Annotated[list[str], option(f"{_PENALTY}; repeat for several.", "--penalty")]
OnePenalty = Annotated[str | None, option(f"{_PENALTY}.")]
OneRidge = Annotated[str, option("λ: a number, 0, or optimal.")]
Tolerance = Annotated[float | None, option("Wanted uncertainty of what is computed.", "--tol")]
Json = Annotated[bool, option("Print JSON, with every column.", "--json")]
Csv = Annotated[Path | None, option("Write every column to this CSV file.")]
Plot = Annotated[Path | None, option("Draw to a .pdf, .png or .svg file.")]


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
    from polyceptron.model import make_teacher

    if classes is None:
        classes = 2 if model == "perceptron" else default
    if classes is None:
        raise InvalidInput("--classes is missing: how many classes, 2 or more?")
    teacher = make_teacher(model, classes, prior, noise, features)
    if not teacher.features.isotropic:
        say(f"features: {teacher.features.describe()}")
    return teacher


def build_estimator(name: str, ridge: str, penalty: str | None = None) -> Estimator:
    """One estimator; a ridge given to one that takes none is refused, unless it is 0 or optimal."""
    from polyceptron.model import make_estimator

    try:
        value = ridge if ridge == "optimal" else float(ridge)
    except ValueError:
        raise InvalidInput(
            f"--ridge takes a number of 0 or more, or optimal, got {ridge!r}"
        ) from None
    return make_estimator(name, None if penalty else value, penalty)


def build_estimators(
    names: list[str], ridges: list[str], penalties: Sequence[str] = ()
) -> list[Estimator]:
    """Every estimator named, at every ridge and penalty given (default: the optimal ridge)."""
    from polyceptron.model import make_estimator

    values: list[float | str] = []
    for text in ridges:
        values += [text] if text == "optimal" else list(parse_numbers(text, "--ridge", log=True))
    estimators: list[Estimator] = []
    for name in names:
        plain = make_estimator(name)
        if plain.takes_ridge:
            default = [] if penalties else ["optimal"]
            estimators += [plain.with_ridge(ridge) for ridge in values or default]
            estimators += [plain.with_ridge(penalty=penalty) for penalty in penalties]
        elif (values or penalties) and len(names) == 1:
            raise InvalidInput(f"{name} takes no ridge, got {[*ridges, *penalties][0]}")
        else:
            estimators.append(plain)
    return estimators


def describe_teacher(teacher: AnyTeacher) -> str:
    """The problem in words, for the title of a table."""
    return describe_row(teacher.columns | {"prior": f"{teacher.prior.name} weights"})


def describe_row(row: Mapping[str, Any]) -> str:
    """What a row is about, without its numbers: problem, estimator, source and start."""
    noise, features = row.get("noise", "none"), row.get("features") or "isotropic"
    parts = [row["model"], f"k = {row['n_classes']}", row["prior"]]
    parts += [f"noise {noise}"] if noise != "none" else []
    parts += [f"features {cut_text(features, 40)}"] if features != "isotropic" else []
    parts += [row[name] for name in ("estimator", "source") if row.get(name)]
    parts += [f"{row['start']} start"] if row.get("start") else []
    return ", ".join(parts)
