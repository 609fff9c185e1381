"""What a sweep is to compute: a TOML file, read and checked before any work.

    [sweep]            name, seed
    [theory]           tolerance                                    (all optional)
    [amp]              tolerance, max_iterations, precision, variances
    [erm]              tolerance, solver, test_samples
    [[grid]]           one block for each grid: every combination of its lists is computed

A mistake is reported with the line and the field it stands in.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from polyceptron.errors import InvalidInput
from polyceptron.experiments.spec_errors import describe_errors
from polyceptron.experiments.tasks import count_rows
from polyceptron.files import read_text
from polyceptron.model import as_prior
from polyceptron.ranges import parse_numbers

MAX_ROWS = 10_000_000
MAX_DIMENSION = 10**9
MAX_WHOLE = 2**53  # an integer that every column and file keeps exactly

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
Estimator = Literal[
    "bayes",  # the best possible; what message passing aims at
    "cross-entropy",  # the others minimise a loss, with a ridge
    "square",
    "max-margin",  # the limit of a vanishing ridge on separable data
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
RISK_ESTIMATORS = tuple(name for name in get_args(Estimator) if name != "bayes")
# The branch of the theory that message passing is compared with, by its start.
REACHED: dict[Start, Branch] = {"uninformed": "amp", "informed": "informed"}


def _as_list(value: Any) -> Any:
    """One value stands for a list of one."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _numbers(value: Any) -> Any:
    """A list of numbers, one number, or a range 'start:stop:count' (':log' for geometric)."""
    if not isinstance(value, str):
        return _as_list(value)
    return parse_numbers(value, "a range")


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


def _no_repeats(values: list[Any]) -> list[Any]:
    repeated = sorted(str(value) for value, count in Counter(values).items() if count > 1)
    if repeated:
        shown = ", ".join(repeated[:5]) + (", ..." if len(repeated) > 5 else "")
        raise ValueError(f"every value may stand only once, repeated: {shown}")
    return values


def _check_classes(value: int) -> int:
    if not 2 <= value <= 1000:
        raise ValueError("the number of classes must be between 2 and 1000")
    return value


