"""Shared set-up: hypothesis without deadlines, as machines are noisy, and with fixed examples."""

import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from forked import add_option, run_forked

# A file is the work of one worker, which makes its fixtures once. What takes long begins first,
# so that at the end both workers have something short left.
LONG = (
    "test_explorer_browser", "test_figures_claims", "test_docs_build", "test_docs_blocks",
    "test_cluster_dask", "test_sampled_theory_is_honest", "test_sweep_cli", "test_sweep_kill",
    "test_classifiers_contract", "test_classifiers",
    "test_engine_local", "test_explorer_workers", "test_cli_verify", "test_weights_side",
    "test_spectra_simulated", "test_spectra", "test_amp", "test_overlaps", "test_best_ridge",
    "test_noise", "test_coverage", "test_watching", "test_rows_alone", "test_populations",
    "test_sums_identities", "test_many_classes", "test_honest_search", "test_explorer_export",
    "test_toy_members", "test_population_separability", "test_noise_references", "test_twins",
    "test_other_losses", "test_erm_theory", "test_data_report", "test_fuzz_cli",
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


def pytest_addoption(parser):
    add_option(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    return run_forked(session)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items):
    """What starts processes or takes long, and theory against data, is marked before marks select.

    Afterwards long files come first, the others in their order.
    """
    starts = {path: STARTS.search(path.read_text("utf-8")) for path in {i.path for i in items}}
    for item in items:
        if starts[item.path]:
            item.add_marker("process")
        if "agreement" in item.path.parts or item.path.stem in LONG:
            item.add_marker("slow")
    yield
    place = {stem: place for place, stem in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONG)))


@pytest.fixture(autouse=True)
def no_open_figures():
    """Close what a test leaves open in pyplot: tests run in any order, in one process."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
