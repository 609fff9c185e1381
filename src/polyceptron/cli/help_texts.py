"""Help of the commands, in which lists of names are those of the registries.

A help text may hold a word in braces, as in "One of {estimators}": it stands for all names in a
registry. They are filled in when help is shown and not before, since reading the registries imports
half of the package and takes longer than parsing a command line.
"""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

from polyceptron.cli.streams import shown_as

WORD_IN_BRACES = re.compile(r"\{(\w+)\}")


def registered_names(word: str) -> tuple[str, ...]:
    """Return the names that a word in braces stands for, as in 'gaussian:VARIANCE'."""
    from polyceptron import problem

    if word == "figures":
        from polyceptron.report.figures.making import FIGURES

        return tuple(FIGURES)
    registries: dict[str, problem.Registry[Any]] = {
        "estimators": problem.ESTIMATORS,
        "features": problem.FEATURES,
        "losses": problem.LOSSES,
        "noises": problem.CHANNELS,
        "penalties": problem.PENALTIES,
        "priors": problem.PRIORS,
    }
    return tuple(entry.form for entry in registries[word].entries)


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


def _fill_help(command: Any, ctx: Any) -> None:
    """Replace words in braces in the help of a command's options, and letters no terminal shows.

    `command` and `ctx` are typer's; it has several versions of these types.
    """
    from rich.markup import escape

    parameters = command.get_params(ctx)
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        text = getattr(parameter, "help", None)
        if text and "{" in text:
            # Names are not markup; an empty tag keeps rich from showing :A: as a pictogram.
            parameter.help = re.sub(r":(?=\w+:)", ":[b][/b]", escape(fill_names(text)))
    subcommands = getattr(command, "commands", {})
    for item in (command, *parameters, *subcommands.values()):
        if getattr(item, "help", None):
            item.help = shown_as(item.help)


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
