"""Code blocks of Markdown pages: found here, run by test_docs_blocks.

A block that cannot run is preceded by a comment that says why: `<!-- not run: reason -->`. A `text`
block right below one that runs is what that prints.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHELL = ("sh", "bash", "shell", "console", "")
RUN = ("python", "toml", *SHELL)
# Output and drawings; a command in one of them would escape the tests, so none may be there.
SHOWN = ("text",)
# Minutes of work that has tests of its own; here it need only exist.
SHORTER = {"polyceptron verify": "polyceptron verify --help"}
FENCE = re.compile(
    r"(?:<!-- not run: (?P<reason>.*?) -->\n)?^```(?P<kind>[^\n`]*)\n(?P<body>.*?)^```$"
    r"(?=(?:\n\n```text\n(?P<printed>.*?)^```$)?)",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block: language, content, where it is, and why it is not run (if so)."""

    kind: str
    body: str
    page: Path
    line: int
    reason: str | None
    printed: str | None = None

    @property
    def where(self) -> str:
        """page:line, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def commands(self) -> str:
        """A shell block as a script; in a console block, the lines that start with `$ `.

        The tests run in the environment that `make setup` and `activate` would give, and a `make`
        line is run with -n: the target must exist, but what it does is another test's business.
        """
        lines = self.body.splitlines()
        if self.kind == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        lines = [line for line in lines if not re.match(r"(source|\.) \.venv/bin/activate", line)]
        lines = [re.sub(r"^make ", f"make -n -C {shlex.quote(str(ROOT))} ", line) for line in lines]
        return "\n".join(SHORTER.get(line.strip(), line) for line in lines)


def pages() -> list[Path]:
    """README.md and every page of docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, directives of the documentation tool excluded."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            found["kind"].strip(),
            found["body"],
            page,
            text.count("\n", 0, found.start("kind")) + 1,
            found["reason"],
            found["printed"],
        )
        for found in FENCE.finditer(text)
        if not found["kind"].startswith("{")
    ]
