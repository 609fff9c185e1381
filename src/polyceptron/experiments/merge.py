"""Several stores into one, as when parts of a sweep ran on several machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from polyceptron.errors import InvalidInput
from polyceptron.experiments.lock import StoreLock
from polyceptron.experiments.store import Store
from polyceptron.files import check_writable
from polyceptron.rows import Status

_BATCH = 500
_COLUMNS = ("key", "task", "row", "status", "reason", "provenance")


@dataclass(frozen=True)
class MergeReport:
    """What a merge did: rows added, rows the target had already, and those that differ there.

    Two machines may differ in the last digits of a number; the target keeps its own row. `damaged`
    has the keys of the sources' rows that do not fit their checksums: they were not copied.
    """

    added: int
    already: int
    differing: int
    damaged: tuple[str, ...] = ()


def merge_stores(target: str | Path, sources: Sequence[str | Path]) -> MergeReport:
    """Copy into `target` (made if missing) every result of `sources` that it does not have.

    The sources are only read. One source is copied in one transaction: all of it or nothing. A good
    result replaces a failed or damaged one, never the other way round.
    """
    check_writable(target)
    path = Path(target).resolve()
    for source in sources:
        if Path(source).resolve() == path:
            raise InvalidInput(f"cannot merge {str(source)!r} into itself")
    with ExitStack() as stack:
        opened = [stack.enter_context(Store(source)) for source in sources]
        into = stack.enter_context(Store(stack.enter_context(StoreLock(path))))
        added = already = differing = 0
        damaged: list[str] = []
        for store in opened:
            damaged += store.damaged()
            with into.transaction():
                for batch in _batches(store.records()):
                    there = {r["key"]: r for r in into.records_of([r["key"] for r in batch])}
                    kept = [_same(record, there.get(record["key"])) for record in batch]
                    added += kept.count(None)
                    already += len(kept) - kept.count(None)
                    differing += kept.count(False)
                    into.upsert([tuple(record[name] for name in _COLUMNS) for record in batch])
    return MergeReport(added, already, differing, tuple(damaged))


def _same(record: dict[str, Any], mine: dict[str, Any] | None) -> bool | None:
    """None if the record is taken, else whether the row that is kept says the same."""
    if mine is None or (mine["status"] == Status.FAILED and record["status"] != Status.FAILED):
        return None
    return bool(record["status"] == Status.FAILED or mine["row"] == record["row"])


def _batches(records: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while batch := list(islice(records, _BATCH)):
        yield batch
