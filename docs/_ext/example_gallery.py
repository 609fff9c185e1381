"""Run the scripts of docs/examples and write the page docs/gallery/index.md from what they do.

A script's docstring is a title and a caption; it writes one picture named after itself. A script
runs again when it, or the package, has changed.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import os
import runpy
from pathlib import Path
from typing import Any, NamedTuple

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

import polyceptron

HEAD = """# Examples

Short scripts, run when these pages are built. Each is a file in `docs/examples`: copy it, change a
number and run it again. The [tutorials](../tutorials.md) are longer and come as notebooks; the
[figures](../figures.md) are those of the paper and more.

```{toctree}
:hidden:

Tutorials <../tutorials>
Figures <../figures>
```
"""


class Example(NamedTuple):
    """What a script says of itself, its code without the docstring, and what it printed."""

    name: str
    title: str
    caption: str
    code: str
    output: str


def read(script: Path, output: str = "") -> Example:
    """Split a script into title, caption and code."""
    source = script.read_text(encoding="utf-8")
    module = ast.parse(source)
    docstring = ast.get_docstring(module)
    if docstring is None:
        raise ExtensionError(f"{script}: an example opens with a docstring: title, then caption")
    title, _, caption = docstring.partition("\n")
    code = "\n".join(source.splitlines()[module.body[0].end_lineno :]).strip()
    return Example(script.stem, title.rstrip("."), caption.strip(), code, output.strip())


def run(script: Path, folder: Path) -> str:
    """Run a script in `folder`, where it must leave its picture; what it printed is returned."""
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        runpy.run_path(str(script), run_name="__main__")
    if not (folder / f"{script.stem}.svg").exists():
        raise ExtensionError(f"{script} ran but wrote no {script.stem}.svg")
    return printed.getvalue()


def page(examples: list[Example]) -> str:
    """The gallery as Markdown."""
    parts = [HEAD, "````{cards}"]
    for example in examples:
        anchor = example.name.replace("_", "-")
        parts.append(
            f'```{{card}} {example.title}\n:picture: {example.name}.svg\n:link: "#{anchor}"\n\n'
            f"{example.caption}\n```\n"
        )
    parts.append("````\n")
    for example in examples:
        parts.append(f"({example.name})=\n## {example.title}\n\n{example.caption}\n")
        parts.append(
            f"```{{image}} {example.name}.svg\n:alt: {example.title}\n:width: 520px\n```\n"
        )
        parts.append(f"```python\n{example.code}\n```\n")
        if example.output:
            parts.append(f"```text\n{example.output}\n```\n")
    return "\n".join(parts)


def fingerprint(script: Path) -> str:
    """Changes with the script and with any file of the package."""
    digest = hashlib.sha256(script.read_bytes())
    for file in sorted(Path(polyceptron.__file__).parent.rglob("*.py")):
        digest.update(f"{file.name}{file.stat().st_mtime_ns}".encode())
    return digest.hexdigest()


def build(app: Sphinx) -> None:
    """Bring docs/gallery up to date."""
    source, folder = Path(app.srcdir) / "examples", Path(app.srcdir) / "gallery"
    folder.mkdir(exist_ok=True)
    examples = []
    for script in sorted(source.glob("*.py")):
        stamp, picture = folder / f"{script.stem}.stamp", folder / f"{script.stem}.svg"
        now = fingerprint(script)
        old, _, output = stamp.read_text().partition("\n") if stamp.exists() else ("", "", "")
        if old != now or not picture.exists():
            output = run(script, folder)
            replace(stamp, f"{now}\n{output}")
        examples.append(read(script, output))
    text = page(examples)
    index = folder / "index.md"
    if not index.exists() or index.read_text(encoding="utf-8") != text:
        replace(index, text)


def replace(path: Path, text: str) -> None:
    """Write in example piece: two builds may run at once."""
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", build)
    return {"version": "1", "parallel_read_safe": True}
