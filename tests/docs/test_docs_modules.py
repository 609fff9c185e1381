"""Every module and file that prose names exists: in docs, in the README, in docstrings."""

from __future__ import annotations

import re
from importlib.util import find_spec

from blocks import ROOT

PACKAGE = ROOT / "src" / "polyceptron"
ROOMS = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
PLACES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "docs").rglob("*.py"),
    *PACKAGE.rglob("*.py"),
    *(ROOT / "tools").glob("*.py"),
]
FILES = re.compile(
    rf"`((?:{'|'.join(ROOMS)}|tests|tools|docs|benchmarks)/[\w/-]*(?:\.\w+)?)(?:::\w+)?`"
)
DOTTED = re.compile(r"`(polyceptron(?:\.\w+)+)`")


def files_named(text: str) -> set[str]:
    """What stands between backticks and begins with a folder of ours."""
    return set(FILES.findall(text))


def exists(name: str) -> bool:
    """A file or folder of the project or of the package, with or without its ending."""
    roots = (PACKAGE, ROOT)
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
        gone += [name for name in sorted(set(DOTTED.findall(text))) if not importable(name)]
        missing += [f"{place.relative_to(ROOT)}: {name}" for name in gone]
    assert not missing, "prose names what is not there:\n" + "\n".join(missing)


def test_a_missing_module_would_be_seen() -> None:
    assert files_named("see `theory/nowhere.py` and `theory`") == {"theory/nowhere.py"}
    assert not exists("theory/nowhere.py")
    assert exists("theory/erm")
    assert importable("polyceptron.theory.erm")
    assert not importable("polyceptron.theory.nowhere")
    assert not importable("polyceptron.theory.erm.fixed_point.nothing")
