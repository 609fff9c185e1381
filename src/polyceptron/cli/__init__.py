"""The command line: parse, call, print. Nothing is computed here.

Exit codes: 0 done, 1 the computation failed or a check is off, 2 the input is wrong, 130 stopped.
What the commands share is in `options`. Heavy imports stay inside the commands, so that
`polyceptron --help` answers at once.
"""

import inspect
import re
import sys
from typing import Any

import typer

from polyceptron.cli import data_commands, report_commands, theory_commands
from polyceptron.cli.options import Command, CommandGroup, Stopped
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
def _root(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        typer.echo(f"polyceptron {VERSION}")
        raise typer.Exit


for module in (theory_commands, data_commands, report_commands):
    for command in module.COMMANDS:
        # A paragraph is broken where the terminal ends, not where our own line did.
        words = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.__doc__ or ""))
        app.command(cls=Command, help=words)(command)


def main() -> None:
    """Run the command line; every failure ends in one error message and an exit code."""
    try:
        sys.exit(app(sys.argv[1:] or ["--help"], standalone_mode=False))
    except UsageError as error:
        path = error.ctx.command_path if error.ctx else "polyceptron"
        text = error.format_message().rstrip(".")
        text = _TYPED.sub(lambda m: f"{m[1]} takes a {'whole ' * bool(m[2])}number", text)
        _fail(f"{text}; see {path} --help", 2)
    except InvalidInput as error:
        _fail(error, 2)
    except Stopped:
        _fail("stopped", 130)
    except ComputationFailed as error:
        _fail(error, 1)
    except MemoryError as error:
        _fail(f"not enough memory: {error}" if str(error) else "not enough memory", 1)
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        _fail(error, 2)


def _fail(reason: object, code: int) -> None:
    print(f"polyceptron: {reason}", file=sys.stderr)  # noqa: T201
    sys.exit(code)
