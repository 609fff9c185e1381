"""Empirical risk minimisation: ridge, asymptotics, plan."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
