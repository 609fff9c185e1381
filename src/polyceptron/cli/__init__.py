"""The command line: parse, call, print. Nothing is computed here.

Exit codes: 0 done, 1 the computation failed or a check is off, 2 the input is wrong, 130 stopped.
What the commands share is in `options` and `printing`. Heavy imports stay
inside the commands, so that `polyceptron --help` answers at once.
"""

from __future__ import annotations

import inspect
import re
import sys

import typer

from polyceptron.cli.data_commands import amp, data, fit
from polyceptron.cli.options import Command, CommandGroup
from polyceptron.cli.report_commands import explore, figures, verify
from polyceptron.cli.sweep_commands import merge, plot, results, sweep
from polyceptron.cli.theory_commands import (
    asymptotics,
    curve,
    plan,
    ridge,
    separability,
    transitions,
)
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.version import VERSION

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


for command in (
    curve,
    transitions,
    separability,
    ridge,
    asymptotics,
    plan,
    amp,
    fit,
    data,
    sweep,
    results,
    merge,
    figures,
    verify,
    plot,
    explore,
):
    # A paragraph is broken where the terminal ends, not where our own line did.
    words = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.__doc__ or ""))
    app.command(cls=Command, help=words)(command)


def main() -> None:
    """Run the command line; every failure ends in one error message and an exit code."""
    try:
        app()
    except InvalidInput as error:
        _fail(error, 2)
    except ComputationFailed as error:
        _fail(error, 1)
    except MemoryError as error:
        _fail(f"not enough memory: {error}" if str(error) else "not enough memory", 1)
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        _fail(error, 2)
    except SystemExit as end:
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):
            _fail("stopped", 130)  # of which typer makes an exit without a word
        raise


def _fail(reason: object, code: int) -> None:
    print(f"polyceptron: {reason}", file=sys.stderr)  # noqa: T201
    sys.exit(code)
