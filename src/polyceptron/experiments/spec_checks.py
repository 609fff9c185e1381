"""Mistakes in a sweep file as sentences: 'spec.toml, line 7, grid[1].alpha: what is wrong'.

The kinds of values in a sweep file, each checked with a sentence.

Names of estimators, priors, noises and features are those of the registries, read when a file is: a
member that was registered a moment ago is allowed.

Where each field of a TOML file stands, so that an error can name its line.

`tomllib` gives values without positions. This scanner follows headers and `key =` lines only; it
skips comments, strings and the inside of multi-line arrays, and never interprets a value.

Losses, priors and noises that a program registered itself: how they reach keys and workers.

A worker is a fresh process that knows the package's own members alone, so the others travel with
the tasks (`WithMembers`). A name says little about code that its author may change, so a hash of
the member's numbers at fixed points is part of every key that uses it (`values_of`).
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError

from polyceptron.model import (
    CHANNELS,
    ESTIMATORS,
    LOSSES,
    PENALTIES,
    PRIORS,
    BayesOptimal,
    Entry,
    Registry,
    as_channel,
    as_penalty,
    as_prior,
    as_spectrum,
    make_estimator,
    make_teacher,
)
from polyceptron.model.checks import check_classes, check_ridge
from polyceptron.ranges import cut_text, parse_numbers

if TYPE_CHECKING:
    from polyceptron.experiments.compute_task import Row, Runner
    from polyceptron.experiments.tasks import Task


MAX_SHOWN = 80  # characters of a wrong value that is quoted
MAX_SENTENCES = 20
MAX_LENGTH = 400  # characters of one sentence


def describe_errors(error: ValidationError, text: str, name: str, model: type[BaseModel]) -> str:
    """One line for each mistake in the text of a file of this name that should fit the model."""
    lines = field_lines(text)
    items = error.errors(include_url=False)
    sentences = [_describe(item, lines, name, model) for item in items[:MAX_SENTENCES]]
    if len(items) > MAX_SENTENCES:
        sentences.append(f"{name}: and {len(items) - MAX_SENTENCES} more")
    return "\n".join(sentences)


def _describe(item: Any, lines: dict[Path, int], name: str, model: type[BaseModel]) -> str:
    path = tuple(item["loc"])
    line = nearest_line(lines, path)
    field = ""
    for part in path:
        field += f"[{part + 1}]" if isinstance(part, int) else f".{part}"
    what = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        what = f"unknown field; allowed are {', '.join(_allowed(path, model))}"
    elif item["type"] == "missing":
        what = "this field is required"
    elif not isinstance(item["input"], dict) and "got" not in what:
        what = f"{what[:1].lower()}{what[1:]}, got {_quote(item['input'])}"
    place = f", line {line}" if line else ""
    where = cut_text(f"{place}{', ' if field else ''}{field.lstrip('.')}", MAX_SHOWN)
    return f"{name}{where}: {cut_text(what, MAX_LENGTH)}"


def _allowed(path: Path, model: type[BaseModel]) -> list[str]:
    """The fields of the table that the path points into: the top, or one or a list of models."""
    if len(path) > 1:
        annotation: Any = model.model_fields[str(path[0])].annotation
        model = next(iter(get_args(annotation)), annotation)
    return list(model.model_fields)


def _quote(value: Any) -> str:
    """The value as it could be typed, cut where it would fill the screen."""
    try:
        return cut_text(repr(value), MAX_SHOWN)
    except (ValueError, RecursionError):  # an integer of thousands of digits, lists in lists
        return "a value too long to show"


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


def _penalty_name(value: Any) -> str:
    """A penalty as text that reads back to the same one."""
    return as_penalty(value).name


def _estimator_name(value: Any) -> str:
    """One of the estimators that have a name."""
    if not ESTIMATORS.knows(value):
        raise ValueError(f"should be one of the estimators {ESTIMATORS.help}")
    return make_estimator(value).name


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
Penalty = Annotated[Any, AfterValidator(_penalty_name)]
Estimator = Annotated[Any, AfterValidator(_estimator_name)]
Classes = Annotated[int, AfterValidator(_classes)]
Ridge = Annotated[Any, AfterValidator(_ridge)]
Listed = BeforeValidator(as_list)
Ranged = BeforeValidator(as_numbers)
Ridges = BeforeValidator(as_ridges)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Tolerance = Annotated[float, Field(gt=0, lt=1)]


Path = tuple[str | int, ...]

_HEADER = re.compile(r"^\s*(\[{1,2})\s*([^\[\]]+?)\s*\]{1,2}\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*=""")
_STRING = re.compile(
    r'"""(?:.|\n)*?"""|\'\'\'(?:.|\n)*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*'
)


