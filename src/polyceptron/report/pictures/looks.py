"""How series look beside one another: their labels and colours."""

from __future__ import annotations

import re
from collections.abc import Sequence

from polyceptron.report.pictures.series import Series
from polyceptron.report.style import COLOURS, CYCLE, colours_of, label_of, shades

_NUMBER = re.compile(r"\d[\d.]*(?:e[+-]?\d+)?")


def shared_role(series: Sequence[Series]) -> str:
    """The role that all lines have, where their families alone tell them apart; else nothing."""
    roles = {s.role for s in series if s.theory} or {s.role for s in series}
    told = all(any("λ" not in word for word in s.family) for s in series)
    return next(iter(roles)) if len(roles) == 1 and told else ""


def series_label(one: Series, shared: str) -> str:
    """What tells the series apart."""
    name = "" if shared else label_of(one.role) or one.source
    return ", ".join(word for word in (name, *one.family, one.size) if word)


def series_colours(series: Sequence[Series]) -> dict[tuple[str, str, tuple[str, ...]], str]:
    """The colour of each (estimator, role, family).

    An estimator with one family has the colours of its roles; of several families each has a colour
    of its own, one scale for many.
    """
    families: dict[str, list[tuple[str, ...]]] = {}
    for s in series:
        if s.family not in families.setdefault(s.estimator, []):
            families[s.estimator].append(s.family)
    single = [s.role for s in series if len(families[s.estimator]) == 1]
    own = colours_of([*single, *families])
    used = {own[role] for role in single}
    chosen: dict[tuple[str, tuple[str, ...]], str] = {}
    for estimator, some in families.items():
        if len(some) > 4:
            some.sort(
                key=lambda family: [float(n) for word in family for n in _NUMBER.findall(word)]
            )
            chosen |= {(estimator, f): c for f, c in zip(some, shades(len(some)), strict=True)}
        elif len(some) > 1:
            for family in some:
                free = [own[estimator], *(c for c in CYCLE if c not in own.values()), *CYCLE]
                colour = next((c for c in free if c not in used), COLOURS["unstable"])
                used.add(colour)
                chosen[estimator, family] = colour
    return {
        (s.estimator, s.role, s.family): chosen.get((s.estimator, s.family)) or own[s.role]
        for s in series
    }
