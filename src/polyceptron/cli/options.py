"""What the commands share: options, declared once, and how rows are printed.

Where a help text lists names, it holds a word in braces that stands for a registry: the names are
filled in when help is shown (`NamesInHelp`), since reading them takes longer than parsing.

Rows go to standard output as a table or JSON, and to a CSV file; on standard error is what goes on.
A table chooses its columns: every number in it is whole, and what the terminal has no room for is
named below it and is in --json and --csv.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from polyceptron.cli.streams import shown_as
from polyceptron.errors import InvalidInput
from polyceptron.files import check_outputs, write_atomically
from polyceptron.number_lists import parse_numbers
from polyceptron.progress import say, steps, waiting
from polyceptron.rows import frame, json_ready

if TYPE_CHECKING:
    from polyceptron.problem import Estimator, Population


def registered_names(word: str) -> tuple[str, ...]:
    """What a word in braces stands for."""
    from polyceptron import problem as model

    if word == "figures":
        from polyceptron.report.figures.making import FIGURES

        return tuple(FIGURES)
    name = {"noises": "CHANNELS"}.get(word, word.upper())
    return tuple(entry.form for entry in getattr(model, name).entries)


def fill_names(text: str) -> str:
    """The help text with its words in braces replaced."""
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
        for helped in (self, *self.get_params(ctx), *getattr(self, "commands", {}).values()):
            if getattr(helped, "help", None):
                helped.help = shown_as(helped.help)
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


def setting(default: Any, help: str, *flags: str, **more: Any) -> Any:
    """An option of one command, in the place of its default."""
    return option(help, default, *flags, **more)  # the first of typer's arguments


_ESTIMATOR = ("--estimator", "-e")
_FEATURES = "Spectrum of the inputs: {features}, or a CSV file with columns eigenvalue, signal."
_PENALTY = "In place of a ridge, one of {penalties}"
_ONE_OF = "One of {estimators}"
_OWN = "(default: {}, for the perceptron {})"
_CLASSES = f"Number of classes k {_OWN.format(3, 2)}."
Classes = Annotated[int | None, option(_CLASSES, "--classes", "-k")]
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
Gram = Annotated[str | None, option("Inner products of weights or means, as 1,0;0,1.")]
IsMixture = Annotated[bool, option("Gaussian classes in place of a teacher.", "--mixture")]
Separation = Annotated[float | None, option("Distance of any two means of a mixture.")]
Variances = Annotated[str | None, option(f"Variances of a mixture's features {_LIST}.")]
Intercept = Annotated[bool, option("Fit an intercept too.", "--intercept")]
_WEIGHTS = "Weights of the losses: balanced, a number for each class, or 1:5,2:3."
ClassWeight = Annotated[str | None, option(_WEIGHTS)]
OneRidge = Annotated[str | None, option("λ: a number (default: 0.1), 0, or optimal.")]
Tolerance = Annotated[float | None, option("Wanted uncertainty of what is computed.", "--tol")]
Json = Annotated[bool, option("Print JSON, with every column.", "--json")]
Csv = Annotated[Path | None, option("Write every column to this CSV file.")]
Plot = Annotated[Path | None, option("Draw to a .pdf, .png or .svg file.")]


# Options of classes that are not alike; a command without them has a teacher.
UNEQUAL = ("shares", "biases", "gram", "mixture", "separation", "variances")


def given(*without: str, **defaults: Any) -> Callable[[Any], Callable[..., None]]:
    """Arguments `teacher` and `output` of a command, made from options `without` some of them."""
    makers: dict[str, Any] = {"teacher": partial(the_population, **defaults), "output": the_output}
    of = {name: inspect.signature(make, eval_str=True).parameters for name, make in makers.items()}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        taken: dict[str, inspect.Parameter] = {}
        for name, parameter in own.items():
            taken |= of.get(name, {name: parameter})

        @wraps(command)
        def run(**values: Any) -> None:
            made = {
                name: makers[name](**{n: values[n] for n in names if n in values})
                for name, names in of.items()
            }
            command(**made, **{name: values[name] for name in own if name not in of})

        options = [one.replace(kind=one.KEYWORD_ONLY) for one in taken.values()]
        kept = [one for one in options if one.name not in without]
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
    from polyceptron.problem import make_population, make_teacher

    unequal: dict[str, Any] = {
        "shares": shares,
        "biases": biases,
        "gram": gram,
        "separation": separation,
        "variances": variances,
    }
    given = {name: value for name, value in unequal.items() if value is not None}
    teacher: dict[str, Any] = {"model": model, "prior": prior, "noise": noise, "features": features}
    if mixture:
        own = {"model": "argmax", "prior": None, "noise": "none", "features": "isotropic"}
        if told := [f"--{name}" for name, value in teacher.items() if value != own[name]]:
            raise InvalidInput(f"a mixture has no teacher, got {', '.join(told)}")
        k = classes or (3 if gram is None else 1 + gram.count(";"))
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
) -> Output:
    """Where rows go and are drawn; it can be written and is no input."""
    if plot is not None:
        from polyceptron.pictures.matplotlib_figure import check_figure_path

        check_figure_path(plot)
    check_outputs(csv, plot, inputs=[features])
    return Output(as_json, csv, plot)


def build_estimators(
    names: Sequence[str],
    ridges: Sequence[str] | str | None = (),
    penalties: Sequence[str] | str | None = (),
    intercept: bool = False,
    class_weight: str | None = None,
) -> list[Estimator]:
    """Every estimator named, at every ridge and penalty given; without any at its own default."""
    from polyceptron.problem import make_estimator

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
    return list(dict.fromkeys(estimators))


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
        told = row.get(name) or ""
        long = "equal" if name == "shares" and len({*told.split(",")}) == 1 else "as given"
        parts += [f"{header(name)} {told if len(told) <= 40 else long}"] if told else []
    parts += ["with intercept"] if row.get("intercept") else []
    parts += [f"noise {noise}"] if noise != "none" else []
    told = features if len(features) <= 40 else "as given"
    parts += [f"features {told}"] if features != "isotropic" else []
    parts += [row[name] for name in ("estimator", "source") if row.get(name)]
    parts += [f"{row['start']} start"] if row.get("start") else []
    parts += [f"branch {row['branch']}"] if row.get("branch") else []
    return ", ".join(parts)


GAP = "  "
HEADERS = {
    "generalisation_error": "error",
    "theory_generalisation_error": "theory error",
    "uncertainty": "±",
    "alpha_uncertainty": "±",
    "training_error": "train error",
    "training_loss": "train loss",
    "calibration_error": "calibration",
    "dimension": "d",
    "n_samples": "n",
}


class Output(NamedTuple):
    """Where rows go: to a table, as JSON, to a CSV file; and where they are drawn."""

    as_json: bool
    csv: Path | None = None
    plot: Path | None = None

    @property
    def in_words(self) -> bool:
        """Neither JSON nor a file is asked for."""
        return not self.as_json and self.csv is None

    def __call__(
        self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = (), **more: Any
    ) -> None:
        """A table of `columns` (`more` as for `print_table`), or JSON; and a file if asked.

        Rows whose file cannot be written are printed as JSON, so that they are not lost.
        """
        if self.csv is not None:
            try:
                write_atomically(self.csv, lambda path: frame(rows).to_csv(path, index=False))
            except (InvalidInput, OSError):
                print_json(rows)
                raise
        if self.as_json:
            print_json(rows)
        elif self.csv is None:
            print_table(rows, columns, **more)
        else:
            say(f"{len(rows)} row{'s' * (len(rows) != 1)} in {self.csv}")

    def draw(self, picture: str, rows: Any) -> None:
        """The rows as a picture of `pictures.curves`, if one is asked for."""
        if self.plot is None:
            return
        from polyceptron.pictures import curves
        from polyceptron.pictures.matplotlib_figure import render_matplotlib, save_figure

        save_figure(render_matplotlib(getattr(curves, picture)(frame(rows))), self.plot)
        say(f"drawn in {self.plot}")


def print_json(rows: Iterable[Mapping[str, Any]]) -> None:
    """A list of objects; a number that is not finite is null."""
    sys.stdout.write(json.dumps([json_ready(row) for row in rows], indent=1) + "\n")


def print_table(
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[str],
    title: str | None = None,
    *,
    optional: Sequence[str] = (),
    below: str | None = None,
) -> None:
    """A table of the columns that at least one row has; `below` stands under its row, in words.

    `optional` names the columns that may be left out for want of room, the first of them first.
    """
    rows = list(rows)
    width = shutil.get_terminal_size().columns
    cells = {c: [format_value(row.get(c), c) for row in rows] for c in columns}
    shown = [c for c in columns if any(cells[c])]
    widths = {c: max(len(header(c)), *map(len, cells[c])) for c in shown}
    left_out = []
    for column in optional:
        if sum(widths[c] + len(GAP) for c in shown) > width + len(GAP) and column in shown:
            shown.remove(column)
            left_out.append(header(column))
    if title:
        echo(title)
    # Words to the left, numbers to the right.
    number = re.compile(r"[-+.\de]*|-?inf|nan").fullmatch
    place = {c: str.rjust if all(map(number, cells[c])) else str.ljust for c in shown}

    def line(texts: Mapping[str, str]) -> str:
        return GAP.join(place[c](texts[c], widths[c]) for c in shown).rstrip()

    typer.secho(line({c: header(c) for c in shown}), bold=True)
    typer.echo(shown_as("─") * min(sum(widths[c] + len(GAP) for c in shown) - len(GAP), width))
    for i, row in enumerate(rows):
        typer.echo(line({c: cells[c][i] for c in shown}))
        if below is not None and row.get(below) is not None:
            indent = GAP + GAP
            typer.echo(textwrap.TextWrapper(width, indent, indent).fill(str(row[below])))
    if left_out:
        echo(f"not shown for want of room: {', '.join(left_out)} (--json has every column)")


def echo(text: str) -> None:
    """Words on standard output, broken between words where the terminal ends."""
    typer.echo(textwrap.fill(text, shutil.get_terminal_size().columns))


def header(column: str) -> str:
    """What stands over a column."""
    return shown_as(HEADERS.get(column, column.replace("_", " ")))


def format_value(value: Any, column: str = "") -> str:
    """A cell: six significant digits, four for a training sample's, two for an uncertainty."""
    if isinstance(value, float) and value == value:  # not NaN, which says that there is none
        digits = ".1e" if "uncertainty" in column else ".4g" if "training" in column else ".6g"
        return f"{value:{digits}}"
    return "" if value is None or value != value else str(value)


def collect(
    parts: Iterable[list[dict[str, Any]]], n_parts: int, what: str
) -> tuple[list[dict[str, Any]], Callable[[], None]]:
    """The rows of all parts, with the time left shown; what there is by then if it is stopped.

    The function that is given ends a stopped command with exit code 130, and does nothing else.
    """
    rows: list[dict[str, Any]] = []
    done = 0

    def stopped() -> None:
        if done < n_parts:
            say(f"stopped: {done} of {n_parts} parts are done, and what they gave is kept")
            raise typer.Exit(130)

    with waiting(what):
        try:
            for part in steps(parts, n_parts):
                rows += part
                done += 1
        except KeyboardInterrupt:
            if not rows:
                raise
    return rows, stopped
