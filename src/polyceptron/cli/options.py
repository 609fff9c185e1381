"""Options that several commands share, declared once, and what they mean together.

Where a help text lists names, it holds a word in braces that stands for a registry: the names are
filled in when help is shown (`NamesInHelp`), since reading them takes longer than parsing."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from polyceptron.cli import printing
from polyceptron.cli.printing import say
from polyceptron.errors import InvalidInput
from polyceptron.files import check_outputs
from polyceptron.ranges import cut_text, parse_numbers

if TYPE_CHECKING:
    from polyceptron.model import Estimator, Population


def registered_names(word: str) -> tuple[str, ...]:
    """What a word in braces stands for."""
    from polyceptron import model

    if word == "figures":
        from polyceptron.report.figures.making import FIGURES

        return tuple(FIGURES)
    name = {"noises": "CHANNELS"}.get(word, word.upper())
    return tuple(entry.form for entry in getattr(model, name).entries)


def fill_names(text: str) -> str:
    """The help text with its words in braces replaced.

    >>> fill_names("Penalty: {penalties}.")
    'Penalty: ridge:STRENGTH, elastic-net:L1:L2.'
    """
    return re.sub(r"\{(\w+)\}", lambda word: ", ".join(registered_names(word[1])), text)


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


class Stopped(Exception):
    """Ctrl-C, of which typer would make an exit without a word."""


class CommandGroup(NamesInHelp, TyperGroup):
    """All commands together."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Stopped from None


def option(help: str, *flags: str, **more: Any) -> Any:
    """An option; its values complete to what a word in braces of its help stands for."""
    words = re.findall(r"\{(\w+)\}", help)

    def complete(incomplete: str) -> list[str]:
        written = (form.split("[")[0] for form in registered_names(words[0]))
        starts = (form.split(":")[0] + (":" if ":" in form else "") for form in written)
        return [name for name in starts if name.startswith(incomplete)]

    return typer.Option(*flags, help=help, autocompletion=complete if words else None, **more)


_ESTIMATOR = ("--estimator", "-e")
_FEATURES = "Spectrum of the inputs: {features}, or a CSV file with columns eigenvalue, signal."
_PENALTY = "In place of a ridge, one of {penalties}"
_ONE_OF = "One of {estimators}"
_OWN = "(default: {}, for the perceptron {})"
Classes = Annotated[
    int | None, option(f"Number of classes k {_OWN.format(3, 2)}.", "--classes", "-k")
]
_PRIOR = f"Teacher's weights {_OWN.format('gaussian', 'rademacher')}: {{priors}}."
Prior = Annotated[str | None, option(_PRIOR)]
Model = Annotated[str, option("argmax, or perceptron (one vector, two classes).")]
Noise = Annotated[str, option("Noise of the labels: {noises}.")]
Features = Annotated[str, option(_FEATURES)]
Alpha = Annotated[str, option("n/d: 0.5,1,2 or a range start:stop:count[:log].", "--alpha", "-a")]
_CURVE = "n/d: 0.5,1,2, start:stop:count[:log], or start:stop[:log], as many as a line needs."
CurveAlpha = Annotated[str, option(_CURVE, "--alpha", "-a")]
OneEstimator = Annotated[str, option(f"{_ONE_OF}.", *_ESTIMATOR)]
OneLoss = Annotated[str, option("One of {losses}.", *_ESTIMATOR)]
Estimators = Annotated[list[str], option(f"{_ONE_OF}; repeat for several.", *_ESTIMATOR)]
Penalties = Annotated[list[str], option(f"{_PENALTY}; repeat for several.", "--penalty")]
OnePenalty = Annotated[str | None, option(f"{_PENALTY}.")]
_LIST = "of each class, as 0.6,0.3,0.1"
Shares = Annotated[str | None, option(f"Shares {_LIST}: classes that are not alike.")]
Biases = Annotated[str | None, option(f"In place of the shares, the teacher's biases {_LIST}.")]
Gram = Annotated[
    str | None, option("Inner products of weights or means: rows of numbers, ';' between.")
]
IsMixture = Annotated[bool, option("Gaussian classes in place of a teacher.", "--mixture")]
Separation = Annotated[float | None, option("Distance of any two means of a mixture.")]
Variances = Annotated[str | None, option(f"Variances of a mixture's features {_LIST}.")]
Intercept = Annotated[bool, option("Fit an intercept too.", "--intercept")]
ClassWeight = Annotated[
    str | None, option("Weights of the losses: balanced, a number for each class, or 1:5,2:3.")
]
OneRidge = Annotated[str | None, option("λ: a number (default: 0.1), 0, or optimal.")]
Tolerance = Annotated[float | None, option("Wanted uncertainty of what is computed.", "--tol")]
Json = Annotated[bool, option("Print JSON, with every column.", "--json")]
Csv = Annotated[Path | None, option("Write every column to this CSV file.")]
Plot = Annotated[Path | None, option("Draw to a .pdf, .png or .svg file.")]


# Options of classes that are not alike; a command without them has a teacher.
UNEQUAL = ("shares", "biases", "gram", "mixture", "separation", "variances")


