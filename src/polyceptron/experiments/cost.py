"""How long a row should take: floating-point operations at a rough rate of one core.

Only the proportions matter much: a store remembers how its rows compared with these figures, and a
plan scales them by that (`Store.time_scale`).
"""

from __future__ import annotations

import math

from polyceptron.experiments.tasks import Content
from polyceptron.model import LOSSES, as_loss

FLOPS = 5e9  # of one core in tall-thin matrix products, conservatively
_THEORY = {"least-squares": 0.002, "bayes": 0.08}  # seconds for k = 1; other losses 0.02
_PASSES = {"softmax": 50}  # reads of X by a fit; other solvers 400


def case_cost(content: Content) -> float:
    """Expected seconds of one row: matrix passes of 4 n d (k − 1) operations each."""
    k = int(content["n_classes"])
    solver = _solver(content["estimator"])
    if content["source"] == "theory":
        return _THEORY.get(solver, 0.02) * k**2
    d = int(content["dimension"])
    n = round(float(content["alpha"]) * d)
    one_pass = 4.0 * n * d * max(1, k - 1) / FLOPS
    if content["source"] == "amp":
        return 0.1 + 60 * one_pass + 1e-3 * math.sqrt(n)
    if solver == "least-squares":
        return 0.03 + 0.4 * n * d * min(n, d) / FLOPS  # one decomposition serves several ridges
    return 0.03 + _PASSES.get(solver, 400) * one_pass


def _solver(estimator: str) -> str:
    """The solver that the loss names; the estimator itself if it is no loss that is known here."""
    return as_loss(estimator).solver if estimator in LOSSES.names else estimator


def cost_kind(content: Content) -> str:
    """Rows whose cost figures are wrong by about the same factor."""
    return f"{content['source']}/{content['estimator']}"


def instance_bytes(content: Content) -> int:
    """Memory of the data of one instance: X in float64."""
    d = int(content.get("dimension", 0))
    return 8 * round(float(content["alpha"]) * d) * d


def describe_seconds(seconds: float) -> str:
    """A duration for people.

    >>> [describe_seconds(s) for s in (0.4, 40, 5400, 200_000)]
    ['0.4 s', '40 s', '90 min', '2.3 days']
    """
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
