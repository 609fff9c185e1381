"""Shared set-up: hypothesis without deadlines, as machines are noisy, and with fixed examples."""

import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# What takes long begins first, so that at the end both workers have something short left.
LONG = (
    "test_figures_claims", "test_docs_build", "test_coverage", "test_explorer_browser",
    "test_explorer_other_origin", "test_amp_state_evolution", "test_cli_verify",
)  # fmt: skip
STARTS = re.compile(r"\b(subprocess|run_sweep|LocalCluster|playwright|workers=|FIGURES)\b")

sys.path.append(str(Path(__file__).parent.parent / "tools"))  # what made the shipped tables

settings.register_profile(
    "polyceptron",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("polyceptron")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Long files first, the others in their order; files that start processes are marked so."""
    items.sort(key=lambda item: item.path.stem not in LONG)
    starts = {path: STARTS.search(path.read_text("utf-8")) for path in {i.path for i in items}}
    for item in items:
        if starts[item.path]:
            item.add_marker("process")


@pytest.fixture(autouse=True)
def no_open_figures():
    """Close what a test leaves open in pyplot: tests run in any order, in one process."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
