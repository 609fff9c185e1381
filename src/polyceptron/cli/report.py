"""Pictures at the shell: figures, explore."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
