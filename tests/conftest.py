"""Shared set-up: hypothesis without deadlines, as machines are noisy, and with fixed examples."""

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# What takes long begins first, so that at the end both workers have something short left.
LONG = (
    "test_figures_claims", "test_docs_build", "test_coverage", "test_explorer_browser",
    "test_explorer_other_origin", "test_amp_state_evolution", "test_cli_verify",
)  # fmt: skip

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
    """Long files first; the others stay in their order."""
    items.sort(key=lambda item: item.path.stem not in LONG)


@pytest.fixture(autouse=True)
def no_open_figures():
    """Close what a test leaves open in pyplot: tests run in any order, in one process."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
