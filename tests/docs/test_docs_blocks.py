"""Every code block of the README and of the pages runs, in reading order, in its own folder."""

from __future__ import annotations

import io
import math
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from blocks import ROOT, RUN, SHELL, SHOWN, Block, blocks, pages

from polyceptron.cli import main
from polyceptron.lab.spec import parse_spec

pytestmark = [pytest.mark.process, pytest.mark.slow]

MOST_NOT_RUN = 8
MOST_LETTERS = 88
PLAIN = re.compile(r"(polyceptron [^|&;<>`$()\\]*)?$")


def page_id(page: Path) -> str:
    return page.stem


@pytest.mark.parametrize("page", pages(), ids=page_id)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one page share a folder and, if Python, their names, as a reader's session does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")  # a sweep starts one worker
    session: dict[str, Any] = {"__name__": "__page__"}
    for block in blocks(page):
        if block.reason is not None or block.kind not in RUN:
            continue
        said = ""
        if block.kind == "python":
            said = run_python(block, session)
        elif block.kind == "toml":
            save_toml(block, tmp_path)
        else:
            said = run_shell(block, tmp_path)
        if block.printed is not None:
            assert alike(said, block.printed), f"{block.where} prints\n{said}"


def alike(said: str, printed: str) -> bool:
    """The same words; of numbers two digits, and nothing of what is smaller than 1e-6."""
    pairs = list(zip_longest(said.split(), printed.split(), fillvalue=""))
    try:
        different = [(float(a), float(b)) for a, b in pairs if a != b]
    except ValueError:
        return False
    return all(math.isclose(a, b, rel_tol=0.02, abs_tol=1e-6) for a, b in different)


def run_python(block: Block, session: dict[str, Any]) -> str:
    # Blank lines put an error on its line of the page.
    code = compile("\n" * block.line + block.body, str(block.page), "exec")
    with redirect_stdout(io.StringIO()) as said:
        exec(code, session)
    return said.getvalue()


def run_shell(block: Block, folder: Path) -> str:
    """Plain lines of our own command run in this process, which saves its start; others in sh."""
    lines = block.commands.splitlines()
    if all(PLAIN.match(line) for line in lines):
        return "".join(run_here(line, block.where) for line in lines)
    scripts = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": scripts + os.pathsep + os.environ["PATH"],
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        ["sh", "-eu", "-c", block.commands],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{block.where}\n{block.commands}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_here(line: str, where: str) -> str:
    """What `polyceptron ...` printed; it must end with exit code 0."""
    words = shlex.split(line, comments=True)
    said, error = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(error):
        patch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as end:
            main()
    assert not end.value.code, f"{where}\n{line}\n{said.getvalue()}{error.getvalue()}"
    return said.getvalue()


def save_toml(block: Block, folder: Path) -> None:
    """A sweep must be a valid one; it is kept as spec.toml for the commands that follow."""
    import tomllib

    tables = tomllib.loads(block.body)
    if "grid" in tables:
        parse_spec(block.body)
        (folder / "spec.toml").write_text(block.body, encoding="utf-8")


@pytest.mark.parametrize("page", pages(), ids=page_id)
def test_every_block_is_run_or_says_why(page: Path) -> None:
    for block in blocks(page):
        if block.reason is not None:
            assert len(block.reason.split()) >= 3, f"{block.where}: the reason is too short"
            continue
        assert block.kind in (*RUN, *SHOWN), f"{block.where}: blocks of {block.kind!r} are not run"
        if block.kind in SHOWN:
            command = re.search(r"^(\$ |polyceptron |pip |make |>>> |import )", block.body, re.M)
            assert not command, f"{block.where}: {command} is not run; use one of {SHELL}"


def test_blocks_left_out_are_rare() -> None:
    left_out = [block.where for page in pages() for block in blocks(page) if block.reason]
    assert len(left_out) <= MOST_NOT_RUN, left_out


def test_a_wrong_block_would_fail(tmp_path: Path) -> None:
    """Negative control: the extraction finds blocks, and running them can fail."""
    page = ROOT / "docs" / "imaginary.md"
    wrong = Block("python", "assert 1 == 2", page, 1, None)
    with pytest.raises(AssertionError):
        run_python(wrong, {})
    with pytest.raises(AssertionError, match="imaginary"):
        run_shell(Block("sh", "polyceptron curve --classes 1 --alpha 1", page, 1, None), tmp_path)
    assert alike("q = 1.001\n", "q =  1.0")
    assert not alike("q = 1.1", "q = 1.0")
    assert not alike("q = 1 ok", "q = 1 failed")
    found = blocks(ROOT / "docs" / "start.md")
    assert any(block.kind == "python" for block in found)
    printed = [block for page in pages() for block in blocks(page) if block.printed is not None]
    assert len(printed) >= 15


@pytest.mark.parametrize("page", pages(), ids=page_id)
def test_code_fits_in_the_page(page: Path) -> None:
    """On a screen of 1280 pixels a line of 88 letters is shown whole, beside both menus."""
    long = [
        f"{block.where}: {line}"
        for block in blocks(page)
        for line in block.body.splitlines()
        if len(line) > MOST_LETTERS
    ]
    assert not long, long