def field_lines(text: str) -> dict[Path, int]:
    """The line (from 1) of every table and key, by path: ('grid', 0, 'alpha').

    >>> field_lines("[sweep]\\nseed = 1\\n[[grid]]\\nalpha = [1,\\n 2]\\n")[("grid", 0, "alpha")]
    4
    """
    lines: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    depth = 0
    blanked = _blank_strings(text).splitlines()
    for number, (raw, clean) in enumerate(zip(text.splitlines(), blanked, strict=True), start=1):
        header = _HEADER.match(clean) if depth == 0 else None
        key = _KEY.match(raw) if depth == 0 and "=" in clean else None
        if header:
            table = _parts(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            lines.setdefault(table, number)
        elif key:
            lines.setdefault((*table, *_parts(key[1])), number)
        depth += sum(clean.count(c) for c in "[{") - sum(clean.count(c) for c in "]}")
    return lines


def nearest_line(lines: dict[Path, int], path: Path) -> int | None:
    """The line of the path, or of the closest table around it."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _blank_strings(text: str) -> str:
    """Strings and comments become spaces, so that brackets and = inside them do not count."""
    return _STRING.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


REGISTRIES: dict[str, Registry[Any]] = {
    registry.kind: registry for registry in (LOSSES, PENALTIES, PRIORS, CHANNELS, ESTIMATORS)
}
_LABELS = np.array([0, 1, 2, 0, 1])
_FIELDS = np.array([[0.3, -1.1, 0.8], [2.0, 0.1, -0.4], [-0.7, 0.9, 1.6], [4, -3, 0], [0, 0, 0]])

_guard = threading.Lock()
_here: dict[tuple[str, str], str] = {}  # members that came with tasks, and their values


@dataclass(frozen=True)
class OwnMember:
    """A member from outside the package, and the hash of its numbers."""

    kind: str
    entry: Entry[Any]
    values: str


@dataclass(frozen=True)
class WithMembers:
    """A runner that takes members along: the first task in a process registers them there."""

    runner: Runner
    members: tuple[OwnMember, ...]

    def __call__(self, task: Task) -> list[Row]:
        for member in self.members:
            _take_in(member)
        return self.runner(task)


def with_members(runner: Runner) -> Runner:
    """The runner, with every member that is not the package's own."""
    members = tuple(
        OwnMember(kind, entry, _hash(registry.kind, entry.make(*entry.example)))
        for kind, registry in REGISTRIES.items()
        for entry in registry.own
        if _from_outside(entry)
    )
    return WithMembers(runner, members) if members else runner


def values_of(kind: str, name: str) -> str | None:
    """A hash of what the member computes; None for the package's own, whose names are enough."""
    if kind == "estimator" and LOSSES.knows(name):
        kind = "loss"
    entry = next((e for e in REGISTRIES[kind].own if e.name == _head(name)), None)
    return _values(kind, name, entry) if entry is not None and _from_outside(entry) else None


@lru_cache(maxsize=256)
def _values(kind: str, name: str, entry: Entry[Any]) -> str:
    return _hash(kind, REGISTRIES[kind].read(name))


def _from_outside(entry: Entry[Any]) -> bool:
    return not getattr(entry.make, "__module__", "").startswith("polyceptron.")


def _head(name: str) -> str:
    return name.split(":")[0].split("[")[0]


def _hash(kind: str, member: Any) -> str:
    """Of nine digits of its numbers: the last ones may differ between machines."""
    numbers = np.concatenate([np.ravel(part) for part in _NUMBERS[kind](member)])
    text = " ".join(f"{number:.8e}" for number in numbers)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _of_loss(loss: Any) -> tuple[Any, ...]:
    z, y = _FIELDS, _LABELS
    return loss.value(z, y), loss.gradient(z, y), loss.hessian(z, y)


def _of_prior(prior: Any) -> tuple[Any, ...]:
    return tuple(prior.tilted(np.array([-2.0, 0.0, 0.3, 1.0, 5.0]), 1.5))


def _of_channel(channel: Any) -> tuple[Any, ...]:
    return tuple(channel.label_law(np.sort(_FIELDS[:, 1:], axis=1).T, 0.5))


def _of_penalty(penalty: Any) -> tuple[Any, ...]:
    return tuple(penalty.denoise(_FIELDS - _FIELDS.mean(1, keepdims=True), 1.5))


def _of_estimator(estimator: Any) -> tuple[Any, ...]:
    rows = estimator.rows(make_teacher("argmax", 3, "gaussian"), [0.7, 3.0])
    return tuple(row[name] for row in rows for name in ("m", "q", "generalisation_error"))


_NUMBERS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    LOSSES.kind: _of_loss,
    PRIORS.kind: _of_prior,
    CHANNELS.kind: _of_channel,
    PENALTIES.kind: _of_penalty,
    ESTIMATORS.kind: _of_estimator,
}


def _take_in(member: OwnMember) -> None:
    """Register the member in this process, unless that very one is there."""
    place = member.kind, member.entry.name
    with _guard:
        if _here.get(place) == member.values:
            return
        registry = REGISTRIES[member.kind]
        registry.remove(member.entry.name)
        registry.add(member.entry)
        _here[place] = member.values
