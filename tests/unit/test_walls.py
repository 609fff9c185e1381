"""The rooms of the package: no import of ours inside a function, no module named in a string.

import-linter (`make check`) holds the order of the rooms; these are the two ways around it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import polyceptron

PACKAGE = Path(polyceptron.__file__).parent
ROOMS = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
FILES = sorted(PACKAGE.rglob("*.py"))
# The shell loads what a command needs when it is called, so that --help is quick.
LAZY = {PACKAGE / "cli", PACKAGE / "__main__.py", PACKAGE / "__init__.py"}
MODULE_NAME = re.compile(rf"^(polyceptron\.)?({'|'.join(ROOMS)})(\.[a-z_]\w*)+$")
# A file of the page, and the module that a worker process runs.
ALLOWED = {"report.html", "polyceptron.report.explorer.worker_process"}


def is_lazy(path: Path) -> bool:
    return path in LAZY or any(parent in LAZY for parent in path.parents)


def inner_imports(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of imports of this package inside functions."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("polyceptron"):
                yield node.lineno


def named_modules(tree: ast.Module) -> Iterator[str]:
    """Yield strings, other than docstrings, that name a module of this package or a part of it."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if id(node) not in docstrings and MODULE_NAME.match(node.value):
            yield node.value


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_import_of_ours_inside_a_function(path: Path) -> None:
    if is_lazy(path):
        pytest.skip("the shell loads modules when they are needed")
    assert list(inner_imports(ast.parse(path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_module_is_named_in_a_string(path: Path) -> None:
    """Resource folders may be named: `files("polyceptron.report.data")`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    resources = {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("files", "Dash")
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }
    assert [name for name in named_modules(tree) if name not in resources | ALLOWED] == []


def test_both_checks_can_fail() -> None:
    bad = ast.parse(
        "def f():\n"
        "    from polyceptron.theory import margins\n"
        "    return 'theory.margins.margin_law'\n"
    )
    assert list(inner_imports(bad)) == [2]
    assert list(named_modules(bad)) == ["theory.margins.margin_law"]
