"""What a sweep is to compute: a TOML file, read and checked before any work.

    [sweep]            name, seed
    [population]       model, shares, biases, gram, separation, variances, levels  (unequal classes)
    [theory]           tolerance, scores                            (all optional)
    [amp]              tolerance, max_iterations, precision, variances, test_samples
    [erm]              tolerance, solver, test_samples
    [[grid]]           one block for each grid: every combination of its lists is computed

A mistake is reported with the line and the field it stands in.
"""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self, get_args

import pydantic
from pydantic import BaseModel, BeforeValidator, Field, PlainValidator
from pydantic_core import ErrorDetails

from polyceptron.checks import MAX_CLASSES, check_ridge
from polyceptron.display import cut_text
from polyceptron.errors import InvalidInput, MistakesInFile
from polyceptron.files import read_text
from polyceptron.lab.tasks import grid_strengths
from polyceptron.number_lists import parse_numbers
from polyceptron.problem import (
    ERM,
    ESTIMATORS,
    Estimator,
    Population,
    Prior,
    as_channel,
    as_penalty,
    as_prior,
    as_spectrum,
    make_estimator,
    make_population,
    make_teacher,
)
from polyceptron.students.bayes import REACHED

MAX_ROWS = 50_000_000  # of a grid, if every list were combined with every other
MAX_WHOLE = 2**53  # an integer that every column and file keeps exactly


def _as_list(value: object) -> list[object]:
    """Return the value as a list; one value stands for a list of one."""
    if isinstance(value, list | tuple):
        return list(value)
    return [value]


def _as_range(value: object) -> Sequence[object]:
    """Return a list of numbers, one number, the word 'optimal', or a range in text, as a list."""
    if isinstance(value, str) and value != "optimal":
        return parse_numbers(value, "a range")
    return _as_list(value)


class _HasName(Protocol):
    """A prior, noise, spectrum, penalty or estimator: it has a name that reads back to it."""

    @property
    def name(self) -> str:
        """Return the name with its numbers."""


def _named(read: Callable[[Any], _HasName]) -> PlainValidator:
    """Validate a name with `read`, and keep the name under which it reads back to the same."""
    return PlainValidator(lambda value: read(value).name)


def _prior(value: object) -> Prior:
    """Return the prior of a name, or of a table with values and probabilities."""
    if isinstance(value, dict):
        if set(value) != {"values", "probabilities"}:
            raise ValueError("a prior table has exactly the keys values and probabilities")
        value = (value["values"], value["probabilities"])
    try:
        return as_prior(value)
    except OverflowError:
        raise ValueError("a value or probability of the prior is too large") from None


def _estimator(value: str) -> Estimator:
    """Return the estimator of a name."""
    if not ESTIMATORS.knows(value):
        raise ValueError(f"should be one of the estimators {ESTIMATORS.help}")
    return make_estimator(value)


def _ridge(value: object) -> float | str:
    """Return a ridge: a number of 0 or more, or 'optimal'."""
    if isinstance(value, str) and value != "optimal":
        raise ValueError("should be a number of 0 or more, or 'optimal'")
    return check_ridge(value, optimal=True)


def _class_weight(value: object) -> str:
    """Return class weights as their text; 'none' for weights of 1."""
    weights = value
    if value == "none":
        weights = None
    return str(ERM(class_weight=weights).columns.get("class_weight", "none"))


_LIST = BeforeValidator(_as_list)
_RANGED = BeforeValidator(_as_range)
_SOME = Field(min_length=1)
Tolerance = Annotated[float, Field(gt=0, lt=1)]


