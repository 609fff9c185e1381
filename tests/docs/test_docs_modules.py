"""Every module, file and test that prose, comments and docstrings name exists."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from blocks import ROOT

PACKAGE = ROOT / "src" / "polyceptron"
TEST_ROOT = ROOT / "tests"
ROOMS = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
TOP_FOLDERS = "tests|tools|docs|benchmarks"
PLACES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "docs").rglob("*.py"),
    *PACKAGE.rglob("*.py"),
    *(ROOT / "tools").glob("*.py"),
    *(ROOT / "benchmarks").glob("*.py"),
    *(path for path in TEST_ROOT.rglob("*.py") if path != Path(__file__)),
    ROOT / "tests" / "README.md",
]
FILES = re.compile(rf"`((?:{'|'.join(ROOMS)}|{TOP_FOLDERS})/[\w/-]*(?:\.\w+)?)(?:::\w+)?`")
# Files with an ending are recognised without backticks too, in commands and first lines.
PLAIN_FILES = re.compile(
    r"(?<![\w/.-])((?:src/polyceptron|\w+)/(?:[\w-]+/)*[\w-]+\.(?:py|json|csv|toml|md))(?![\w*])"
)
OUR_PREFIX = re.compile(rf"src/polyceptron/|(?:{'|'.join(ROOMS)}|{TOP_FOLDERS})/")
TEST_FILES = re.compile(r"(?<![\w/])(test_\w+\.py)\b")
TESTS = re.compile(r"(tests/[\w/-]+\.py)::(\w+)")
DOTTED = re.compile(r"`(polyceptron(?:\.\w+)+)`")
# Folders that a build makes, and names that stand for any name.
MADE = ("docs/_build", "docs/api", "docs/gallery", "benchmarks/results")


def files_named(text: str) -> set[str]:
    """Return what begins with a folder of ours and is in backticks or has the ending of a file."""
    plain = {name for name in PLAIN_FILES.findall(text) if OUR_PREFIX.match(name)}
    return {name for name in {*FILES.findall(text), *plain} if not is_pattern(name)}


def is_pattern(name: str) -> bool:
    """Return whether a name stands for any name (NAME.md), or is that of a file that is made."""
    return name.startswith(MADE) or any(part.isupper() for part in re.findall(r"[A-Za-z]+", name))


def missing_tests(text: str) -> set[str]:
    """Return tests and files of tests that a text names and that do not exist."""
    files = {name for name in TEST_FILES.findall(text) if not any(TEST_ROOT.rglob(name))}
    tests = set()
    for file, test in TESTS.findall(text):
        path = ROOT / file
        if not path.exists() or f"def {test}(" not in path.read_text(encoding="utf-8"):
            tests.add(f"{file}::{test}")
    return files | tests


def exists(name: str) -> bool:
    """A file or folder of the project, the package or the pages, with or without its ending."""
    roots = (PACKAGE, ROOT, ROOT / "docs")
    return any((root / ending).exists() for root in roots for ending in (name, f"{name}.py"))


def importable(name: str) -> bool:
    """A module, or a name within one."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            if find_spec(".".join(parts[:cut])) is None:
                continue
        except ModuleNotFoundError:
            continue
        found: object = __import__(".".join(parts[:cut]), fromlist=["_"])
        for part in parts[cut:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_what_is_named_exists() -> None:
    missing = []
    for place in PLACES:
        text = place.read_text(encoding="utf-8")
        gone = [name for name in sorted(files_named(text)) if not exists(name)]
        gone += sorted(missing_tests(text))
        gone += [name for name in sorted(set(DOTTED.findall(text))) if not importable(name)]
        missing += [f"{place.relative_to(ROOT)}: {name}" for name in gone]
    assert not missing, "prose names what is not there:\n" + "\n".join(missing)


def test_a_missing_module_would_be_seen() -> None:
    assert files_named("see `theory/nowhere.py` and `theory`") == {"theory/nowhere.py"}
    assert files_named("python tools/nowhere.py > src/polyceptron/theory/nowhere.json") == {
        "tools/nowhere.py",
        "src/polyceptron/theory/nowhere.json",
    }
    assert files_named("docs/api/NAME.md and `cli/COMMAND.md`") == set()
    assert missing_tests("see test_nowhere.py and test_docs_modules.py") == {"test_nowhere.py"}
    assert missing_tests("tests/docs/test_docs_modules.py::test_nothing") == {
        "tests/docs/test_docs_modules.py::test_nothing"
    }
    assert not exists("theory/nowhere.py")
    assert exists("theory/erm")
    assert importable("polyceptron.theory.erm")
    assert not importable("polyceptron.theory.nowhere")
    assert not importable("polyceptron.theory.erm.fixed_point.nothing")