def given(
    *, without: Sequence[str] = (), prior: str | None = None, **makers: Callable[..., Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Arguments of a command that are made from options: those of their makers' signatures.

    `without` names options that the command does not have, `prior` is another default of that one.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        of = {
            name: inspect.signature(make, eval_str=True).parameters for name, make in makers.items()
        }
        taken: dict[str, inspect.Parameter] = {}
        for name, parameter in own.items():
            taken |= of.get(name, {name: parameter})
        taken = {name: one.replace(kind=one.KEYWORD_ONLY) for name, one in taken.items()}
        if prior is not None:
            taken["prior"] = taken["prior"].replace(default=prior)

        @wraps(command)
        def run(**values: Any) -> None:
            made = {
                name: makers[name](**{n: values[n] for n in names if n in values})
                for name, names in of.items()
            }
            command(**made, **{name: values[name] for name in own if name not in of})

        kept = [one for name, one in taken.items() if name not in without]
        run.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in kept}
        return run

    return decorate


def the_population(
    classes: Classes = None,
    prior: Prior = None,
    model: Model = "argmax",
    noise: Noise = "none",
    features: Features = "isotropic",
    shares: Shares = None,
    biases: Biases = None,
    gram: Gram = None,
    mixture: IsMixture = False,
    separation: Separation = None,
    variances: Variances = None,
) -> Any:
    """The teacher, or the mixture, that the options describe; None is the model's own default.

    What was done to make the spectrum a unit one goes to standard error.
    """
    from polyceptron.model import make_population, make_teacher

    unequal: dict[str, Any] = {
        "shares": shares, "biases": biases, "gram": gram, "separation": separation,
        "variances": variances,
    }  # fmt: skip
    given = {name: value for name, value in unequal.items() if value is not None}
    teacher: dict[str, Any] = {"model": model, "prior": prior, "noise": noise, "features": features}
    if mixture:
        own = {"model": "argmax", "prior": None, "noise": "none", "features": "isotropic"}
        if told := [f"--{name}" for name, value in teacher.items() if value != own[name]]:
            raise InvalidInput(f"a mixture has no teacher: {', '.join(told)} say nothing of it")
        k = 3 if classes is None else classes
        return make_population(
            "mixture", classes, **{"shares": ",".join([repr(1 / k)] * k)} | given
        )
    for name in {"separation", "variances"} & set(given):
        raise InvalidInput(f"--{name} is of a mixture: give --mixture too")
    made = make_teacher(n_classes=classes, **teacher, **given)
    if not made.features.isotropic:
        say(f"features: {made.features.describe()}")
    return made


def the_output(
    as_json: Json = False, csv: Csv = None, plot: Plot = None, features: Features = "isotropic"
) -> printing.Output:
    """Where rows go and are drawn; it can be written and is no input."""
    if plot is not None:
        from polyceptron.report.pictures.matplotlib_figure import check_figure_path

        check_figure_path(plot)
    check_outputs(csv, plot, inputs=[features])
    return printing.Output(as_json, csv, plot)


def build_estimators(
    names: Sequence[str],
    ridges: Sequence[str] | str | None = (),
    penalties: Sequence[str] | str | None = (),
    intercept: bool = False,
    class_weight: str | None = None,
) -> list[Estimator]:
    """Every estimator named, at every ridge and penalty given; without any at its own default."""
    from polyceptron.model import make_estimator

    ridges, penalties = (
        [one] if isinstance(one, str) else one or () for one in (ridges, penalties)
    )
    values: list[float | str] = []
    for text in ridges:
        values += [text] if text == "optimal" else list(parse_numbers(text, "--ridge", log=True))
    estimators: list[Estimator] = []
    for name in names:
        plain = make_estimator(name, intercept=intercept, class_weight=class_weight)
        if plain.takes_ridge and (values or penalties):
            estimators += [plain.with_ridge(ridge) for ridge in values]
            estimators += [plain.with_ridge(penalty=penalty) for penalty in penalties]
        elif (values or penalties) and len(names) == 1:
            raise InvalidInput(f"{name} takes no ridge, got {[*ridges, *penalties][0]}")
        else:
            estimators.append(plain)
    return estimators


def describe_teacher(teacher: Population, **more: Any) -> str:
    """The problem in words, for the title of a table; and what else all its rows share."""
    weights = teacher.columns.get("prior")
    own = teacher.columns | ({"prior": f"{weights} weights"} if weights else {})
    return describe_row(own | more)


def describe_row(row: Mapping[str, Any]) -> str:
    """What a row is about, without its numbers: problem, estimator, source, start and branch."""
    noise, features = row.get("noise", "none"), row.get("features") or "isotropic"
    parts = [row["model"], f"k = {row['n_classes']}", *([row["prior"]] if row.get("prior") else [])]
    for name in ("shares", "biases", "gram", "levels", "class_weight"):
        parts += [f"{name.replace('_', ' ')} {cut_text(row[name], 40)}"] if row.get(name) else []
    parts += ["with intercept"] if row.get("intercept") else []
    parts += [f"noise {noise}"] if noise != "none" else []
    parts += [f"features {cut_text(features, 40)}"] if features != "isotropic" else []
    parts += [row[name] for name in ("estimator", "source") if row.get(name)]
    parts += [f"{row['start']} start"] if row.get("start") else []
    parts += [f"branch {row['branch']}"] if row.get("branch") else []
    return ", ".join(parts)
