"""What the numbers mean. A sentence is a template of numbers, so that each can be traced."""

from __future__ import annotations

from dataclasses import dataclass
from string import Formatter
from typing import Any

from polyceptron.report.data.measure import Measured


@dataclass(frozen=True)
class Sentence:
    """A sentence, the heading it stands under, and the names of the numbers in it."""

    section: str
    text: str
    numbers: tuple[str, ...]


def sentences(measured: Measured) -> list[Sentence]:
    """All sentences of the report, in order."""
    v = measured.numbers
    found: list[Sentence] = []

    def say(section: str, template: str, *because: str) -> None:
        """`because` names numbers that chose the sentence without being in it."""
        used = dict.fromkeys(f for _, f, _, _ in Formatter().parse(template) if f)
        found.append(Sentence(section, template.format(**v), (*used, *because)))

    _data(say, v)
    _separability(say, v)
    _ridge(say, v)
    _more_data(say, v)
    _calibration(say, v)
    _assumptions(say, v)
    return found


def _data(say: Any, v: dict[str, Any]) -> None:
    say(
        "The data",
        "{n} samples of {d} features in {k} classes: {samples_per_feature:.3g} samples a feature.",
    )
    if v["n_in_file"] > v["n"]:
        say(
            "The data", "The file has {n_in_file} samples; {n} of them, drawn at random, were used."
        )
    if v["constant_features"]:
        say("The data", "Not counted: features that are constant, {constant_features} in number.")
    say(
        "The data",
        "The largest class, {largest_class}, has {largest_share:.1%} of the samples, the smallest, "
        "{smallest_class}, has {smallest_share:.1%}; even classes would have {even_share:.1%}.",
    )
    say(
        "The data",
        "Correlations leave an effective dimension of {effective_dimension:.3g} out of {d}.",
    )


def _separability(say: Any, v: dict[str, Any]) -> None:
    title = "Separable or not"
    if v["separable"]:
        say(
            title,
            "A linear rule separates all {n} samples: without a ridge, cross-entropy grows without "
            "bound and ends in the max-margin rule, with probabilities of 0 and 1.",
            "separable",
        )
    elif v["separable"] is False:
        say(
            title,
            "No linear rule separates the {n} samples: without a ridge, cross-entropy has a "
            "maximum-likelihood estimate, and there is no max-margin rule.",
            "separable",
        )
    else:
        say(
            title,
            "Whether a linear rule separates the {n} samples was not decided: keep a ridge.",
            "separable",
        )


def _ridge(say: Any, v: dict[str, Any]) -> None:
    title = "The ridge"
    say(
        title,
        "With {ridges_tried} ridges tried, held-out samples are predicted best near {ridge:.3g} "
        "({ridge_method}): log-loss {log_loss:.4f} ± {log_loss_se:.4f}.",
    )
    say(title, "In scikit-learn's units, on features of unit variance, it is C = {C:.3g}.")


def _more_data(say: Any, v: dict[str, Any]) -> None:
    title = "What more data would do"
    say(
        title,
        "Learning from {training_size} samples, the error on held-out ones is {error:.2%} ± "
        "{error_se:.2%} ({folds} folds); always naming the largest class would err in "
        "{guess_error:.1%}.",
    )
    say(title, "Learning from {first_size} samples it is {first_error:.2%}.")
    say(
        title,
        "If the curve goes on as a power law, {n_double} samples would bring {error_double:.2%} "
        "(9 of 10 resampled fits: {error_double_low:.2%} to {error_double_high:.2%}) and "
        "{n_tenfold} samples {error_tenfold:.2%} ({error_tenfold_low:.2%} to "
        "{error_tenfold_high:.2%}), after {error_now:.2%} with all {n_now} now.",
    )
    if v["error_now"] - v["error_tenfold_low"] < v["error_se"]:
        say(
            title,
            "Ten times the data would change the error by less than it is known to now "
            "(± {error_se:.2%}): better features are the way on, not more samples.",
            "error_now", "error_tenfold_low",
        )  # fmt: skip
    else:
        say(
            title,
            "The law has the exponent {forecast_exponent:.2g} and levels off at "
            "{forecast_floor:.2%}.",
        )


def _calibration(say: Any, v: dict[str, Any]) -> None:
    title = "Can its probabilities be trusted?"
    say(
        title,
        "On held-out samples the class it names has a probability of {confidence:.1%} on average, "
        "and is right in {accuracy:.1%} ± {accuracy_se:.1%}.",
    )
    if abs(v["confidence_gap"]) <= 2 * v["accuracy_se"]:
        word = "which chance explains"
    else:
        word = f"so that it is {'too sure' if v['confidence_gap'] > 0 else 'not sure enough'}"
    say(
        title,
        f"The difference is {{confidence_gap:+.1%}}, {word}; over bins it is "
        "{calibration_error:.1%}, of which sampling alone would give {calibration_noise:.1%}.",
        "accuracy_se",
    )


def _assumptions(say: Any, v: dict[str, Any]) -> None:
    """What the theory of this package assumes, and how far these data are from it."""
    title = "What the theory assumes, and these data break"
    if v["loud_directions"]:
        say(
            title,
            "Independent features: {loud_directions} directions carry {loud_variance:.0%} of the "
            "variance, each more than independent features could at this size (the largest "
            "{largest_eigenvalue:.3g}, the edge {noise_edge:.3g}).",
        )
    if abs(v["median_excess_kurtosis"]) > 0.5 or v["few_valued_features"]:
        say(
            title,
            "Gaussian features: the median excess kurtosis is {median_excess_kurtosis:.2g}, and "
            "{few_valued_features} of {d} features have ten values or fewer.",
        )
    if v["largest_share"] > 1.2 * v["even_share"]:
        say(
            title,
            "Classes alike: the largest has {largest_share:.1%} instead of {even_share:.1%}.",
        )
    if v["separable"] is False:
        say(title, "Labels without noise: {n} samples that no linear rule separates have some.",
            "separable")  # fmt: skip
    say(
        title,
        "If all of it held, the lowest possible error at {alpha:.3g} samples a feature would be "
        "{idealised_error:.2%}; measured is {error:.2%}. The difference says how far the data are "
        "from the idealisation, not how good the classifier is.",
    )
