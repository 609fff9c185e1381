"""The page of the command line says what the program says."""

import importlib.util
from pathlib import Path

from polyceptron.cli import app

DOCS = Path(__file__).parents[2] / "docs"


def made():
    where = importlib.util.spec_from_file_location("maker", DOCS / "make_cli_reference.py")
    maker = importlib.util.module_from_spec(where)
    where.loader.exec_module(maker)
    return maker.reference()


def test_the_page_is_up_to_date():
    """If not: python docs/make_cli_reference.py"""
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == made()


def test_every_command_has_a_section_with_its_options():
    text = made()
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
        assert f"\n## {name}\n" in text
    assert "finite[value:probability;...]" in text
    assert "{" not in text.replace("{toctree}", "")  # every list of names is filled in