class _Table(BaseModel):
    """A table of a sweep file, which takes no field but its own."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)


class SweepTable(_Table):
    """[sweep]: the name shown to people, and the seed that all instances grow from."""

    name: str = "sweep"
    seed: int = Field(default=0, ge=0, lt=2**63)


class TheorySettings(_Table):
    """[theory]: accuracy of the predictions (absent: the solver's own); whether scores too."""

    tolerance: Tolerance | None = None
    scores: Literal[True] | None = None


class AmpSettings(_Table):
    """[amp]: when message passing stops; absent test_samples: the exact error."""

    tolerance: Tolerance = 1e-8
    max_iterations: int = Field(default=200, ge=1, le=MAX_WHOLE)
    precision: Literal["float32", "float64"] = "float64"
    variances: Literal["shared", "full"] = "shared"
    test_samples: int | None = Field(default=None, ge=1, le=MAX_WHOLE)


class ErmSettings(_Table):
    """[erm]: certified relative tolerance on the weights; absent test_samples: the exact error."""

    tolerance: Tolerance = 1e-8
    solver: Literal["auto", "newton"] = "auto"
    test_samples: int | None = Field(default=None, ge=1, le=MAX_WHOLE)


Numbers = float | list[float] | list[list[float]] | str


class PopulationTable(_Table):
    """[population]: classes that are not alike, in the words of `Teacher` and `Mixture`."""

    model: Literal["argmax", "mixture"] = "argmax"
    shares: Numbers | None = None
    biases: Numbers | None = None
    gram: Numbers | None = None
    n_classes: int | None = Field(default=None, ge=2, le=MAX_CLASSES)
    prune: str | None = None
    separation: Numbers | None = None
    variances: Numbers | None = None
    levels: Numbers | None = None

    @pydantic.model_validator(mode="after")
    def _check_population(self) -> Self:
        """Raise where no such population can be made."""
        self.made()
        return self

    def made(self, **of_teacher: Any) -> Population:
        """Return the population; a mixture has no prior, noise and features `of_teacher`."""
        given = self.model_dump(exclude_none=True)
        if self.model == "mixture":
            return make_population(**given)
        return make_population(**given, **of_teacher)


class SweepGrid(_Table):
    """[[grid]]: every combination of the lists; instances are numbered 0, 1, 2, ..."""

    model: Annotated[list[Literal["argmax", "perceptron"]], _LIST, _SOME] = ["argmax"]
    classes: Annotated[list[Annotated[int, Field(ge=2, le=MAX_CLASSES)]], _LIST, _SOME] = [3]
    prior: Annotated[list[Annotated[str, _named(_prior)]], _LIST, _SOME] = ["gaussian"]
    noise: Annotated[list[Annotated[str, _named(as_channel)]], _LIST, _SOME] = ["none"]
    features: Annotated[list[Annotated[str, _named(as_spectrum)]], _LIST, _SOME] = ["isotropic"]
    sources: Annotated[list[Literal["theory", "amp", "erm"]], _LIST, _SOME]
    estimators: Annotated[list[Annotated[str, _named(_estimator)]], _LIST, _SOME] = ["bayes"]
    ridge: Annotated[list[Annotated[float | str, PlainValidator(_ridge)]], _RANGED] = []
    penalty: Annotated[list[Annotated[str, _named(as_penalty)]], _LIST] = []
    intercept: bool = False
    class_weight: Annotated[list[Annotated[str, PlainValidator(_class_weight)]], _LIST] = []
    alpha: Annotated[list[Annotated[float, Field(gt=0, allow_inf_nan=False)]], _RANGED, _SOME]
    dimension: Annotated[list[Annotated[int, Field(ge=1, le=10**9)]], _LIST] = []
    instances: int = Field(default=1, ge=1, le=MAX_WHOLE)
    first_instance: int = Field(default=0, ge=0, le=MAX_WHOLE)
    branch: Annotated[list[Literal["optimal", "amp", "informed"]], _LIST] = []
    start: Annotated[list[Literal["uninformed", "informed"]], _LIST, _SOME] = ["uninformed"]

    @pydantic.model_validator(mode="before")
    @classmethod
    def _fill(cls, values: object) -> object:
        """Give a grid of perceptrons their own classes and prior, unless it has others."""
        if not isinstance(values, dict):
            return values
        if values.get("model") not in ("perceptron", ["perceptron"]):
            return values
        perceptron = make_teacher("perceptron")
        return {"classes": perceptron.n_classes, "prior": perceptron.prior.name, **values}

    @pydantic.field_validator("*")
    @classmethod
    def _check_repeats(cls, value: object) -> object:
        """Raise where a list has a value twice."""
        if not isinstance(value, list):
            return value
        repeated = sorted(str(item) for item, count in Counter(value).items() if count > 1)
        if repeated:
            shown = ", ".join(repeated[:5])
            if len(repeated) > 5:
                shown += ", ..."
            raise ValueError(f"every value may stand only once, repeated: {shown}")
        return value

    @pydantic.model_validator(mode="after")
    def _check_combination(self) -> Self:
        """Raise where lists that are right by themselves do not go together."""
        self._check_sources()
        for name in self.estimators:
            for strength in grid_strengths(self, name):
                make_estimator(name, **strength)  # raises where a loss has no meaning at ridge 0
        if "perceptron" in self.model and self.classes != [2]:
            raise ValueError(f"the model 'perceptron' has classes = [2], got {self.classes}")
        for n_classes, noise, features in product(self.classes, self.noise, self.features):
            # Raises where labels are too random, or such features do not go with the noise.
            make_teacher("argmax", n_classes, "gaussian", noise, features)
        if self.dimension:
            self._check_sample_sizes()
        return self

    def _check_sources(self) -> None:
        """Raise unless each simulated source has an estimator and a dimension."""
        simulated = {"amp", "erm"} & set(self.sources)
        sources_of_estimators = {make_estimator(name).source for name in self.estimators}
        for source in simulated - sources_of_estimators:
            known = [n for n in ESTIMATORS.choices if make_estimator(n).source == source]
            raise ValueError(
                f"the source {source!r} computes one of the estimators {', '.join(known)}, and "
                "none of them is listed"
            )
        if simulated and not self.dimension:
            raise ValueError("the sources 'amp' and 'erm' need dimension = [...]")

    def _check_sample_sizes(self) -> None:
        """Raise unless n = αd is a whole number of 1 or more that every column keeps exactly."""
        if max(self.alpha) * max(self.dimension) > MAX_WHOLE:
            raise ValueError(f"alpha = {max(self.alpha):g} is too much in these dimensions")
        if round(min(self.alpha) * min(self.dimension)) < 1:
            least = f"alpha = {min(self.alpha):g} in dimension {min(self.dimension)}"
            raise ValueError(f"{least} leaves no sample")

    @property
    def branches(self) -> list[str]:
        """The branches of the theory of 'bayes': those asked for, or the one of largest entropy.

        Beside message passing it is the branch that this reaches from its start.
        """
        if self.branch:
            return list(self.branch)
        if "amp" in self.sources:
            return [REACHED[start] for start in self.start]
        return ["optimal"]


class SweepSpec(_Table):
    """A whole sweep."""

    sweep: SweepTable = SweepTable()
    theory: TheorySettings = TheorySettings()
    amp: AmpSettings = AmpSettings()
    erm: ErmSettings = ErmSettings()
    population: PopulationTable | None = None
    grid: Annotated[list[SweepGrid], Field(min_length=1)]

    @pydantic.model_validator(mode="after")
    def _check_grids(self) -> Self:
        """Raise where a grid describes the population again, or is too large."""
        for grid in self.grid:
            if self.population is not None and {"model", "classes"} & grid.model_fields_set:
                raise ValueError("model and classes stand in [population], not in [[grid]]")
        for grid in self.grid:
            total = math.prod(len(value) for _, value in grid if isinstance(value, list) and value)
            if grid.dimension:
                total *= grid.instances
            if total > MAX_ROWS:
                raise ValueError(
                    f"a grid has {total:,} combinations; it may have up to {MAX_ROWS:,}"
                )
        return self


def load_spec(path: str | Path) -> SweepSpec:
    """Read a sweep from a TOML file; a mistake in it is reported with its line and field.

    Parameters
    ----------
    path : path
        That file; `parse_spec` takes its text.

    Returns
    -------
    SweepSpec

    Examples
    --------
    >>> load_spec("none.toml")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    polyceptron.errors.InvalidInput: cannot read the sweep file 'none.toml': ...
    """
    return parse_spec(read_text(path, "sweep file"), name=Path(path).name)


def parse_spec(text: str, name: str = "sweep") -> SweepSpec:
    """Read a sweep from TOML text; a mistake in it is reported with its line and field.

    Parameters
    ----------
    text : str
    name : str
        Stands in the error messages.

    Returns
    -------
    SweepSpec

    Examples
    --------
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
    except pydantic.ValidationError as error:
        items = error.errors(include_url=False)
        mistakes = [_describe(item, text, name) for item in items[:MAX_MISTAKES]]
        if len(items) > MAX_MISTAKES:
            mistakes.append(f"{name}: and {len(items) - MAX_MISTAKES} more")
        raise MistakesInFile(*mistakes) from None


MAX_MISTAKES = 20  # of one file that are listed
MAX_SHOWN = 80  # characters of a wrong value, or of its place, that are quoted
MAX_SENTENCE = 400  # characters of the sentence about one mistake


def _describe(item: ErrorDetails, text: str, name: str) -> str:
    """Return the line for one mistake (`ErrorDetails` of pydantic) in a file of this name."""
    path = tuple(item["loc"])
    place = ""
    line = field_line(text, path)
    if line is not None:
        place += f", line {line}"
    if path:
        place += f", {_field_name(path)}"
    return f"{name}{cut_text(place, MAX_SHOWN)}: {cut_text(_what_is_wrong(item), MAX_SENTENCE)}"


def _field_name(path: Sequence[str | int]) -> str:
    """Return the field as people write it, 'grid[1].alpha[2]', counted from 1."""
    name = ""
    for part in path:
        if isinstance(part, int):
            name += f"[{part + 1}]"
        else:
            name += f".{part}"
    return name.lstrip(".")


def _what_is_wrong(item: ErrorDetails) -> str:
    """Return the sentence about a mistake: what is allowed, and what was given."""
    if item["type"] == "extra_forbidden":
        return f"unknown field; allowed are {', '.join(_fields_beside(item['loc']))}"
    if item["type"] == "missing":
        return "this field is required"
    sentence = str(item["msg"]).removeprefix("Value error, ")
    if isinstance(item["input"], dict) or "got" in sentence:
        return sentence
    try:
        given = cut_text(repr(item["input"]), MAX_SHOWN)
    except (ValueError, RecursionError):  # an integer of thousands of digits, lists in lists
        given = "a value too long to show"
    return f"{sentence[:1].lower()}{sentence[1:]}, got {given}"


def _fields_beside(path: Sequence[str | int]) -> list[str]:
    """Return the fields that are allowed where an unknown one stands."""
    if len(path) == 1:
        return list(SweepSpec.model_fields)
    annotation: Any = SweepSpec.model_fields[str(path[0])].annotation
    table = next(iter(get_args(annotation)), annotation)  # of a list of tables, or of an optional
    return list(table.model_fields)


def field_line(text: str, path: Sequence[str | int]) -> int | None:
    """Return the line (from 1) where a field of a TOML text is set, or where its table begins.

    Parameters
    ----------
    text : str
        The file.
    path : sequence of str and int
        The table, its place (from 0) if it is one of several, and the field: ("grid", 1, "alpha").
    """
    table, place, field = [*path, "", "", ""][:3]
    if isinstance(place, str):  # the only table of its name
        field = place
        place = 0
    lines = text.splitlines()
    word = re.escape(str(table))
    begins_table = re.compile(rf"\s*(\[+\s*{word}\s*\]|{word}\s*=)")
    begins_any_table = re.compile(r"\s*\[+\s*[A-Za-z]")
    sets_field = re.compile(rf"""\s*["']?{re.escape(str(field))}["']?\s*=""")
    begins = [number for number, line in enumerate(lines) if begins_table.match(line)]
    if place >= len(begins):
        return None
    begin = begins[place]
    for number in range(begin + 1, len(lines)):
        if begins_any_table.match(lines[number]):
            break
        if sets_field.match(lines[number]):
            return number + 1
    return begin + 1
