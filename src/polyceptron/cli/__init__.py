"""The command line: parse, call, print. Nothing is computed here.

Exit codes: 0 done, 1 the computation failed or a check failed, 2 the input is wrong or a file
cannot be written, 130 stopped, 141 the reader of the output has gone (as `head` does).
What the commands share is in `options`, what becomes of the standard streams in `streams`. Heavy
imports stay inside the commands, so that `polyceptron --help` answers at once.
"""

import inspect
import re
import sys
from typing import Any

import typer

from polyceptron.cli import (
    data_commands,
    report_commands,
    set_commands,
    streams,
    theory_commands,
)
from polyceptron.cli.help_texts import Command, CommandGroup, Stopped
from polyceptron.display import visible
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.version import VERSION

UsageError: Any = typer.BadParameter.__mro__[1]
_TYPED = re.compile(r"Invalid value for '(\S+)'.*: Input should be a valid (?:(int)|num).*")
app = typer.Typer(
    name="polyceptron",
    cls=CommandGroup,
    help="Exact learning curves of linear multi-class classifiers in high dimension.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        typer.echo(f"polyceptron {VERSION}")
        raise typer.Exit


for module in (theory_commands, set_commands, data_commands, report_commands):
    for command in module.COMMANDS:
        # A paragraph is broken where the terminal ends, not where our own line did.
        words = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.__doc__ or ""))
        app.command(cls=Command, help=words)(command)


def main() -> None:
    """Run the command line; every failure ends in one error message and an exit code."""
    with streams.standard_streams():
        sys.exit(_run(sys.argv[1:] or ["--help"]))


def _run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    try:
        code = app(arguments, standalone_mode=False)
        sys.stdout.flush()
        return code or 0
    except UsageError as error:
        path = error.ctx.command_path if error.ctx else "polyceptron"
        text = error.format_message().rstrip(".")
        text = _TYPED.sub(_number_wanted, text)
        return _fail(f"{text}; see {path} --help", 2)
    except InvalidInput as error:
        return _fail(error, 2)
    except Stopped:
        return _fail("stopped", 130)
    except ComputationFailed as error:
        return _fail(error, 1)
    except MemoryError as error:
        return _fail(f"not enough memory: {error}" if str(error) else "not enough memory", 1)
    except streams.ReaderGone:
        return streams.READER_GONE_CODE
    except OSError as error:
        return _fail(streams.failure_sentence(error), 2)


def _number_wanted(message: re.Match[str]) -> str:
    """Return which kind of number an option takes, in place of pydantic's message."""
    if message[2]:
        return f"{message[1]} takes a whole number"
    return f"{message[1]} takes a number"


def _fail(reason: object, code: int) -> int:
    """Say on standard error why the command ends, and return its exit code."""
    print(f"polyceptron: {visible(str(reason))}", file=sys.stderr)  # noqa: T201
    return code
