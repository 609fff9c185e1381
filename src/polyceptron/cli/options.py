"""What the commands share: options, declared once, and what is made from them.

`option` and `setting` declare an option. The names in capitals below (`Classes`, `Prior`, ...) are
types of parameters that stand for one option each. `with_shared_options` gives a command a
`teacher` and an `output` in place of the dozen options that describe them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyceptron.cli.help_texts import WORD_IN_BRACES, completions
from polyceptron.cli.output import Output
from polyceptron.errors import InvalidInput
from polyceptron.files import check_outputs
from polyceptron.number_lists import parse_numbers
from polyceptron.progress import say

if TYPE_CHECKING:
    from polyceptron.problem import Estimator


def option(help: str, *flags: str, **more: Any) -> Any:
    """Declare an option; its values complete to what a word in braces of its help stands for.

    Parameters
    ----------
    help : str
        One line; a word in braces stands for the names of a registry (see `help_texts`).
    *flags : str
        How it is written, as '--classes', '-k'; without any, the name of the parameter.
    **more
        Passed to `typer.Option`.
    """
    words = WORD_IN_BRACES.findall(help)
    if not words:
        return typer.Option(*flags, help=help, **more)

    def complete(incomplete: str) -> list[str]:
        return completions(words[0], incomplete)

    return typer.Option(*flags, help=help, autocompletion=complete, **more)


def setting(default: Any, help: str, *flags: str, **more: Any) -> Any:
    """Declare an option of one command, in the place of the default of its parameter."""
    return option(help, default, *flags, **more)  # the default is typer's first argument


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


# Options of classes that differ in share, bias or distance; a command without them has a teacher of
# equal classes.
UNEQUAL_CLASSES = ("shares", "biases", "gram", "mixture", "separation", "variances")


def with_shared_options(
    *without: str, **defaults: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command its arguments `teacher` and `output`, made from options that many share.

    A command is written as a function of what it needs, `def curve(*, alpha, teacher, output)`. At
    the shell, the teacher is described by the parameters of `read_population` (--classes, --prior,
    ...) and the output by those of `read_output` (--json, --csv, --plot). The decorated function
    has these options as its own parameters, for typer to read. When it is called, it makes the two
    objects and calls the command.

    Parameters
    ----------
    *without : str
        Names of shared options that this command does not take.
    **defaults
        Other defaults of shared options, as `prior="rademacher"`.
    """
    makers: dict[str, Callable[..., Any]] = {
        "teacher": partial(read_population, **defaults),
        "output": read_output,
    }
    options_of = {name: _parameters(maker) for name, maker in makers.items()}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        arguments = _parameters(command)
        options: dict[str, inspect.Parameter] = {}
        for name, parameter in arguments.items():
            if name in options_of:
                options |= options_of[name]
            else:
                options[name] = parameter
        for name in without:
            options.pop(name, None)

        @wraps(command)
        def run(**values: Any) -> None:
            made = {}
            for name, maker in makers.items():
                given = {option: values[option] for option in options_of[name] if option in values}
                made[name] = maker(**given)
            own = {name: values[name] for name in arguments if name not in makers}
            command(**made, **own)

        # typer reads the options of a command from its signature.
        parameters = [one.replace(kind=one.KEYWORD_ONLY) for one in options.values()]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorate


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function by name, their annotations evaluated."""
    return dict(inspect.signature(function, eval_str=True).parameters)


def read_population(
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
    """Return the teacher or the mixture that the options describe; None is the model's own default.

    Where the given spectrum of the features was rescaled to unit trace, standard error says so.
    """
    from polyceptron.problem import make_teacher

    of_teacher = {"model": model, "prior": prior, "noise": noise, "features": features}
    of_classes = {"shares": shares, "biases": biases, "gram": gram}
    of_mixture = {"separation": separation, "variances": variances}
    if mixture:
        defaults = {"model": "argmax", "prior": None, "noise": "none", "features": "isotropic"}
        wrong = [f"--{name}" for name, value in of_teacher.items() if value != defaults[name]]
        if wrong:
            raise InvalidInput(f"a mixture has no teacher, got {', '.join(wrong)}")
        return _read_mixture(classes, **of_classes, **of_mixture)
    for name, value in of_mixture.items():
        if value is not None:
            raise InvalidInput(f"--{name} is of a mixture: give --mixture too")
    given: dict[str, Any] = _not_none(of_classes)
    teacher = make_teacher(model, classes, prior, noise, features, **given)
    if not teacher.features.isotropic:
        say(f"features: {teacher.features.describe()}")
    return teacher


def _read_mixture(classes: int | None, **given: str | float | None) -> Any:
    """Return the mixture of these shares, distances and variances; equal shares by default."""
    from polyceptron.problem import make_population

    gram = given["gram"]
    if given["shares"] is None:
        n_classes = 3
        if classes:
            n_classes = classes
        elif isinstance(gram, str):
            n_classes = 1 + gram.count(";")
        given["shares"] = ",".join([repr(1 / n_classes)] * n_classes)
    return make_population("mixture", classes, **_not_none(given))


def _not_none(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that were given."""
    return {name: value for name, value in values.items() if value is not None}


def read_output(
    as_json: Json = False, csv: Csv = None, plot: Plot = None, features: Features = "isotropic"
) -> Output:
    """Return where rows go and are drawn; raise if it cannot be written or is an input."""
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
    """Return every estimator named, at every ridge and penalty given.

    Parameters
    ----------
    names : sequence of str
        Names of estimators.
    ridges, penalties : str or sequence of str
        Numbers, ranges and 'optimal'; names of penalties. Without any of both, an estimator is at
        its default ridge. One that takes no ridge is made once, but an error if it is alone.
    intercept, class_weight
        What each estimator fits in addition.
    """
    from polyceptron.problem import make_estimator

    ridge_texts = _as_sequence(ridges)
    penalty_texts = _as_sequence(penalties)
    ridge_values = [value for text in ridge_texts for value in _read_ridges(text)]
    estimators: list[Estimator] = []
    for name in names:
        plain = make_estimator(name, intercept=intercept, class_weight=class_weight)
        if not ridge_values and not penalty_texts:
            estimators.append(plain)
        elif plain.takes_ridge:
            estimators += [plain.with_ridge(ridge) for ridge in ridge_values]
            estimators += [plain.with_ridge(penalty=penalty) for penalty in penalty_texts]
        elif len(names) > 1:
            estimators.append(plain)
        else:
            raise InvalidInput(f"{name} takes no ridge, got {[*ridge_texts, *penalty_texts][0]}")
    return list(dict.fromkeys(estimators))


def _as_sequence(texts: Sequence[str] | str | None) -> Sequence[str]:
    """Return the texts of an option that may be given once, several times, or not at all."""
    if texts is None:
        return ()
    if isinstance(texts, str):
        return [texts]
    return texts


def _read_ridges(text: str) -> Sequence[float | str]:
    """Return the ridges of one --ridge: numbers, a range of log-spaced ones, or 'optimal'."""
    if text == "optimal":
        return [text]
    return parse_numbers(text, "--ridge", log=True)
