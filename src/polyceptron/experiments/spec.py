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
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from polyceptron.errors import InvalidInput
from polyceptron.experiments.toml_lines import field_lines, nearest_line
from polyceptron.model import as_prior
from polyceptron.ranges import parse_numbers

MAX_ROWS = 10_000_000
RISK_ESTIMATORS = ("cross-entropy", "square", "max-margin")

Source = Literal["theory", "amp", "erm"]
Estimator = Literal["bayes", "cross-entropy", "square", "max-margin"]


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
    return as_prior(value).name


def _no_repeats(values: list[Any]) -> list[Any]:
    repeated = sorted({str(v) for v in values if values.count(v) > 1})
    if repeated:
        raise ValueError(f"every value may stand only once, repeated: {', '.join(repeated)}")
    return values


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
    max_iterations: int = Field(default=200, ge=1)
    precision: Literal["float32", "float64"] = "float64"
    variances: Literal["shared", "full"] = "shared"


class ErmSettings(_Table):
    """[erm]: certified relative tolerance on the weights; absent test_samples: the exact error."""

    tolerance: _Tolerance = 1e-8
    solver: Literal["auto", "sklearn"] = "auto"
    test_samples: int | None = Field(default=None, ge=1)


class Grid(_Table):
    """[[grid]]: every combination of the lists; instances are numbered 0, 1, 2, ..."""

    model: Annotated[list[Literal["argmax", "perceptron"]], _Listed, Field(min_length=1)] = [
        "argmax"
    ]
    classes: Annotated[list[int], _Listed, Field(min_length=1)] = [2]
    prior: Annotated[list[Any], _Listed, Field(min_length=1)] = ["gaussian"]
    sources: Annotated[list[Source], _Listed, Field(min_length=1)]
    estimators: Annotated[list[Estimator], _Listed, Field(min_length=1)] = ["bayes"]
    ridge: Annotated[list[Annotated[float, Field(ge=0, allow_inf_nan=False)]], _Ranged] = []
    alpha: Annotated[list[_Finite], _Ranged, Field(min_length=1)]
    dimension: Annotated[list[Annotated[int, Field(ge=1)]], _Listed] = []
    instances: int = Field(default=1, ge=1)
    first_instance: int = Field(default=0, ge=0)
    branch: Annotated[list[Literal["optimal", "amp", "informed"]], _Listed] = ["optimal"]
    start: Annotated[list[Literal["uninformed", "informed"]], _Listed] = ["uninformed"]

    @field_validator("classes")
    @classmethod
    def _check_classes(cls, values: list[int]) -> list[int]:
        for value in values:
            if not 2 <= value <= 1000:
                raise ValueError(f"the number of classes must be between 2 and 1000, got {value}")
        return values

    @field_validator("prior")
    @classmethod
    def _check_prior(cls, values: list[Any]) -> list[str]:
        return [_prior_name(value) for value in values]

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
        for alpha in self.alpha:
            for dimension in self.dimension:
                if round(alpha * dimension) < 1:
                    raise ValueError(
                        f"alpha = {alpha:g} in dimension {dimension} is no sample at all"
                    )
        return self


class SweepSpec(_Table):
    """A whole sweep."""

    sweep: SweepTable = SweepTable()
    theory: TheorySettings = TheorySettings()
    amp: AmpSettings = AmpSettings()
    erm: ErmSettings = ErmSettings()
    grid: Annotated[list[Grid], Field(min_length=1)]


def load_spec(path: str | Path) -> SweepSpec:
    """Read a sweep from a TOML file; a mistake in it is reported with its line and field.

    >>> load_spec("nowhere.toml")
    Traceback (most recent call last):
        ...
    polyceptron.errors.InvalidInput: there is no sweep file 'nowhere.toml'
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidInput(f"there is no sweep file {str(path)!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read the sweep file {str(path)!r}: {error}") from None
    return parse_spec(text, name=path.name)


def parse_spec(text: str, name: str = "sweep") -> SweepSpec:
    """Read a sweep from TOML text; `name` stands in the error messages.

    >>> parse_spec('[[grid]]\\nsources = "theory"\\nalpha = "1:3:3"').grid[0].alpha
    [1.0, 2.0, 3.0]
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{name} is not valid TOML: {error}") from None
    try:
        return SweepSpec.model_validate(values)
    except ValidationError as error:
        lines = field_lines(text)
        raise InvalidInput(
            "\n".join(_describe(item, lines, name) for item in error.errors())
        ) from None


def _describe(item: Any, lines: dict[tuple[str | int, ...], int], name: str) -> str:
    """One error as 'file, line 7, grid[1].alpha: what is wrong'."""
    path = tuple(item["loc"])
    line = nearest_line(lines, path)
    field = ""
    for part in path:
        field += f"[{part + 1}]" if isinstance(part, int) else f".{part}"
    what = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        what = f"unknown field; allowed are {', '.join(_allowed(path))}"
    elif item["type"] == "missing":
        what = "this field is required"
    elif not isinstance(item["input"], dict) and "got" not in what:
        what = f"{what[:1].lower()}{what[1:]}, got {item['input']!r}"
    place = f", line {line}" if line else ""
    return f"{name}{place}, {field.lstrip('.')}: {what}"


def _allowed(path: tuple[str | int, ...]) -> list[str]:
    """The fields of the table that the path points into."""
    tables: dict[str, type[BaseModel]] = {
        "sweep": SweepTable, "theory": TheorySettings, "amp": AmpSettings, "erm": ErmSettings,
        "grid": Grid,
    }  # fmt: skip
    model = tables.get(str(path[0]), SweepSpec) if len(path) > 1 else SweepSpec
    return list(model.model_fields)
