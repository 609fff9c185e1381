"""Simulations: one instance, a sweep over a grid of them, and the store that keeps every row.

Names are loaded on first use: a worker or the command line needs few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "SweepSpec": "spec",
    "load_spec": "spec",
    "parse_spec": "spec",
    "Store": "store",
    "run_sweep": "sweep",
    "sweep_rows": "sweep",
    "SweepReport": "sweep",
    "SweepStopped": "sweep",
    "SweepPlan": "sweep_plan",
    "make_plan": "sweep_plan",
    "summary": "results",
    "Average": "instance_averages",
    "average": "instance_averages",
    "merge_stores": "merge",
}

__all__ = [
    "Average",
    "Store",
    "SweepPlan",
    "SweepReport",
    "SweepSpec",
    "SweepStopped",
    "average",
    "load_spec",
    "make_plan",
    "merge_stores",
    "parse_spec",
    "run_sweep",
    "summary",
    "sweep_rows",
]

if TYPE_CHECKING:
    from polyceptron.experiments.instance_averages import Average, average
    from polyceptron.experiments.merge import merge_stores
    from polyceptron.experiments.results import summary
    from polyceptron.experiments.spec import SweepSpec, load_spec, parse_spec
    from polyceptron.experiments.store import Store
    from polyceptron.experiments.sweep import SweepReport, SweepStopped, run_sweep, sweep_rows
    from polyceptron.experiments.sweep_plan import SweepPlan, make_plan


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"polyceptron.experiments.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'polyceptron.experiments' has no attribute {name!r}")
