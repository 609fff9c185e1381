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
from typing import Annotated, Any, Literal, Self, get_args

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from polyceptron import problem as md
from polyceptron.checks import MAX_CLASSES, check_ridge
from polyceptron.display import cut_text
from polyceptron.errors import InvalidInput
from polyceptron.files import read_text
from polyceptron.lab.tasks import grid_strengths
from polyceptron.number_lists import parse_numbers
from polyceptron.students.bayes import REACHED

MAX_ROWS = 50_000_000  # of a grid, if every list were combined with every other
MAX_WHOLE = 2**53  # an integer that every column and file keeps exactly


def _as_list(value: Any) -> Any:
    """One value stands for a list of one."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _as_range(value: Any) -> Any:
    """A list of numbers, one number, or a range 'start:stop:count'; or the word 'optimal'."""
    ranged = isinstance(value, str) and value != "optimal"
    return parse_numbers(value, "a range") if ranged else _as_list(value)


def _named(read: Callable[[Any], Any]) -> AfterValidator:
    """What `read` reads, as text that reads back to the same to the last bit."""
    return AfterValidator(lambda value: read(value).name)


def _prior(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) != {"values", "probabilities"}:
            raise ValueError("a prior table has exactly the keys values and probabilities")
        value = (value["values"], value["probabilities"])
    try:
        return md.as_prior(value)
    except OverflowError:
        raise ValueError("a value or probability of the prior is too large") from None


def _estimator(value: Any) -> Any:
    if not md.ESTIMATORS.knows(value):
        raise ValueError(f"should be one of the estimators {md.ESTIMATORS.help}")
    return md.make_estimator(value)


def _ridge(value: Any) -> float | str:
    if isinstance(value, str) and value != "optimal":
        raise ValueError("should be a number of 0 or more, or 'optimal'")
    return check_ridge(value, optimal=True)


def _class_weight(value: Any) -> str:
    """Class weights as their text; 'none' for weights of 1."""
    weights = None if value == "none" else value
    return str(md.ERM(class_weight=weights).columns.get("class_weight", "none"))


_LIST, _RANGED = BeforeValidator(_as_list), BeforeValidator(_as_range)
_SOME = Field(min_length=1)
Tolerance = Annotated[float, Field(gt=0, lt=1)]


class _Table(BaseModel):
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
    separation: Numbers | None = None
    variances: Numbers | None = None
    levels: Numbers | None = None

    @pydantic.model_validator(mode="after")
    def _check_population(self) -> Self:
        self.made()
        return self

    def made(self, **more: Any) -> md.Population:
        """The population; `more` are its prior, noise and features."""
        given = self.model_dump(exclude_none=True)
        return md.make_population(**given, **({} if self.model == "mixture" else more))


class SweepGrid(_Table):
    """[[grid]]: every combination of the lists; instances are numbered 0, 1, 2, ..."""

    model: Annotated[list[Literal["argmax", "perceptron"]], _LIST, _SOME] = ["argmax"]
    classes: Annotated[list[Annotated[int, Field(ge=2, le=MAX_CLASSES)]], _LIST, _SOME] = [3]
    prior: Annotated[list[Annotated[Any, _named(_prior)]], _LIST, _SOME] = ["gaussian"]
    noise: Annotated[list[Annotated[Any, _named(md.as_channel)]], _LIST, _SOME] = ["none"]
    features: Annotated[list[Annotated[Any, _named(md.as_spectrum)]], _LIST, _SOME] = ["isotropic"]
    sources: Annotated[list[Literal["theory", "amp", "erm"]], _LIST, _SOME]
    estimators: Annotated[list[Annotated[Any, _named(_estimator)]], _LIST, _SOME] = ["bayes"]
    ridge: Annotated[list[Annotated[Any, AfterValidator(_ridge)]], _RANGED] = []
    penalty: Annotated[list[Annotated[Any, _named(md.as_penalty)]], _LIST] = []
    intercept: bool = False
    class_weight: Annotated[list[Annotated[Any, AfterValidator(_class_weight)]], _LIST] = []
    alpha: Annotated[list[Annotated[float, Field(gt=0, allow_inf_nan=False)]], _RANGED, _SOME]
    dimension: Annotated[list[Annotated[int, Field(ge=1, le=10**9)]], _LIST] = []
    instances: int = Field(default=1, ge=1, le=MAX_WHOLE)
    first_instance: int = Field(default=0, ge=0, le=MAX_WHOLE)
    branch: Annotated[list[Literal["optimal", "amp", "informed"]], _LIST] = []
    start: Annotated[list[Literal["uninformed", "informed"]], _LIST, _SOME] = ["uninformed"]

    @pydantic.model_validator(mode="before")
    @classmethod
    def _fill(cls, values: Any) -> Any:
        """Classes and prior that are not given are those of the model, as everywhere."""
        model = values.get("model", "argmax") if isinstance(values, dict) else None
        if model in ("perceptron", ["perceptron"]):
            own = md.make_teacher("perceptron")
            return {"classes": own.n_classes, "prior": own.prior.name, **values}
        return values

    @pydantic.field_validator("*")
    @classmethod
    def _check_repeats(cls, value: Any) -> Any:
        counts = Counter(value if isinstance(value, list) else ()).items()
        repeated = sorted(str(one) for one, count in counts if count > 1)
        if repeated:
            shown = ", ".join(repeated[:5]) + (", ..." if len(repeated) > 5 else "")
            raise ValueError(f"every value may stand only once, repeated: {shown}")
        return value

    @pydantic.model_validator(mode="after")
    def _check_combination(self) -> Self:
        listed = {md.make_estimator(name).source for name in self.estimators}
        for source in {"amp", "erm"} & set(self.sources) - listed:
            known = [n for n in md.ESTIMATORS.choices if md.make_estimator(n).source == source]
            raise ValueError(
                f"the source {source!r} computes one of the estimators {', '.join(known)}, and "
                "none of them is listed"
            )
        for name in self.estimators:
            for strength in grid_strengths(self, name):
                md.make_estimator(name, **strength)  # a loss may give a ridge of 0 no meaning
        if {"amp", "erm"} & set(self.sources) and not self.dimension:
            raise ValueError("the sources 'amp' and 'erm' need dimension = [...]")
        if "perceptron" in self.model and self.classes != [2]:
            raise ValueError(f"the model 'perceptron' has classes = [2], got {self.classes}")
        for n_classes, noise, features in product(self.classes, self.noise, self.features):
            # Labels may be too random, or the noise one that such features do not go with.
            md.make_teacher("argmax", n_classes, "gaussian", noise, features)
        if self.dimension:
            if max(self.alpha) * max(self.dimension) > MAX_WHOLE:
                raise ValueError(f"alpha = {max(self.alpha):g} is too much in these dimensions")
            least, smallest = min(self.alpha), min(self.dimension)
            if round(least * smallest) < 1:
                raise ValueError(f"alpha = {least:g} in dimension {smallest} is no sample at all")
        return self

    @property
    def branches(self) -> list[str]:
        """Of the theory of 'bayes': those asked for, or else those that message passing reaches."""
        if self.branch:
            return list(self.branch)
        return [REACHED[start] for start in self.start] if "amp" in self.sources else ["optimal"]


class SweepSpec(_Table):
    """A whole sweep."""

    sweep: SweepTable = SweepTable()
    theory: TheorySettings = TheorySettings()
    amp: AmpSettings = AmpSettings()
    erm: ErmSettings = ErmSettings()
    population: PopulationTable | None = None
    grid: Annotated[list[SweepGrid], Field(min_length=1)]

    @pydantic.model_validator(mode="after")
    def _check_size(self) -> Self:
        for grid in self.grid if self.population is not None else ():
            if {"model", "classes"} & grid.model_fields_set:
                raise ValueError("model and classes stand in [population], not in [[grid]]")
        for grid in self.grid:
            lists = (v for _, v in grid if isinstance(v, list) and v)
            total = math.prod(map(len, lists), start=grid.instances if grid.dimension else 1)
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
    >>> load_spec("none.toml")
    Traceback (most recent call last):
        ...
    polyceptron.errors.InvalidInput: cannot read the sweep file 'none.toml': there is no such file
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
        raise InvalidInput("\n".join(mistakes)) from None


MAX_SHOWN = 80  # characters of a wrong value that is quoted
MAX_MISTAKES = 20


def _describe(item: Any, text: str, name: str) -> str:
    """The line for one mistake in a file of this name."""
    path, model = tuple(item["loc"]), SweepSpec
    line = field_line(text, path)
    field = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in path)
    what = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        if len(path) > 1:  # into a table, or one of a list of tables
            annotation: Any = model.model_fields[str(path[0])].annotation
            model = next(iter(get_args(annotation)), annotation)
        what = f"unknown field; allowed are {', '.join(model.model_fields)}"
    elif item["type"] == "missing":
        what = "this field is required"
    elif not isinstance(item["input"], dict) and "got" not in what:
        try:
            given = cut_text(repr(item["input"]), MAX_SHOWN)
        except (ValueError, RecursionError):  # an integer of thousands of digits, lists in lists
            given = "a value too long to show"
        what = f"{what[:1].lower()}{what[1:]}, got {given}"
    place = f", line {line}" if line else ""
    where = cut_text(f"{place}{', ' if field else ''}{field.lstrip('.')}", MAX_SHOWN)
    return f"{name}{where}: {cut_text(what, 400)}"


def field_line(text: str, path: Sequence[str | int]) -> int | None:
    """The line (from 1) where a field of a TOML text is set, or else where its table begins."""
    table, place, field = [*path, "", "", ""][:3]
    if isinstance(place, str):
        place, field = 0, place
    lines, word = text.splitlines(), re.escape(str(table))
    own = re.compile(rf"\s*(\[+\s*{word}\s*\]|{word}\s*=)")
    begins = [number for number, line in enumerate(lines) if own.match(line)][place:]
    inside = re.compile(rf"""\s*["']?{re.escape(str(field))}["']?\s*=""")
    for number in range(begins[0] + 1, len(lines)) if begins else ():
        if re.match(r"\s*\[+\s*[A-Za-z]", lines[number]):  # another table
            break
        if inside.match(lines[number]):
            return number + 1
    return begins[0] + 1 if begins else None
