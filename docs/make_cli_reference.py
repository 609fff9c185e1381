"""Write docs/cli.md, docs/cli/COMMAND.md and the names that help shows.

python docs/make_cli_reference.py
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

from typer.main import get_command

from polyceptron.cli import app
from polyceptron.cli.help_texts import NAMES_ON_FILE, fill_names, read_registries

DOCS = Path(__file__).parent
HEAD = """# Command line

Every command and option of `polyceptron`. In a terminal, `polyceptron COMMAND --help` prints the
same.

In a table, `± 99 %` is the uncertainty of the number to its left: the exact number is within it in
at least 99 of 100 cases. `std. error` is the standard error of a mean over simulated runs. If a
table is too wide for the terminal, it drops whole columns, never digits; `--json` and `--csv` have
every column. A command that takes longer than two seconds shows its progress on standard error.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | the computation failed, or a check failed |
| 2 | the input is wrong, or a file cannot be written; one sentence says why |
| 130 | stopped with Ctrl-C |
| 141 | the program that read the output has ended, as `head` does |

A command replaces an existing file if you give its name. A file with a default name, or beside the
one you name, is replaced only if polyceptron made it, or if you give `--overwrite`. If the encoding
of a terminal lacks α or ±, tables and help show `alpha` and `+-`.

`polyceptron --install-completion` installs completion for bash, zsh, fish or PowerShell; then press
Tab after `polyceptron curve --noise`.
"""
SEE_ALSO = {
    "curve": ("learning-curves",),
    "transitions": ("transitions",),
    "separability": ("noise",),
    "ridge": ("learning-curves",),
    "asymptotics": ("learning-curves", "optimal-cross-entropy"),
    "plan": ("learning-curves",),
    "amp": ("message-passing",),
    "fit": ("large-data",),
    "sets": ("prediction-sets",),
    "sweep": ("experiments", "cluster"),
    "results": ("experiments",),
    "merge": ("experiments",),
    "figures": ("figures", "paper-map"),
    "verify": ("accuracy",),
    "plot": ("experiments",),
    "data": ("data",),
    "explore": ("start",),
}


def commands() -> dict[str, Any]:
    """The commands by name, in the order of --help."""
    group: Any = get_command(app)
    return dict(group.commands)


def pages() -> dict[str, str]:
    """What to write: the path below docs, and the text."""
    listed = commands()
    lines = [f"| [{name}](cli/{name}.md) | {_paragraphs(listed[name])[0]} |" for name in listed]
    table = "\n".join(["| command | what it does |", "| --- | --- |", *lines])
    tree = "\n".join(f"cli/{name}" for name in listed)
    index = f"{HEAD}\n{table}\n\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    return {"cli.md": index} | {f"cli/{name}.md": _page(name, listed[name]) for name in listed}


def examples(command: Any) -> list[str]:
    """Return the command lines that the help of a command shows."""
    paragraphs = [text for text in _paragraphs(command) if _is_example(text)]
    return [re.sub(r"^Examples?: ", "", text) for text in paragraphs]


def _is_example(paragraph: str) -> bool:
    return re.match(r"(Examples?: )?polyceptron ", paragraph) is not None


def _with_options_as_code(text: str) -> str:
    """Return the text with every option in backticks, so that it is shown letter by letter."""
    return re.sub(r"(?<![\w`-])(--[a-z][a-z-]*)", r"`\1`", text)


def _page(name: str, command: Any) -> str:
    lines = [f"# polyceptron {name}", ""]
    sentences = [text for text in _paragraphs(command) if not _is_example(text)]
    for text in sentences:
        lines += [_with_options_as_code(text), ""]
    shown = examples(command)
    if shown:
        lines += ["```sh", *shown, "```", ""]
    lines += ["| option | what it does | default |", "| --- | --- | --- |"]
    lines += [_row(parameter) for parameter in command.params if parameter.name != "help"]
    links = [f"[{_title_of(page)}](../{page}.md)" for page in SEE_ALSO.get(name, ())]
    return "\n".join(
        [*lines, "", f"See also: {', '.join([*links, '[all commands](../cli.md)'])}.", ""]
    )


def _title_of(page: str) -> str:
    """Return the heading of a page."""
    first_line, _ = (DOCS / f"{page}.md").read_text(encoding="utf-8").split("\n", 1)
    return first_line.removeprefix("# ")


def _row(parameter: Any) -> str:
    names = ", ".join(f"`{o}`" for o in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        names = f"`{parameter.metavar}`"
    shown = (
        "required"
        if parameter.required
        else _default(parameter.default, getattr(parameter, "show_default", None))
    )
    words = _with_options_as_code(fill_names(getattr(parameter, "help", "") or ""))
    return f"| {names} | {words.replace('|', chr(92) + '|')} | {shown} |"


def _default(value: Any, shown: bool | str | None) -> str:
    if isinstance(shown, str):
        return _with_options_as_code(shown)
    if value is None or value is False or value == [] or callable(value):
        return ""
    if value is True:
        return "on"
    listed = value if isinstance(value, list | tuple) else [value]
    return ", ".join(f"`{item}`" for item in listed)


def _paragraphs(command: Any) -> list[str]:
    text = inspect.cleandoc(command.help or "")
    return [" ".join(part.split()) for part in text.split("\n\n")]


def names_on_file() -> str:
    """The names in the registries, as the file holds them that help reads."""
    return json.dumps(read_registries(), indent=1) + "\n"


def write() -> None:
    """Write the names and every page, and remove pages of commands that are gone."""
    NAMES_ON_FILE.write_text(names_on_file(), encoding="utf-8")
    texts = pages()
    for old in (DOCS / "cli").glob("*.md"):
        if f"cli/{old.name}" not in texts:
            old.unlink()
    (DOCS / "cli").mkdir(exist_ok=True)
    for name, text in texts.items():
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
