"""Options that several commands share, declared once, and what they mean together.

Where a help text lists names, it holds a word in braces that stands for a registry: the names are
filled in when help is shown (`NamesInHelp`), since reading them takes longer than parsing.

What the commands that fit a user's files share: their options, and what they write.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from polyceptron.cli.printing import check_outputs, emit, say, waiting
from polyceptron.errors import InvalidInput
from polyceptron.ranges import parse_numbers
from polyceptron.rows import json_ready

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
Penalties = Annotated[
    list[str],
    typer.Option(
        "--penalty", help="In place of a ridge, one of {penalties}; repeat for several.",
        autocompletion=_complete("penalties"),
    ),
]  # fmt: skip
OnePenalty = Annotated[
    str | None, typer.Option("--penalty", help="In place of a ridge, one of {penalties}.")
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


def build_estimator(name: str, ridge: str, penalty: str | None = None) -> Estimator:
    """One estimator; a ridge given to one that takes none is refused, unless it is 0 or optimal."""
    from polyceptron.model import make_estimator

    return make_estimator(name, None if penalty else read_ridge(ridge), penalty)


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


Data = Annotated[
    Path | None, typer.Option(help="Samples X (n, d): .npy, .npz (sparse), .zarr or .parquet.")
]
Labels = Annotated[Path | None, typer.Option(help="Labels 0, 1, ... (n,) of the samples: .npy.")]
Out = Annotated[
    Path, typer.Option(help="Weights (d, k), as .npy; the report is a .json beside it.")
]
Standardise = Annotated[
    bool, typer.Option("--standardise", help="Centre and scale features as they are read.")
]
CheckpointFile = Annotated[
    Path | None, typer.Option("--checkpoint", help="Keep the fit here, and go on from it.")
]
Cluster = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler whose workers read .zarr or .parquet."),
]


def run_on_files(
    name: str,
    run: Callable[..., dict[str, Any]],
    data: Path | None,
    labels: Path | None,
    out: Path,
    as_json: bool,
    cluster: str | None,
    **settings: Any,
) -> None:
    """Check where to write, fit with progress shown, write weights and report, print the report."""
    if data is None or labels is None:
        raise InvalidInput("--data and --labels go together: a file of samples, a file of labels")
    if out.suffix != ".npy":
        raise InvalidInput(f"weights are written as .npy, got --out {str(out)!r}")
    beside = out.with_suffix(".json")
    check_outputs(out, beside)
    with _connected(cluster, data), waiting(f"{name}: the first pass over {data.name}") as show:
        report = run(data, labels, callback=lambda now: show(str(now)), **settings)
    _write(out, beside, report)
    shown = {key: value for key, value in report.items() if key not in ("weights", "offset")}
    columns = ("n_samples", "dimension", "n_classes", "n_iter", "passes", "seconds", "status")
    optional = ("n_classes", "passes", "dimension", "n_samples")
    emit([shown], columns, optional=optional, as_json=as_json, title=f"{name} of {data.name}")
    say(f"weights in {out}, report in {beside}")
    if report["status"] == "interrupted":
        sys.exit(130)


def _write(out: Path, beside: Path, report: dict[str, Any]) -> None:
    from polyceptron.experiments.data_runs import save_weights
    from polyceptron.files import write_text

    save_weights(out, report["weights"])
    told = json_ready({key: value for key, value in report.items() if key != "weights"})
    write_text(beside, json.dumps(told, indent=2) + "\n")


@contextmanager
def _connected(cluster: str | None, data: Path) -> Iterator[None]:
    """Dask's work on the cluster, if one is named."""
    if cluster is None:
        yield
        return
    if data.suffix not in (".zarr", ".parquet"):
        raise InvalidInput(
            f"--cluster reads .zarr or .parquet in chunks where its workers are, got {data.name!r}"
        )
    from polyceptron.experiments.cluster import connect

    client = connect(cluster)
    try:
        yield
    finally:
        client.close(timeout=2)
