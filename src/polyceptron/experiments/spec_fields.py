"""The kinds of values in a sweep file, each checked with a sentence.

Names of estimators, priors, noises and features are those of the registries, read when a file is: a
member that was registered a moment ago is allowed.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from polyceptron.model import BayesOptimal, as_channel, as_prior, as_spectrum, estimator_names
from polyceptron.model.checks import check_classes, check_ridge
from polyceptron.ranges import parse_numbers

# The closed sets of words in a sweep file and in the rows that it makes.
Source = Literal[
    "theory",  # exact in the limit of large d; no data
    "amp",  # message passing on drawn data
    "erm",  # minimisation of a regularised loss on drawn data
]
Model = Literal[
    "argmax",  # k weight vectors, the label is the largest of k scores
    "perceptron",  # one weight vector, the label is the sign of a score
]
Branch = Literal[
    "optimal",  # the solution of the largest free entropy: what is possible
    "amp",  # the one that message passing reaches from no information
    "informed",  # the one that it reaches from the truth
]
Start = Literal[
    "uninformed",  # from the prior's mean
    "informed",  # from the truth, to see a branch that cannot be found otherwise
]
BAYES = BayesOptimal.name
# The branch of the theory that message passing is compared with, by its start.
REACHED: dict[Start, Branch] = {"uninformed": "amp", "informed": "informed"}


def as_list(value: Any) -> Any:
    """One value stands for a list of one."""
    return list(value) if isinstance(value, list | tuple) else [value]


def as_numbers(value: Any) -> Any:
    """A list of numbers, one number, or a range 'start:stop:count' (':log' for geometric)."""
    return parse_numbers(value, "a range") if isinstance(value, str) else as_list(value)


def as_ridges(value: Any) -> Any:
    """As numbers, or the word 'optimal', alone or in the list."""
    return [value] if value == "optimal" else as_numbers(value)


def no_repeats(values: list[Any]) -> list[Any]:
    """The list, if every value stands in it once."""
    repeated = sorted(str(value) for value, count in Counter(values).items() if count > 1)
    if repeated:
        shown = ", ".join(repeated[:5]) + (", ..." if len(repeated) > 5 else "")
        raise ValueError(f"every value may stand only once, repeated: {shown}")
    return values


def _prior_name(value: Any) -> str:
    """A prior as text that reads back to the same prior to the last bit."""
    if isinstance(value, dict):
        if set(value) != {"values", "probabilities"}:
            raise ValueError("a prior table has exactly the keys values and probabilities")
        value = (value["values"], value["probabilities"])
    try:
        return as_prior(value).name
    except OverflowError:
        raise ValueError("a value or probability of the prior is too large") from None


def _noise_name(value: Any) -> str:
    """A noise as text that reads back to the same noise."""
    return as_channel(value).name


def _features_name(value: Any) -> str:
    """A spectrum as text that reads back to the same one."""
    return as_spectrum(value).name


def _estimator_name(value: Any) -> str:
    """One of the estimators that have a name."""
    name = value.replace("_", "-") if isinstance(value, str) else value
    if name not in estimator_names():
        raise ValueError(f"should be one of the estimators {', '.join(estimator_names())}")
    return str(name)


def _classes(value: int) -> int:
    if not 2 <= value <= 1000:  # the sentence of `check_classes` would quote any number in full
        raise ValueError("the number of classes must be between 2 and 1000")
    return check_classes(value)


def _ridge(value: Any) -> float | str:
    if isinstance(value, str) and value != "optimal":
        raise ValueError("should be a number of 0 or more, or 'optimal'")
    return check_ridge(value, optimal=True)


Prior = Annotated[Any, AfterValidator(_prior_name)]
Noise = Annotated[Any, AfterValidator(_noise_name)]
Features = Annotated[Any, AfterValidator(_features_name)]
Estimator = Annotated[Any, AfterValidator(_estimator_name)]
Classes = Annotated[int, AfterValidator(_classes)]
Ridge = Annotated[Any, AfterValidator(_ridge)]
Listed = BeforeValidator(as_list)
Ranged = BeforeValidator(as_numbers)
Ridges = BeforeValidator(as_ridges)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Tolerance = Annotated[float, Field(gt=0, lt=1)]
