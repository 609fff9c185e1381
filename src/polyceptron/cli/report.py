"""The explorer at the shell: explore."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command()(explore)


def explore(
    port: int = typer.Option(8050, "--port", help="Port to listen on; 0 for any free one."),
) -> None:
    """Explore learning curves and simulations in the browser, on this machine only."""
    from polyceptron.report.explorer.server import serve

    serve(port, lambda address: typer.echo(f"open {address} (stop with Ctrl-C)"))
