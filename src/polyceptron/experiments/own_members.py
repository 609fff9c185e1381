"""Losses, priors and noises that a program registered itself: how they reach keys and workers.

A worker is a fresh process that knows the package's own members alone, so the others travel with
the tasks (`WithMembers`). A name tells little about code that its author may change, so a hash of
the member's numbers at fixed points is part of every key that uses it (`values_of`).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from polyceptron.model import (
    CHANNELS,
    ESTIMATORS,
    LOSSES,
    PENALTIES,
    PRIORS,
    Entry,
    Registry,
    make_teacher,
)
from polyceptron.rows import Row

if TYPE_CHECKING:
    from polyceptron.experiments.tasks import Runner, Task

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
            place, registry = (member.kind, member.entry.name), REGISTRIES[member.kind]
            with _guard:
                if _here.get(place) != member.values:  # that very one is not there
                    registry.remove(member.entry.name)
                    registry.add(member.entry)
                    _here[place] = member.values
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
    head = name.split(":")[0].split("[")[0]
    entry = next((e for e in REGISTRIES[kind].own if e.name == head), None)
    return _values(kind, name, entry) if entry is not None and _from_outside(entry) else None


@lru_cache(maxsize=256)
def _values(kind: str, name: str, entry: Entry[Any]) -> str:
    return _hash(kind, REGISTRIES[kind].read(name))


def _from_outside(entry: Entry[Any]) -> bool:
    return not getattr(entry.make, "__module__", "").startswith("polyceptron.")


def _hash(kind: str, member: Any) -> str:
    """Of nine digits of its numbers: the last ones may differ between machines."""
    numbers = np.concatenate([np.ravel(part) for part in _NUMBERS[kind](member)])
    text = " ".join(f"{number:.8e}" for number in numbers)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


_NUMBERS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    LOSSES.kind: lambda loss: tuple(
        part(_FIELDS, _LABELS) for part in (loss.value, loss.gradient, loss.hessian)
    ),
    PRIORS.kind: lambda prior: prior.tilted(np.array([-2.0, 0.0, 0.3, 1.0, 5.0]), 1.5),
    CHANNELS.kind: lambda noise: noise.label_law(np.sort(_FIELDS[:, 1:], axis=1).T, 0.5),
    PENALTIES.kind: lambda one: one.denoise(_FIELDS - _FIELDS.mean(1, keepdims=True), 1.5),
    ESTIMATORS.kind: lambda one: tuple(
        row[name]
        for row in one.rows(make_teacher("argmax", 3, "gaussian"), [0.7, 3.0])
        for name in ("m", "q", "generalisation_error")
    ),
}
