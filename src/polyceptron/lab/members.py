"""Losses, priors, noises, penalties and estimators of the user's own, in sweeps.

A program may register members of its own and then run a sweep. Two things follow:

- They travel with the tasks: a worker is another process, perhaps on another machine, and registers
  them there before its first task (`with_members`).
- A name tells little about code that its author may change. So a hash of what the member computes
  at fixed points is part of every key that uses it (`values_of`), and rows of an older version of
  the code are not taken for rows of the new one.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.problem import (
    CHANNELS,
    ESTIMATORS,
    LOSSES,
    PENALTIES,
    PRIORS,
    Channel,
    Entry,
    Estimator,
    Loss,
    Penalty,
    Prior,
    Registry,
    make_teacher,
)
from polyceptron.students import student_of

_Task = TypeVar("_Task")
_Rows = TypeVar("_Rows")

Numbers = tuple[ArrayLike, ...]
"""What a member computes at fixed points: numbers and arrays of any shape."""

REGISTRIES: dict[str, Registry[Any]] = {
    registry.kind: registry for registry in (LOSSES, PENALTIES, PRIORS, CHANNELS, ESTIMATORS)
}
# Where losses and penalties are evaluated for their hashes: five samples of three classes.
_LABELS = np.array([0, 1, 2, 0, 1])
_FIELDS = np.array([[0.3, -1.1, 0.8], [2.0, 0.1, -0.4], [-0.7, 0.9, 1.6], [4, -3, 0], [0, 0, 0]])

_registering = threading.Lock()
_arrived: dict[tuple[str, str], str] = {}  # hashes of members that came with tasks, by kind, name


class _Member(NamedTuple):
    """A member that travels with the tasks, and the hash of what it computes."""

    kind: str
    entry: Entry[object]
    values: str


def with_members(runner: Callable[[_Task], _Rows]) -> Callable[[_Task], _Rows]:
    """Return the runner of tasks, made to take along every member that is not the package's own."""
    members = []
    for kind, registry in REGISTRIES.items():
        for entry in registry.own:
            if _from_outside(entry):
                values = _hash(kind, entry.make(*entry.example))
                members.append(_Member(kind, entry, values))
    if not members:
        return runner
    return partial(_run_with, members, runner)


def _run_with(members: list[_Member], runner: Callable[[_Task], _Rows], task: _Task) -> _Rows:
    """Run a task; the first one in a process registers the members there."""
    for member in members:
        name = (member.kind, member.entry.name)
        with _registering:
            if _arrived.get(name) != member.values:
                registry = REGISTRIES[member.kind]
                registry.remove(member.entry.name)
                registry.add(member.entry)
                _arrived[name] = member.values
    return runner(task)


def values_of(kind: str, name: str) -> str | None:
    """Return a hash of what a member computes; None for the package's own, whose name is enough.

    Parameters
    ----------
    kind : str
        The column of a row in which it is named: estimator, prior, noise or penalty.
    name : str
        Its name with its numbers.
    """
    if kind == "estimator" and LOSSES.knows(name):
        kind = "loss"
    head = REGISTRIES[kind].head(name)
    for entry in REGISTRIES[kind].own:
        if entry.name == head and _from_outside(entry):
            return _values_once(kind, name, entry)
    return None


@lru_cache(maxsize=256)
def _values_once(kind: str, name: str, entry: Entry[object]) -> str:
    """Return the hash of a member; `entry` makes that of another code another call."""
    return _hash(kind, REGISTRIES[kind].read(name))


def _from_outside(entry: Entry[object]) -> bool:
    """Return whether a member is not the package's own."""
    return not getattr(entry.make, "__module__", "").startswith("polyceptron.")


def _hash(kind: str, member: object) -> str:
    """Return a hash of a member's numbers to nine digits: the last may differ between machines."""
    numbers = np.concatenate([np.ravel(part) for part in _NUMBERS_OF[kind](member)])
    text = " ".join(f"{number:.8e}" for number in numbers)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _numbers_of_loss(loss: Loss) -> Numbers:
    """Return value, gradient and Hessian of a loss at the fixed samples."""
    return (
        loss.value(_FIELDS, _LABELS),
        loss.gradient(_FIELDS, _LABELS),
        loss.hessian(_FIELDS, _LABELS),
    )


def _numbers_of_prior(prior: Prior) -> Numbers:
    """Return log-partition, mean and variance of a prior tilted by five fields."""
    return tuple(prior.tilted(np.array([-2.0, 0.0, 0.3, 1.0, 5.0]), 1.5))


def _numbers_of_noise(noise: Channel) -> Numbers:
    """Return the law of the label of a noise at five pairs of fields."""
    return tuple(noise.label_law(np.sort(_FIELDS[:, 1:], axis=1).T, 0.5))


def _numbers_of_penalty(penalty: Penalty) -> Numbers:
    """Return the proximal operator of a penalty at rows of sum 0."""
    return tuple(penalty.denoise(_FIELDS - _FIELDS.mean(1, keepdims=True), 1.5))


def _numbers_of_estimator(estimator: Estimator) -> Numbers:
    """Return overlaps and error of an estimator at two α."""
    teacher = make_teacher("argmax", 3, "gaussian")
    numbers = []
    for row in student_of(estimator).rows(teacher, [0.7, 3.0]):
        numbers += [row["m"], row["q"], row["generalisation_error"]]
    return tuple(numbers)


# Each takes a member of its own kind.
_NUMBERS_OF: dict[str, Callable[..., Numbers]] = {
    LOSSES.kind: _numbers_of_loss,
    PRIORS.kind: _numbers_of_prior,
    CHANNELS.kind: _numbers_of_noise,
    PENALTIES.kind: _numbers_of_penalty,
    ESTIMATORS.kind: _numbers_of_estimator,
}