_Prior = Annotated[Any, AfterValidator(_prior_name)]
_Classes = Annotated[int, AfterValidator(_check_classes)]
_Listed = BeforeValidator(_as_list)
_Ranged = BeforeValidator(_numbers)
_Finite = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Tolerance = Annotated[float, Field(gt=0, lt=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SweepTable(_Table):
    """[sweep]: the name shown to people, and the seed that all instances grow from."""

    name: str = "sweep"
    seed: int = Field(default=0, ge=0, lt=2**63)


class TheorySettings(_Table):
    """[theory]: accuracy of the predictions; absent means the solver's own default."""

    tolerance: _Tolerance | None = None


class AmpSettings(_Table):
    """[amp]: when message passing stops."""

    tolerance: _Tolerance = 1e-8
    max_iterations: int = Field(default=200, ge=1, le=MAX_WHOLE)
    precision: Literal["float32", "float64"] = "float64"
    variances: Literal["shared", "full"] = "shared"


class ErmSettings(_Table):
    """[erm]: certified relative tolerance on the weights; absent test_samples: the exact error."""

    tolerance: _Tolerance = 1e-8
    solver: Literal["auto", "sklearn"] = "auto"
    test_samples: int | None = Field(default=None, ge=1, le=MAX_WHOLE)


class SweepGrid(_Table):
    """[[grid]]: every combination of the lists; instances are numbered 0, 1, 2, ..."""

    model: Annotated[list[Model], _Listed, Field(min_length=1)] = ["argmax"]
    classes: Annotated[list[_Classes], _Listed, Field(min_length=1)] = [2]
    prior: Annotated[list[_Prior], _Listed, Field(min_length=1)] = ["gaussian"]
    sources: Annotated[list[Source], _Listed, Field(min_length=1)]
    estimators: Annotated[list[Estimator], _Listed, Field(min_length=1)] = ["bayes"]
    ridge: Annotated[list[Annotated[float, Field(ge=0, allow_inf_nan=False)]], _Ranged] = []
    alpha: Annotated[list[_Finite], _Ranged, Field(min_length=1)]
    dimension: Annotated[list[Annotated[int, Field(ge=1, le=MAX_DIMENSION)]], _Listed] = []
    instances: int = Field(default=1, ge=1, le=MAX_WHOLE)
    first_instance: int = Field(default=0, ge=0, le=MAX_WHOLE)
    branch: Annotated[list[Branch], _Listed] = []
    start: Annotated[list[Start], _Listed, Field(min_length=1)] = ["uninformed"]

    @field_validator("*")
    @classmethod
    def _check_repeats(cls, value: Any) -> Any:
        return _no_repeats(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        risks = [e for e in self.estimators if e != "bayes"]
        ridged = [e for e in risks if e != "max-margin"]
        if "amp" in self.sources and "bayes" not in self.estimators:
            raise ValueError("the source 'amp' computes the estimator 'bayes', which is not listed")
        if "erm" in self.sources and not risks:
            raise ValueError(
                f"the source 'erm' needs one of the estimators {', '.join(RISK_ESTIMATORS)}"
            )
        if ridged and not self.ridge:
            raise ValueError(f"the estimator {ridged[0]!r} needs ridge = [...]")
        if {"amp", "erm"} & set(self.sources) and not self.dimension:
            raise ValueError("the sources 'amp' and 'erm' need dimension = [...]")
        if "perceptron" in self.model and self.classes != [2]:
            raise ValueError(f"the model 'perceptron' has classes = [2], got {self.classes}")
        if self.dimension:
            if max(self.alpha) * max(self.dimension) > MAX_WHOLE:
                raise ValueError(f"alpha = {max(self.alpha):g} is too much in these dimensions")
            least, smallest = min(self.alpha), min(self.dimension)
            if round(least * smallest) < 1:
                raise ValueError(f"alpha = {least:g} in dimension {smallest} is no sample at all")
        return self

    @property
    def branches(self) -> list[Branch]:
        """Of the theory of 'bayes': those asked for, or else those that message passing reaches."""
        if self.branch:
            return self.branch
        return [REACHED[start] for start in self.start] if "amp" in self.sources else ["optimal"]


class SweepSpec(_Table):
    """A whole sweep."""

    sweep: SweepTable = SweepTable()
    theory: TheorySettings = TheorySettings()
    amp: AmpSettings = AmpSettings()
    erm: ErmSettings = ErmSettings()
    grid: Annotated[list[SweepGrid], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        total = count_rows(self)
        if total > MAX_ROWS:
            raise ValueError(f"this sweep has {total:,} rows; it may have up to {MAX_ROWS:,}")
        return self


def load_spec(path: str | Path) -> SweepSpec:
    """Read a sweep from a TOML file; a mistake in it is reported with its line and field.

    >>> load_spec("nowhere.toml")
    Traceback (most recent call last):
        ...
    polyceptron.errors.InvalidInput: there is no sweep file 'nowhere.toml'
    """
    return parse_spec(read_text(path, "sweep file"), name=Path(path).name)


def parse_spec(text: str, name: str = "sweep") -> SweepSpec:
    """Read a sweep from TOML text; `name` stands in the error messages.

    >>> parse_spec('[[grid]]\\nsources = "theory"\\nalpha = "1:3:3"').grid[0].alpha
    [1.0, 2.0, 3.0]
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{name} is not valid TOML: {error}") from None
    except ValueError:  # Python's limit on the digits of an integer
        raise InvalidInput(f"{name} has an integer of more digits than can be read") from None
    except RecursionError:
        raise InvalidInput(f"{name} has arrays or tables nested too deeply to be read") from None
    try:
        return SweepSpec.model_validate(values)
    except ValidationError as error:
        raise InvalidInput(describe_errors(error, text, name, SweepSpec)) from None
