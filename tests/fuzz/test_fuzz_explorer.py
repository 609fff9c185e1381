"""The explorer's pure parts under anything that a browser, or somebody else, may send."""

import ast
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyceptron.errors import InvalidInput

pytest.importorskip("dash")

from polyceptron.report.explorer.compute import tasks_of
from polyceptron.report.explorer.export import python_lines, to_csv
from polyceptron.report.explorer.figures import phase_words
from polyceptron.report.explorer.server import check_port
from polyceptron.report.explorer.state import NAMES, State, check_simulation, from_query, make_state

JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
KEYS = st.one_of(st.sampled_from(NAMES), st.text(max_size=8), st.integers())


def usable(state):
    """A state that was accepted leads to bounded work, a figure, and Python that parses."""
    assert isinstance(state, State)
    assert len(tasks_of(state)) < 50
    ast.parse(python_lines(state))
    assert phase_words(state, None) is not None
    with suppress(InvalidInput):
        check_simulation(state)


@settings(max_examples=150)
@given(st.dictionaries(KEYS, JUNK, max_size=4))
def test_settings_from_a_browser(values):
    with suppress(InvalidInput):
        usable(make_state(values))


@settings(max_examples=60)
@given(JUNK)
def test_settings_that_are_no_settings(values):
    with suppress(InvalidInput):
        usable(make_state(values))


@settings(max_examples=150)
@given(
    st.one_of(
        st.text(max_size=40),
        st.lists(
            st.builds("{}={}".format, st.sampled_from(NAMES), st.text(max_size=6)), max_size=4
        ).map("&".join),
        JUNK,
    )
)
def test_links(search):
    with suppress(InvalidInput):
        usable(from_query(search))


@given(st.one_of(JUNK, st.integers(-5, 70000)))
def test_ports(port):
    with suppress(InvalidInput):
        assert 0 <= check_port(port) <= 65535


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["alpha", "q", "status"]), JUNK, max_size=3), max_size=3
    )
)
def test_downloads(rows):
    assert isinstance(to_csv(rows), str)
