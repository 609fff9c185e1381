"""What the paper map points to exists: modules and names of the package, tests, figures."""

from __future__ import annotations

import ast
import re
from importlib import import_module

import pytest
from blocks import ROOT

import polyceptron
from polyceptron.report.figures.making import FIGURES

TEXT = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"\{py:obj\}`(polyceptron(?:\.\w+)+)`", TEXT)))
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))


def test_there_is_something_to_check() -> None:
    assert len(NAMES) > 15
    assert len(TESTS) > 25


@pytest.mark.parametrize("name", NAMES)
def test_code_exists(name: str) -> None:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return
    pytest.fail(f"no module of {name}")


@pytest.mark.parametrize(("file", "test"), TESTS)
def test_tests_exist(file: str, test: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_figures_exist() -> None:
    assert set(re.findall(r"`(fig\d\w?)`", TEXT)) == {n for n in FIGURES if n.startswith("fig")}


def test_every_public_name_is_in_the_reference() -> None:
    """Quicker than the build, which asks the same of the page."""
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in set(polyceptron.__all__) - {"__version__"}:
        assert re.search(rf"\bpolyceptron\.(\w+\.)*{name}\b", text), f"docs/api.md has no {name}"
