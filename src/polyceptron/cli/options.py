"""The options of the commands, each declared once.

`option` and `setting` declare an option. The names in capitals below (`Classes`, `Prior`, ...) are
types of parameters that stand for one option each. `inputs` makes objects from their values.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from polyceptron.cli.help_texts import WORD_IN_BRACES, completions

# Headings under which the help of a command lists its options.
PROBLEM = "Problem"
UNEQUAL = "Unequal classes"
ESTIMATOR = "Estimator"
RESULT = "Result"


def option(help: str, *flags: str, panel: str | None = None, **more: Any) -> Any:
    """Declare an option; its values complete to what a word in braces of its help stands for.

    Parameters
    ----------
    help : str
        What the option does, and an example. A word in braces stands for the names of a registry
        (see `help_texts`).
    *flags : str
        How it is written, as '--classes', '-k'; without any, the name of the parameter.
    panel : str, optional
        The heading under which the help lists the option.
    **more
        Passed to `typer.Option`.
    """
    words = WORD_IN_BRACES.findall(help)
    if words:

        def complete(incomplete: str) -> list[str]:
            """Return the names that begin with what has been typed."""
            return completions(words[0], incomplete)

        more["autocompletion"] = complete
    return typer.Option(*flags, help=help, rich_help_panel=panel, **more)


def setting(default: Any, help: str, *flags: str, **more: Any) -> Any:
    """Declare an option of one command, in the place of the default of its parameter."""
    return option(help, default, *flags, **more)  # the default is typer's first argument


_LIST_OF_ALPHA = (
    "Samples per dimension, α = n/d: a list such as 0.5,1,2 or a range start:stop:count"
)
Alpha = Annotated[
    str,
    option(
        f"{_LIST_OF_ALPHA}. Add :log for logarithmic spacing: 0.1:100:20:log.",
        *("--alpha", "-a"),
        metavar="LIST",
        panel=PROBLEM,
    ),
]
CurveAlpha = Annotated[
    str,
    option(
        f"{_LIST_OF_ALPHA}. Without a count, the range start:stop has as many points as a smooth "
        "line needs. Add :log for logarithmic spacing: 0.1:100:log.",
        *("--alpha", "-a"),
        metavar="LIST",
        panel=PROBLEM,
    ),
]
Classes = Annotated[
    int | None,
    option(
        "Number of classes k, for example 4.",
        *("--classes", "-k"),
        metavar="K",
        show_default="3, or 2 for the perceptron",
        panel=PROBLEM,
    ),
]
Prior = Annotated[
    str | None,
    option(
        "Distribution of the teacher's weights: {priors}. Example: sparse-gaussian:0.1 sets nine "
        "weights in ten to zero.",
        metavar="NAME",
        show_default="gaussian, or rademacher for the perceptron",
        panel=PROBLEM,
    ),
]
Model = Annotated[
    str,
    option(
        "Rule that labels the samples: argmax (one weight vector per class, the largest field "
        "wins) or perceptron (one weight vector, two classes).",
        metavar="NAME",
        panel=PROBLEM,
    ),
]
Noise = Annotated[
    str,
    option(
        "Noise of the labels: {noises}. Example: flips:0.1 moves one label in ten to another "
        "class.",
        metavar="NAME",
        panel=PROBLEM,
    ),
]
Features = Annotated[
    str,
    option(
        "Eigenvalues of the features' covariance: {features}, or a CSV file with the columns "
        "eigenvalue and signal. Examples: power:1.2:1000 has the eigenvalues i^(-1.2) of 1000 "
        "features; levels:4x0.1,0.67x0.9 gives a tenth of the directions the variance 4 and the "
        "others 0.67; levels:4x0.1@2,0.67x0.9@0.5 also gives the teacher's weights the variances 2 "
        "and 0.5 there.",
        metavar="NAME",
        panel=PROBLEM,
    ),
]
Shares = Annotated[
    str | None,
    option(
        "Shares of unequal classes, for example 0.6,0.3,0.1.",
        metavar="LIST",
        show_default="equal shares",
        panel=UNEQUAL,
    ),
]
Biases = Annotated[
    str | None,
    option(
        "Biases of the teacher, one per class, for example 0.5,0,-0.5. They replace --shares.",
        metavar="LIST",
        show_default="no biases",
        panel=UNEQUAL,
    ),
]
Gram = Annotated[
    str | None,
    option(
        "Inner products of the teacher's weight vectors, or of the cluster means of a mixture; a "
        "semicolon ends a row. Example: 1,0.5;0.5,1.",
        metavar="ROWS",
        panel=UNEQUAL,
    ),
]
IsMixture = Annotated[
    bool,
    option(
        "Draw each class from a Gaussian cluster, without a teacher. It needs --separation or "
        "--gram.",
        "--mixture",
        panel=UNEQUAL,
    ),
]
Separation = Annotated[
    float | None,
    option(
        "Distance between any two cluster means, for example 2. It needs --mixture.",
        metavar="NUMBER",
        panel=UNEQUAL,
    ),
]
Variances = Annotated[
    str | None,
    option(
        "Variances of the features in each cluster, for example 1,1,2. It needs --mixture.",
        metavar="LIST",
        show_default="1 in each cluster",
        panel=UNEQUAL,
    ),
]
Prune = Annotated[
    str | None,
    option(
        "Train on a share of the samples only: hard:0.5 keeps the half with the smallest teacher "
        "margins, easy:0.5 the half with the largest, random:0.5 any half. With two classes, add "
        ":0.8 for margins under a probe of this correlation with the teacher.",
        metavar="NAME",
        show_default="all samples",
        panel=PROBLEM,
    ),
]
_ESTIMATOR = ("--estimator", "-e")
# Which estimator a command takes if none is named: `default_estimator` in theory_commands.
DEFAULT_ESTIMATOR = (
    "bayes; cross-entropy for unequal classes, or with a ridge, a penalty, an intercept or class "
    "weights"
)
Estimators = Annotated[
    list[str],
    option(
        "Estimator: {estimators}. Repeat the option to compare several.",
        *_ESTIMATOR,
        metavar="NAME",
        show_default=DEFAULT_ESTIMATOR,
        panel=ESTIMATOR,
    ),
]
OneEstimator = Annotated[
    str,
    option("Estimator: {estimators}.", *_ESTIMATOR, metavar="NAME", panel=ESTIMATOR),
]
EstimatorOrDefault = Annotated[
    str | None,
    option(
        "Estimator: {estimators}.",
        *_ESTIMATOR,
        metavar="NAME",
        show_default=DEFAULT_ESTIMATOR,
        panel=ESTIMATOR,
    ),
]
OneLoss = Annotated[
    str, option("Loss to minimise: {losses}.", *_ESTIMATOR, metavar="NAME", panel=ESTIMATOR)
]
_PENALTY = "Penalty instead of a ridge: {penalties}. Example: elastic-net:0.1:0.5."
Penalties = Annotated[
    list[str],
    option(
        f"{_PENALTY} Repeat the option to compare several.",
        "--penalty",
        metavar="NAME",
        panel=ESTIMATOR,
    ),
]
OnePenalty = Annotated[str | None, option(_PENALTY, metavar="NAME", panel=ESTIMATOR)]
Ridges = Annotated[
    list[str],
    option(
        "Ridge λ: a number, a list such as 0.01,0.1,1, or optimal for the best one at each α. "
        "Repeat the option to compare several.",
        "--ridge",
        metavar="LIST",
        show_default="0.1",
        panel=ESTIMATOR,
    ),
]
OneRidge = Annotated[
    str | None,
    option(
        "Ridge λ: a number such as 0.5, or optimal for the best one.",
        metavar="NUMBER",
        show_default="0.1",
        panel=ESTIMATOR,
    ),
]
Intercept = Annotated[
    bool, option("Fit an intercept for each class.", "--intercept", panel=ESTIMATOR)
]
ClassWeight = Annotated[
    str | None,
    option(
        "Weights of the classes in the loss: balanced, a list such as 1,5,3, or pairs class:weight "
        "such as 1:5,2:3.",
        metavar="LIST",
        show_default="equal weights",
        panel=ESTIMATOR,
    ),
]
Tolerance = Annotated[
    float | None,
    option(
        "Largest uncertainty (99 %) that you accept, for example 1e-8. A row that misses it has "
        "the status tolerance-not-met.",
        "--tol",
        metavar="NUMBER",
        show_default="depends on the estimator and on k",
        panel=RESULT,
    ),
]
Json = Annotated[
    bool, option("Print every column as JSON instead of the table.", "--json", panel=RESULT)
]
Csv = Annotated[
    Path | None,
    option(
        "Write every column to this CSV file instead of printing the table.",
        metavar="FILE",
        panel=RESULT,
    ),
]
Plot = Annotated[
    Path | None,
    option("Draw the result to this .pdf, .png or .svg file.", metavar="FILE", panel=RESULT),
]
