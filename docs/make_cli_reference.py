"""Write docs/cli.md from the program itself: python docs/make_cli_reference.py"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from typer.main import get_command

from polyceptron.cli import app
from polyceptron.cli.options import fill_names

HEAD = """# Command line

Every command and option of `polyceptron`, as the program states them (this page is made from it
by `docs/make_cli_reference.py`). A number in a table is whole at 80 columns: a table leaves out
columns rather than digits, and `--json` and `--csv` have all of them. What takes longer than two
seconds says on standard error what it is doing. Exit codes: 0 done, 1 the computation failed or a
check is off, 2 the input is wrong (one sentence says how), 130 stopped.

Completion of commands, options and registered names is installed once for bash, zsh, fish or
PowerShell by `polyceptron --install-completion`; then press Tab after `polyceptron curve --noise`.
"""


def reference() -> str:
    """The page: one section a command, in the order of --help."""
    group: Any = get_command(app)
    return "\n".join([HEAD, *(_section(name, group.commands[name]) for name in group.commands)])


def _section(name: str, command: Any) -> str:
    paragraphs = [" ".join(text.split()) for text in _help(command).split("\n\n")]
    lines = [f"## {name}", ""]
    for text in paragraphs:
        lines += [_example(text), ""]
    lines += ["| option | | default |", "| --- | --- | --- |"]
    for parameter in command.params:
        if parameter.name != "help":
            lines.append(_row(parameter))
    return "\n".join([*lines, ""])


def _row(parameter: Any) -> str:
    names = ", ".join(f"`{o}`" for o in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        names = f"`{parameter.metavar}`"
    shown = "required" if parameter.required else _default(parameter.default)
    words = fill_names(getattr(parameter, "help", "") or "")
    return f"| {names} | {words.replace('|', chr(92) + '|')} | {shown} |"


def _default(value: Any) -> str:
    if value is None or value is False or value == [] or callable(value):
        return ""
    listed = value if isinstance(value, list | tuple) else [value]
    return ", ".join(f"`{item}`" for item in listed)


def _example(text: str) -> str:
    for word in ("Example: ", "Examples: "):
        if text.startswith(word):
            return f"{word}`{text.removeprefix(word)}`"
    return f"`{text}`" if text.startswith("polyceptron ") else text


def _help(command: Any) -> str:
    return inspect.cleandoc(command.help or "")


if __name__ == "__main__":
    target = Path(__file__).parent / "cli.md"
    target.write_text(reference(), encoding="utf-8")
