"""Help of the commands, in which lists of names are those of the registries.

A help text may hold a word in braces, as in "Estimator: {estimators}": it stands for all names in
a registry, which are filled in when help is shown. The file `registered_names.json` holds a copy of
the names; `docs/make_cli_reference.py` writes it together with the pages of the commands.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

from polyceptron.cli.streams import shown_as

WORD_IN_BRACES = re.compile(r"\{(\w+)\}")
NAMES_ON_FILE = Path(__file__).with_name("registered_names.json")
# Between two colons a word may be the name of a pictogram, as 100 is in 0.1:100:log.
COLON_OF_PICTOGRAM = re.compile(r":(?=\w+:)")


def read_registries() -> dict[str, list[str]]:
    """Return the names in every registry, as 'gaussian:VARIANCE', by the word in braces."""
    from polyceptron import problem
    from polyceptron.report.figures.making import FIGURES

    registries: dict[str, problem.Registry[Any]] = {
        "estimators": problem.ESTIMATORS,
        "features": problem.FEATURES,
        "losses": problem.LOSSES,
        "noises": problem.CHANNELS,
        "penalties": problem.PENALTIES,
        "priors": problem.PRIORS,
    }
    names = {
        word: [entry.form for entry in registry.entries] for word, registry in registries.items()
    }
    return {**names, "figures": list(FIGURES)}


def registered_names(word: str) -> list[str]:
    """Return the names that a word in braces stands for, as 'gaussian:VARIANCE'.

    A program that has imported the registries may have added names to them. Otherwise the names are
    those on file, since the imports take longer than everything else that help does.
    """
    if "polyceptron.problem" in sys.modules:
        return read_registries()[word]
    return list(json.loads(NAMES_ON_FILE.read_text(encoding="utf-8"))[word])


def fill_names(text: str) -> str:
    """Return the help text with its words in braces replaced by the names they stand for."""
    return WORD_IN_BRACES.sub(lambda word: ", ".join(registered_names(word[1])), text)


def completions(word: str, incomplete: str) -> list[str]:
    """Return what a value that begins with `incomplete` may become: 'gaussian:' for 'gau'."""
    names = []
    for form in registered_names(word):
        name, colon, _ = form.split("[")[0].partition(":")
        names.append(name + colon)
    return [name for name in names if name.startswith(incomplete)]


def _no_type(ctx: Any) -> None:
    """Show no type beside an argument, whose help says which files it takes."""


def _fill_help(command: Any, ctx: Any) -> None:
    """Replace words in braces in the help of a command's options, and letters no terminal shows.

    `command` and `ctx` are typer's; it has several versions of these types.
    """
    from rich.markup import escape

    parameters = command.get_params(ctx)
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = _no_type
        text = getattr(parameter, "help", None)
        if text and "{" in text:
            parameter.help = escape(fill_names(text))  # names are not markup
    subcommands = getattr(command, "commands", {})
    for item in (command, *parameters, *subcommands.values()):
        if getattr(item, "help", None):
            # An empty tag after the colon keeps rich from showing a pictogram.
            item.help = COLON_OF_PICTOGRAM.sub(":[b][/b]", shown_as(item.help))


class Command(TyperCommand):
    """One command, whose help lists registered names."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the help."""
        _fill_help(self, ctx)
        super().format_help(ctx, formatter)


class Stopped(Exception):
    """The user pressed Ctrl-C; typer would make of it an exit without a word."""


class CommandGroup(TyperGroup):
    """All commands together."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the help."""
        _fill_help(self, ctx)
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Stopped from None
