"""The plain loop between the two sides: what message passing follows, and what always works.

    law  →  fields side  →  m̂, q̂, V̂  →  weights side  →  law

Bayes-optimal learning and empirical risk minimisation go round the same way; they differ in what
the sides are. Faster ways (`theory/ways.py`) end where this one does.

State evolution of empirical risk minimisation, step by step: the plain loop (eq. SE).

It is what message passing with the loss's denoiser follows, and where the faster ways must end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from polyceptron.errors import InvalidInput
from polyceptron.model.checks import check_alpha
from polyceptron.model.law import Hats, Law
from polyceptron.model.losses import check_symmetric
from polyceptron.model.teacher import AnyTeacher, check_teacher
from polyceptron.theory.erm.fixed_point import as_erm
from polyceptron.theory.generalisation import error_on_labels
from polyceptron.theory.sides import Problem, erm_sides
from polyceptron.theory.ways import loss_at_ridge

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


_NOTHING = 1e-18  # stands for q = 0, where every loss has a finite limit
_LEVEL_FEW, _LEVEL_MANY = 2, 1  # of accuracy: 1e-8 and about 1e-4, as the figures need


class ErmStep(NamedTuple):
    """The state after `step` iterations; step 0 is the start."""

    step: int
    m: float
    q: float
    V: float
    generalisation_error: float


def erm_state_evolution(
    teacher: AnyTeacher,
    estimator: Any,
    alpha: float,
    n_steps: int = 50,
    start: tuple[float, float, float] | None = None,
) -> list[ErmStep]:
    """The states of steps 0..n_steps from `start` = (m, q, V), by default (0, 0, 1/λ).

    For max-margin, λ only sets the scale of V and is taken to be 1.

    `teacher` is a `Teacher` or a `Perceptron`, `estimator` an `ERM` or the name of a loss, `alpha`
    is n/d, `n_steps` the number of iterations.

    >>> from polyceptron.model import ERM, Teacher
    >>> steps = erm_state_evolution(Teacher(3), ERM("square", 1.0), 2.0, n_steps=100)
    >>> round(steps[-1].m / steps[-1].q**0.5, 4)
    0.7848
    """
    check_teacher(teacher)
    spec, alpha = as_erm(estimator), check_alpha(alpha)
    if isinstance(n_steps, bool) or not isinstance(n_steps, int) or not 0 <= n_steps <= 1_000_000:
        raise InvalidInput(f"n_steps must be a whole number from 0 to 1000000, got {n_steps!r}")
    scale_free = spec.loss.scale_free
    if isinstance(spec.ridge, str) or (spec.ridge == 0 and not scale_free):
        raise InvalidInput(
            f"the iteration needs a ridge above 0 (max-margin: none), got {spec.ridge!r}"
        )
    loss = loss_at_ridge(spec.loss, spec.ridge, teacher, alpha)
    check_symmetric(loss, teacher.n_classes)
    ridge = 1.0 if scale_free else float(spec.ridge)
    m, q, V = start if start is not None else (0.0, 0.0, 1 / ridge)
    if not (q >= 0 and V > 0 and abs(m) <= math.sqrt(q) * (1 + 1e-12)):
        raise InvalidInput(f"a start (m, q, V) needs q >= 0, V > 0 and |m| <= √q, got {start!r}")
    problem = erm_sides(teacher, loss, ridge, alpha)
    laws = iterate(fields_side(problem), problem.law, Law.of_overlaps(m, q, V))
    return [
        ErmStep(count, law.m, law.q, law.V, _error(problem, law))
        for count, law in enumerate(islice(laws, n_steps + 1))
    ]


def fields_side(problem: Problem, level: int | None = None) -> Any:
    """law → m̂, q̂, V̂, nodes placed anew at every law."""
    if level is None:
        level = _LEVEL_FEW if problem.n_classes <= 3 else _LEVEL_MANY

    def hats(law: Law) -> Hats:
        law = Law(law.tau, max(law.q, _NOTHING), law.V)
        return problem.hats(problem.rule(level, law)(law))

    return hats


def _error(problem: Problem, law: Law) -> float:
    return float(error_on_labels(problem.channel, law.tau, problem.n_classes))
