"""Write one page for each public name, docs/api/NAME.md.

`docs/reference.toml` says which names stand in which section, which result types share a page with
the function that returns them, and which page of the guide to read. The directive `reference-list`
shows a section as a table of names with their first sentences.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from docutils.statemachine import StringList
from example_gallery import replace
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import polyceptron


class Page(NamedTuple):
    """One page of the reference: a public name, its result types, and where to read on."""

    section: str
    name: str
    results: list[str]
    members: list[str]
    guide: str
    example: str


def read(path: Path) -> list[Page]:
    """Return the pages of the table in its order; public names that it lacks are in "More"."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    pages = [
        Page(
            section["title"],
            entry["name"],
            entry.get("results", []),
            entry.get("members", []),
            entry.get("guide", section.get("guide", "")),
            entry.get("example", ""),
        )
        for section in table["section"]
        for entry in section["page"]
    ]
    listed = {page.name for page in pages}
    others = sorted(set(polyceptron.__all__) - listed - {"__version__"})
    return pages + [Page("More", name, [], [], "", "") for name in others]


def directive(path: str, members: list[str]) -> list[str]:
    """Return the autodoc directive of a name, with the members to show (all, if none are named)."""
    parts = path.split(".")
    value: Any = polyceptron
    for position, part in enumerate(parts):
        if hasattr(value, part):
            value = getattr(value, part)
        else:
            value = __import__(".".join(["polyceptron", *parts[: position + 1]]), fromlist=["_"])
    kind = "autofunction"
    if inspect.isclass(value):
        kind = "autoclass"
        if issubclass(value, Exception):
            kind = "autoexception"
    lines = [f".. {kind}:: polyceptron.{path}"]
    if members:
        others = [name for name in dir(value) if not name.startswith("_") and name not in members]
        lines += ["   :members:", f"   :exclude-members: {', '.join(others)}"]
    return lines


def text_of(page: Page) -> str:
    """Return a page in Markdown."""
    lines = [f"# {page.name}", "", "```{eval-rst}", ".. py:currentmodule:: polyceptron", ""]
    lines += [*directive(page.name, page.members), "```", ""]
    if page.example:
        lines += ["**Example**", "", f"```python\n{page.example.strip()}\n```", ""]
    if page.results:
        lines += ["## What it returns", "", "```{eval-rst}"]
        for result in page.results:
            lines += [*directive(result, []), ""]
        lines += ["```", ""]
    if page.guide:
        links = [f"[](../{name}.md)" for name in page.guide.split()]
        lines += [f"Read on in the guide: {', '.join(links)}.", ""]
    return "\n".join(lines)


def first_sentence(name: str) -> str:
    """Return the first sentence of a docstring, safe inside a table."""
    paragraph = (inspect.getdoc(getattr(polyceptron, name)) or "").split("\n\n")[0]
    sentence = re.split(r"(?<=[.?!])\s", " ".join(paragraph.split()))[0]
    return re.sub(r"([|*_\\])", r"\\\1", sentence)


def build(app: Sphinx) -> None:
    """Bring docs/api up to date."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    pages = read(Path(app.srcdir) / "reference.toml")
    for old in folder.glob("*.md"):
        if old.stem not in {page.name for page in pages}:
            old.unlink()
    for page in pages:
        path = folder / f"{page.name}.md"
        text = text_of(page)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            replace(path, text)


class ReferenceList(SphinxDirective):
    """The names of a section as a table with links and first sentences."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        source = Path(self.env.srcdir) / "reference.toml"
        self.env.note_dependency(str(source))
        listed = [page for page in read(source) if page.section == self.arguments[0]]
        if not listed:
            return []
        lines = ["| name | |", "| --- | --- |"]
        lines += [
            f"| [`{page.name}`](api/{page.name}.md) | {first_sentence(page.name)} |"
            for page in listed
        ]
        lines += ["", "```{toctree}", ":hidden:", ""]
        lines += [f"api/{page.name}" for page in listed]
        lines += ["```"]
        box = nodes.container()
        self.state.nested_parse(StringList(lines, str(source)), self.content_offset, box)
        return box.children


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("reference-list", ReferenceList)
    app.connect("builder-inited", build)
    return {"version": "1", "parallel_read_safe": True}
