"""The frozen table in parts, for test files that run beside each other."""

from pathlib import Path

import guard

FROZEN = guard.read_frozen(Path(__file__).with_name("frozen.csv"))
N_PARTS = 24  # every 24th case, so that parts take about as long as one another


def check_part(part: int) -> None:
    """Compute the cases of a part again, and fail if a value, status or bar has changed."""
    frozen_part = list(FROZEN.values())[part::N_PARTS]
    found = [
        change for frozen in frozen_part for change in guard.changes(frozen, guard.ask(frozen.case))
    ]
    assert not found, "\n".join(map(str, found))
