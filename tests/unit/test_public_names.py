"""Every public name is documented with an example, and every example in the package runs."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import polyceptron as pc

MODULES = [
    info.name
    for info in pkgutil.walk_packages(pc.__path__, "polyceptron.")
    if "explorer" not in info.name and not info.name.endswith("__main__")
]


@pytest.mark.parametrize("name", [n for n in pc.__all__ if n != "__version__"])
def test_public_names_have_a_docstring_with_an_example(name):
    text = inspect.getdoc(getattr(pc, name)) or ""
    assert text, f"{name} has no docstring"
    if not name.endswith(("Failed", "Input")):
        assert ">>>" in text, f"{name} has no example"


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert result.failed == 0


def test_names_are_listed_and_typed():
    assert set(dir(pc)) >= set(pc.__all__)
    with pytest.raises(AttributeError, match="no attribute"):
        pc.nothing_of_the_kind  # noqa: B018
