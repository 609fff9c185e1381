"""What a sweep is to compute: a TOML file, read and checked before any work.

    [sweep]            name, seed
    [theory]           tolerance, scores                            (all optional)
    [amp]              tolerance, max_iterations, precision, variances, test_samples
    [erm]              tolerance, solver, test_samples
    [[grid]]           one block for each grid: every combination of its lists is computed

A mistake is reported with the line and the field it stands in.
"""

from __future__ import annotations

import tomllib
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from polyceptron.errors import InvalidInput
from polyceptron.experiments.spec_checks import (
    BAYES,
    REACHED,
    Branch,
    Classes,
    Estimator,
    Features,
    Listed,
    Model,
    Noise,
    Penalty,
    Positive,
    Prior,
    Ranged,
    Ridge,
    Ridges,
    Source,
    Start,
    Tolerance,
    describe_errors,
    no_repeats,
)
from polyceptron.experiments.tasks import count_rows, grid_strengths
from polyceptron.files import read_text
from polyceptron.model import estimator_names, make_estimator, make_teacher

MAX_ROWS = 10_000_000
MAX_DIMENSION = 10**9
MAX_WHOLE = 2**53  # an integer that every column and file keeps exactly


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SweepTable(_Table):
    """[sweep]: the name shown to people, and the seed that all instances grow from."""

    name: str = "sweep"
    seed: int = Field(default=0, ge=0, lt=2**63)


class TheorySettings(_Table):
    """[theory]: accuracy of the predictions; absent means the solver's own default.

    With `scores = true` test loss, Brier score and calibration error too.
    """

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
    solver: Literal["auto", "sklearn"] = "auto"
    test_samples: int | None = Field(default=None, ge=1, le=MAX_WHOLE)


class SweepGrid(_Table):
    """[[grid]]: every combination of the lists; instances are numbered 0, 1, 2, ..."""

    model: Annotated[list[Model], Listed, Field(min_length=1)] = ["argmax"]
    classes: Annotated[list[Classes], Listed, Field(min_length=1)] = [2]
    prior: Annotated[list[Prior], Listed, Field(min_length=1)] = ["gaussian"]
    noise: Annotated[list[Noise], Listed, Field(min_length=1)] = ["none"]
    features: Annotated[list[Features], Listed, Field(min_length=1)] = ["isotropic"]
    sources: Annotated[list[Source], Listed, Field(min_length=1)]
    estimators: Annotated[list[Estimator], Listed, Field(min_length=1)] = [BAYES]
    ridge: Annotated[list[Ridge], Ridges] = []
    penalty: Annotated[list[Penalty], Listed] = []
    alpha: Annotated[list[Positive], Ranged, Field(min_length=1)]
    dimension: Annotated[list[Annotated[int, Field(ge=1, le=MAX_DIMENSION)]], Listed] = []
    instances: int = Field(default=1, ge=1, le=MAX_WHOLE)
    first_instance: int = Field(default=0, ge=0, le=MAX_WHOLE)
    branch: Annotated[list[Branch], Listed] = []
    start: Annotated[list[Start], Listed, Field(min_length=1)] = ["uninformed"]

    @field_validator("*")
    @classmethod
    def _check_repeats(cls, value: Any) -> Any:
        return no_repeats(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        listed = {make_estimator(name).source for name in self.estimators}
        for source in {"amp", "erm"} & set(self.sources) - listed:
            known = [n for n in estimator_names() if make_estimator(n).source == source]
            raise ValueError(
                f"the source {source!r} computes one of the estimators {', '.join(known)}, and "
                "none of them is listed"
            )
        for name in self.estimators:
            strengths = grid_strengths(self, name)
            if not strengths:
                raise ValueError(f"the estimator {name!r} needs ridge = [...] or penalty = [...]")
            for strength in strengths:
                make_estimator(name, **strength)  # a loss may give a ridge of 0 no meaning
        if {"amp", "erm"} & set(self.sources) and not self.dimension:
            raise ValueError("the sources 'amp' and 'erm' need dimension = [...]")
        if "perceptron" in self.model and self.classes != [2]:
            raise ValueError(f"the model 'perceptron' has classes = [2], got {self.classes}")
        for n_classes, noise, features in product(self.classes, self.noise, self.features):
            # Labels may be too random, or the noise one that such features do not go with.
            make_teacher("argmax", n_classes, "gaussian", noise, features)
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

    `path` is that file; `parse_spec` takes its text.

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
