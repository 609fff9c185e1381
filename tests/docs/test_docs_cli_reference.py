"""The pages of the command line say what the program says."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def maker():
    where = importlib.util.spec_from_file_location("maker", DOCS / "make_cli_reference.py")
    module = importlib.util.module_from_spec(where)
    where.loader.exec_module(module)
    return module


def test_the_pages_are_up_to_date(maker):
    """If not: python docs/make_cli_reference.py"""
    for name, text in maker.pages().items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, name
    written = {f"cli/{path.name}" for path in (DOCS / "cli").glob("*.md")}
    assert written == set(maker.pages()) - {"cli.md"}


def test_the_names_that_help_shows_are_those_in_the_registries(maker):
    """If not: python docs/make_cli_reference.py"""
    assert maker.NAMES_ON_FILE.read_text(encoding="utf-8") == maker.names_on_file()


def test_every_command_has_a_page_with_its_options(maker):
    texts = maker.pages()
    for name, command in maker.commands().items():
        page = texts[f"cli/{name}.md"]
        assert page.startswith(f"# polyceptron {name}\n")
        for parameter in command.params:
            assert (
                parameter.name == "help" or parameter.opts[0] in page or parameter.metavar in page
            )
        assert "{" not in page  # every list of names is filled in
    assert "finite[value:probability;...]" in texts["cli/curve.md"]


def test_options_are_shown_as_code_and_examples_in_blocks_to_copy(maker):
    """An option in plain text may get a dash that a shell does not know."""
    for name, command in maker.commands().items():
        page = maker.pages()[f"cli/{name}.md"]
        prose = re.sub(r"```.*?```|`[^`]*`", "", page, flags=re.DOTALL)
        assert not re.search(r"--[a-z]", prose), name
        blocks = "".join(re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL))
        assert blocks.splitlines() == maker.examples(command), name


def test_examples_of_the_help_can_be_typed(maker):
    """Each is parsed by its own command, up to running it."""
    seen = 0
    for name, command in maker.commands().items():
        for line in maker.examples(command):
            words = shlex.split(line)
            assert words[:2] == ["polyceptron", name], line
            if "$" not in line and ".sqlite" not in line and ".toml" not in line:
                command.make_context(name, words[2:]).close()
            seen += 1
    assert seen >= 5
