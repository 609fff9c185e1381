"""Set-up that all tests share."""

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.append(str(Path(__file__).parent.parent / "tools"))  # what made the shipped tables

# Machines are noisy, so no example has a deadline; examples are the same in every run.
settings.register_profile(
    "polyceptron",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("polyceptron")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items):
    """Put files with slow tests first.

    With several processes (`-n 4 --dist loadfile`) a file is the work of one of them. If the long
    files began last, the other processes would have nothing to do at the end.
    """
    yield
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True)
def no_open_figures():
    """Close what a test leaves open in pyplot: tests run in any order, in one process."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
