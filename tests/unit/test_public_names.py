"""Every public name is documented with parameters and an example, and every example runs."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest
from tests.references.known_values import ARGMAX_OF_THREE

import polyceptron as pc

PACKAGE = Path(pc.__file__).parent
MODULES = [  # that have examples
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", [n for n in pc.__all__ if n != "__version__"])
def test_public_names_have_a_docstring_with_an_example(name):
    text = inspect.getdoc(getattr(pc, name)) or ""
    assert text, f"{name} has no docstring"
    if not name.endswith(("Failed", "Input")):
        assert ">>>" in text, f"{name} has no example"
        for parameter in set(inspect.signature(getattr(pc, name)).parameters) - {"args", "kwargs"}:
            assert re.search(rf"\b{parameter}\b", text), f"{name} does not say what {parameter} is"
        if inspect.isfunction(getattr(pc, name)):
            for section in ("Parameters\n-----", "Returns\n-----", "Examples\n-----"):
                assert section in text, f"{name} has no section {section[:-6]}"


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name, instant):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert result.failed == 0
    assert result.attempted > 0


def test_names_are_listed_and_typed():
    assert set(dir(pc)) >= set(pc.__all__)
    with pytest.raises(AttributeError, match="no attribute"):
        pc.nothing_of_the_kind  # noqa: B018


def test_results_show_themselves_in_a_line():
    """No arrays and no addresses of objects; a small table in a notebook."""
    two, square = pc.Teacher(2), pc.ERM("square", 0.1)
    X, y, _ = two.sample(n_samples=60, dimension=20, seed=0)
    results = [
        pc.transitions(pc.Teacher(3, "rademacher")),
        pc.fixed_points(two, 1.0)[0],
        pc.erm_fixed_point(two, square, 1.0),
        pc.asymptotics(two, square),
        pc.plan(two, 0.2, square),
        pc.separability(pc.Teacher(2, noise="flips:0.1")),
        pc.state_evolution(two, 1.0, 3),
        pc.margin_law(two, square, 1.0, margin=[0.0, 1.0]),
        pc.amp(X, y),
        pc.fit_erm(X, y, "square", 0.1),
    ]
    for one in results:
        assert len(repr(one)) < 400, one
        assert "array" not in repr(one)
        assert one._repr_html_().startswith("<table>")
    others = [square, pc.BayesOptimal(), two, two.sample(4, 3, seed=0), pc.is_separable(X, y)]
    for one in others:
        assert len(repr(one)) < 200, one
        assert " at 0x" not in repr(one)
    assert f"alpha_it={ARGMAX_OF_THREE.alpha_it}" in str(results[0])


def test_no_public_function_has_the_name_of_another():
    """Commands of the shell are called as the functions that they call."""
    files = [path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]
    homes = {}
    for path in (path for path in files if "cli" not in path.parts):
        for name in re.findall(r"^def ([a-z]\w*)", path.read_text(encoding="utf-8"), re.M):
            homes.setdefault(name, set()).add(path)
    assert len(homes) > 300
    assert [name for name, places in homes.items() if len(places) > 1] == []
