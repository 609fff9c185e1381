"""From the values of options to objects: the population, the estimators, and where rows go.

`with_shared_options` gives a command a `teacher` and an `output` in place of the dozen options that
describe them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, get_args

from polyceptron.cli.options import (
    Biases,
    Classes,
    Csv,
    Features,
    Gram,
    IsMixture,
    Json,
    Model,
    Noise,
    Plot,
    Prior,
    Prune,
    Separation,
    Shares,
    Variances,
)
from polyceptron.cli.output import Output
from polyceptron.errors import InvalidInput
from polyceptron.files import check_outputs
from polyceptron.number_lists import parse_numbers
from polyceptron.progress import say

if TYPE_CHECKING:
    from polyceptron.problem import Estimator

# Options of unequal classes; a command without them has a teacher of equal classes.
UNEQUAL_CLASSES = ("shares", "biases", "gram", "mixture", "separation", "variances", "prune")


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
    for name in defaults:
        options_of["teacher"][name] = _showing_its_default(options_of["teacher"][name])

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        """Replace the arguments that `makers` make by the options they are made of."""
        arguments = _parameters(command)
        options = _with_options(arguments, options_of)
        for name in without:
            options.pop(name, None)

        @wraps(command)
        def run(**values: Any) -> None:
            """Make the arguments from the options, then run the command."""
            made = {}
            for name, maker in makers.items():
                given = {option: values[option] for option in options_of[name] if option in values}
                made[name] = maker(**given)
            own = {name: values[name] for name in arguments if name not in makers}
            command(**made, **own)

        # typer reads the options of a command from its signature.
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in options.values()
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _with_options(
    arguments: Mapping[str, inspect.Parameter],
    options_of: Mapping[str, Mapping[str, inspect.Parameter]],
) -> dict[str, inspect.Parameter]:
    """Return the arguments, each of those that are made from options replaced by its options."""
    options: dict[str, inspect.Parameter] = {}
    for name, parameter in arguments.items():
        options.update(options_of.get(name, {name: parameter}))
    return options


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function by name, their annotations evaluated."""
    return dict(inspect.signature(function, eval_str=True).parameters)


def _showing_its_default(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return the parameter with an option whose help shows the default that it now has."""
    kind, declared = get_args(parameter.annotation)
    shown = copy(declared)
    shown.show_default = True
    return parameter.replace(annotation=Annotated[kind, shown])


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
    prune: Prune = None,
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
            raise InvalidInput(f"a mixture has no teacher: leave out {', '.join(wrong)}")
        if prune is not None:
            raise InvalidInput("a mixture has no teacher's margins: leave out --prune")
        return _read_mixture(classes, **of_classes, **of_mixture)
    for name, value in of_mixture.items():
        if value is not None:
            raise InvalidInput(f"--{name} needs --mixture")
    given: dict[str, Any] = _not_none({**of_classes, "prune": prune})
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
    default_ridge: str | None = None,
) -> list[Estimator]:
    """Return every estimator named, at every ridge and penalty given.

    Parameters
    ----------
    names : sequence of str
        Names of estimators.
    ridges, penalties : str or sequence of str
        Numbers, ranges and 'optimal'; names of penalties. An estimator that takes no ridge is made
        once; it is an error to give a ridge to it alone.
    intercept, class_weight
        What each estimator fits in addition.
    default_ridge : str, optional
        The ridge where none is given; without it each estimator has its own default.
    """
    from polyceptron.problem import make_estimator

    ridge_texts = _as_sequence(ridges)
    penalty_texts = _as_sequence(penalties)
    ridge_values = [value for text in ridge_texts for value in _read_ridges(text)]
    given = [*ridge_texts, *penalty_texts]
    estimators: list[Estimator] = []
    for name in names:
        plain = make_estimator(name, intercept=intercept, class_weight=class_weight)
        if given and len(names) == 1 and not plain.takes_ridge:
            raise InvalidInput(
                f"{name} takes no ridge, got {given[0]}: choose an estimator that takes one, as "
                "-e cross-entropy does"
            )
        if plain.takes_ridge:
            estimators += _with_strengths(plain, ridge_values, penalty_texts, default_ridge)
        else:
            estimators.append(plain)
    return list(dict.fromkeys(estimators))


def _with_strengths(
    estimator: Estimator,
    ridges: Sequence[float | str],
    penalties: Sequence[str],
    default_ridge: str | None,
) -> list[Estimator]:
    """Return an estimator at every ridge and penalty, or at the default ridge without any."""
    if ridges or penalties:
        at_ridges = [estimator.with_ridge(ridge) for ridge in ridges]
        return at_ridges + [estimator.with_ridge(penalty=penalty) for penalty in penalties]
    if default_ridge is not None:
        return [estimator.with_ridge(default_ridge)]
    return [estimator]


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
