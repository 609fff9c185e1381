"""A user's type checker accepts what README, pages and tutorials write: the package is py.typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from blocks import ROOT, blocks, pages


@pytest.mark.slow
def test_what_is_documented_passes_a_type_checker(tmp_path: Path) -> None:
    from mypy import api

    for page in pages():
        python = (b.body for b in blocks(page) if b.kind == "python" and b.reason is None)
        text = "\n".join(python)
        if text:
            name = page.stem.replace("-", "_").lower()
            (tmp_path / f"{name}_page.py").write_text(text, encoding="utf-8")
    for path in (ROOT / "docs" / "tutorials").glob("*.py"):
        (tmp_path / f"{path.stem}_tutorial.py").write_text(path.read_text("utf-8"), "utf-8")
    (tmp_path / "wrong_page.py").write_text("import polyceptron as pc\npc.Teacher('three')\n")
    # A figure may be a part of one for matplotlib's own types; a page knows what is not None. The
    # bodies of the package itself are checked elsewhere.
    settings = tmp_path / "mypy.ini"
    settings.write_text(
        f"[mypy]\nmypy_path = {ROOT / 'src'}\nfollow_imports = silent\nstrict_optional = False\n"
        "ignore_missing_imports = True\ndisable_error_code = union-attr\n"
        "[mypy-polyceptron.*]\nignore_errors = True\n"
    )
    cache = f"--cache-dir={tmp_path / 'cache'}"
    files = sorted(map(str, tmp_path.glob("*_*.py")))
    said, _, _ = api.run([f"--config-file={settings}", cache, *files])
    mistakes = [line for line in said.splitlines() if "error:" in line]
    assert any("wrong_page" in line for line in mistakes), said  # it can fail
    assert [line for line in mistakes if "wrong_page" not in line] == []
