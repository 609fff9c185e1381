"""What the paper map points to exists: modules and names of the package, tests, figures."""

from __future__ import annotations

import ast
import re
import sys
from importlib import import_module

import pytest
from blocks import ROOT

import polyceptron
from polyceptron.report.figures.making import FIGURES

sys.path.insert(0, str(ROOT / "docs" / "_ext"))

from reference_pages import Page, read

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


def reference() -> list[Page]:
    """The pages of the Python reference: docs/reference.toml, and public names that it lacks."""
    return read(ROOT / "docs" / "reference.toml")


def test_every_public_name_has_a_page_in_the_reference() -> None:
    """Quicker than the build, which asks the same of the pages."""
    names = [page.name for page in reference()]
    assert len(names) == len(set(names))
    assert set(names) == set(polyceptron.__all__) - {"__version__"}


@pytest.mark.parametrize("page", reference(), ids=lambda page: page.name)
def test_every_page_of_the_reference_has_an_example(page: Page) -> None:
    """In the docstring, which the unit tests run, or in the table, which is run here."""
    if page.example:
        exec(compile(page.example, page.name, "exec"), {"__name__": "__page__"})
    else:
        assert ">>>" in getattr(polyceptron, page.name).__doc__
