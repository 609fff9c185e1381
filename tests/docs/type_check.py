"""The type checker over the package and over what README, pages and tutorials write.

One run for both, called by `make check`: a user's checker sees the package as py.typed, and must
accept what is documented. A page that is wrong on purpose shows that a mistake would be seen.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from blocks import ROOT, blocks, pages
from mypy import api

WRONG = "import polyceptron as pc\npc.Teacher('three')\n"


def write_documented(folder: Path) -> None:
    """A package `documented` with one module for each page that has Python, and each tutorial."""
    folder.mkdir()
    (folder / "__init__.py").touch()
    for page in pages():
        python = [b.body for b in blocks(page) if b.kind == "python" and b.reason is None]
        name = page.stem.replace("-", "_").lower()
        (folder / f"{name}.py").write_text("\n".join(python), encoding="utf-8")
    for path in (ROOT / "docs" / "tutorials").glob("*.py"):
        (folder / f"{path.stem}_tutorial.py").write_text(path.read_text("utf-8"), "utf-8")
    (folder / "wrong.py").write_text(WRONG, encoding="utf-8")


def main() -> int:
    """0 if every mistake is the one made on purpose; what mypy says of others is printed."""
    with tempfile.TemporaryDirectory() as place:
        write_documented(Path(place) / "documented")
        cache = ["--cache-dir", os.devnull] if os.environ.get("CI") == "true" else []  # read once
        said, problem, _ = api.run([*cache, *sys.argv[1:], "src", "tests/typing", place])
    lines = said.splitlines()
    seen = [line for line in lines if "documented/wrong.py" in line and "error:" in line]
    others = [line for line in lines if ": error:" in line and line not in seen]
    if not seen:
        others.append("the mistake made on purpose was not seen")
    sys.stdout.write("\n".join([*others, problem]).strip() or "types: no mistake")
    sys.stdout.write("\n")
    return bool(others or problem)


if __name__ == "__main__":
    sys.exit(main())
