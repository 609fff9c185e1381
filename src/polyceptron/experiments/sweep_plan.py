"""Before the work: how much there is, how much is stored already, how long it should take.

Seconds are of one core; timings of rows already stored correct the figures of their kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from polyceptron.experiments.cost import case_cost, cost_kind, instance_bytes
from polyceptron.experiments.spec import SweepSpec
from polyceptron.experiments.store import Store
from polyceptron.experiments.tasks import Content, Task, expand

_LOOK_UP = 64  # tasks whose keys are looked up in the store together


@dataclass
class SweepPart:
    """One kind of work of a sweep: rows, how many are stored, seconds of one core still to do."""

    rows: int = 0
    stored: int = 0
    seconds: float = 0.0


@dataclass
class SweepPlan:
    """The work of a sweep. `parts` is keyed by (source, estimator, dimension or None).

    `damaged` has the keys of stored rows that do not fit their checksums; they are to be computed
    again and count as not stored.
    """

    rows: int = 0
    stored: int = 0
    tasks_to_do: int = 0
    seconds: float = 0.0
    largest_bytes: int = 0
    parts: dict[tuple[str, str, int | None], SweepPart] = field(default_factory=dict)
    scale: dict[str, float] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)

    def cost(self, content: Content) -> float:
        """Expected seconds of one row, corrected by what the store has seen of its kind."""
        return case_cost(content) * self.scale.get(cost_kind(content), 1.0)

    @property
    def to_do(self) -> int:
        """Rows still to compute."""
        return self.rows - self.stored


def make_plan(spec: SweepSpec, store: Store | None = None) -> SweepPlan:
    """Walk the whole grid once and count."""
    plan = SweepPlan(scale={} if store is None else store.time_scale())
    seen: set[str] | None = set() if len(spec.grid) > 1 else None  # one grid repeats nothing
    for task, missing in missing_cases(expand(spec), store):
        keys = task.keys if seen is None else tuple(k for k in task.keys if k not in seen)
        if seen is not None:
            seen.update(keys)
        content = task.shared
        name = (content["source"], content["estimator"], content.get("dimension"))
        part = plan.parts.setdefault(name, SweepPart())
        to_do = set(keys) & missing
        part.rows += len(keys)
        part.stored += len(keys) - len(to_do)
        if to_do:
            if store is not None:
                plan.damaged += store.damaged(list(to_do))
            plan.tasks_to_do += 1
            part.seconds += sum(plan.cost(case.content) for case in task.only(to_do).cases)
        plan.largest_bytes = max(plan.largest_bytes, instance_bytes(content))
    for part in plan.parts.values():
        plan.rows += part.rows
        plan.stored += part.stored
        plan.seconds += part.seconds
    return plan


def missing_cases(tasks: Iterator[Task], store: Store | None) -> Iterator[tuple[Task, set[str]]]:
    """Every task with those of its keys that have no result yet, looked up a few at a time."""
    while batch := list(islice(tasks, _LOOK_UP)):
        keys = [key for task in batch for key in task.keys]
        done = set() if store is None else store.done(keys)
        for task in batch:
            yield task, set(task.keys) - done
