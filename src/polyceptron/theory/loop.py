"""The plain loop between the two sides: what message passing follows, and what always works.

    law  →  fields side  →  m̂, q̂, V̂  →  weights side  →  law

Bayes-optimal learning and empirical risk minimisation go round the same way; they differ in what
the sides are. Faster ways (`theory/ways.py`) end where this one does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from polyceptron.model.law import Hats, Law

FieldsSide = Callable[[Law], Hats]
WeightsSide = Callable[[Hats], Law]


def iterate(fields: FieldsSide, weights: WeightsSide, start: Law) -> Iterator[Law]:
    """The start, and the law after each further round, without end."""
    law = start
    while True:
        yield law
        law = weights(fields(law))


def settle(
    fields: FieldsSide,
    weights: WeightsSide,
    start: Law,
    *,
    tol: float = 1e-10,
    rounds: int = 10_000,
) -> tuple[Law, bool]:
    """The law at which the loop comes to rest, and whether it did.

    >>> half = settle(lambda law: Hats(1.0, 1.0, law.V), lambda h: Law(1.0, 1.0, 1 / (1 + h.V)),
    ...               Law(1.0, 1.0, 1.0))[0].V
    >>> round(half * (1 + half), 9)
    1.0
    """
    before: Law | None = None
    for count, law in enumerate(iterate(fields, weights, start)):
        if before is not None and _distance(law, before) < tol:
            return law, True
        if count >= rounds:
            break
        before = law
    return law, False


def _distance(one: Law, other: Law) -> float:
    """The largest relative change of τ, q and V."""
    pairs = ((one.tau, other.tau), (one.q, other.q), (one.V, other.V))
    return max(
        0.0 if a == b else abs(a - b) / max(abs(a), abs(b)) for a, b in pairs if not math.isnan(a)
    )
