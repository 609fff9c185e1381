"""The list of mutations is up to date: each finds its line once, and its test exists."""

import re
from pathlib import Path

import pytest
from tests.mutations import MUTATIONS, ROOT, Mutation


@pytest.mark.parametrize("one", MUTATIONS, ids=lambda one: one.name)
def test_a_mutation_finds_its_line_and_its_test(one: Mutation) -> None:
    source = ROOT / "src" / "polyceptron" / one.file
    assert source.read_text(encoding="utf-8").count(one.old) == 1, one.old
    assert one.old != one.new
    path, *names = one.test.split("::")
    text = Path(ROOT / path).read_text(encoding="utf-8")
    for name in names:
        assert re.search(rf"^def {name.split('[')[0]}\(", text, re.M), one.test
