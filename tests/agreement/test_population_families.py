"""Bars of families that no other coverage reaches hold against another route, on fixed seeds.

`python -m tests.references.family_coverage` draws more of them, with seeds from the clock.
"""

from __future__ import annotations

import pytest
from tests.references.family_coverage import FAMILIES, judged

pytestmark = pytest.mark.slow

PROBLEMS = {
    "losses": 2,
    "features": 2,
    "resampling": 2,
    "scores": 4,
    "margins": 3,
    "floors": 4,
    "shifts": 2,
    "weights": 2,
    "many": 3,
    "biased": 3,
    "priors": 4,
    "separability": 1,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_bars_hold_against_another_route(family: str) -> None:
    """Every number, of a few problems that were drawn once and for all."""
    held = [one for number in range(PROBLEMS[family]) for one in judged(family, 2026, number)]
    assert len(held) >= PROBLEMS[family]
    assert [one for one in held if one.bars > 1] == []


def test_shorter_bars_would_be_seen() -> None:
    """A value that is off by three bars of both routes counts as outside."""
    held = judged("scores", 2026, 0)[0]
    off = held._replace(value=held.truth + 3 * (held.bar + held.doubt))
    assert held.bars <= 1 < off.bars
