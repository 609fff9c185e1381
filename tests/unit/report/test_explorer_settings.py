"""The explorer's state: what a link or a control may say, and nothing else."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer.layout import settings_of, shown_values
from polyceptron.report.explorer.state import (
    CHOICES,
    ESTIMATORS,
    LIMITS,
    State,
    check_simulation,
    from_query,
    make_state,
    to_query,
)


def numbers(name: str) -> st.SearchStrategy[float]:
    limit = LIMITS[name]
    if limit.whole:
        return st.integers(int(limit.low), int(limit.high))
    return st.floats(limit.low, limit.high)


@st.composite
def states(draw: st.DrawFn) -> State:
    values = {name: draw(st.sampled_from(options)) for name, options in CHOICES.items()}
    values |= {name: draw(numbers(name)) for name in LIMITS}
    values["estimators"] = draw(st.lists(st.sampled_from(ESTIMATORS), min_size=1, unique=True))
    low = draw(st.floats(0.01, 100))
    values |= {"low": low, "high": low + draw(st.floats(0.01, 800))}
    return make_state(values)


@given(states())
@settings(max_examples=60, deadline=None)
def test_a_link_gives_back_the_whole_state(state: State) -> None:
    assert from_query(to_query(state)) == state
    assert make_state(state.as_dict()) == state


@given(states())
@settings(max_examples=60, deadline=None)
def test_controls_give_back_the_state_to_the_digits_of_a_slider(state: State) -> None:
    again = make_state(settings_of(shown_values(state)))
    assert again.ridge == pytest.approx(state.ridge, rel=1e-4)
    assert again.alpha == pytest.approx(state.alpha, rel=1e-4, abs=1e-9)
    rest = {"ridge": 1.0, "alpha": again.alpha}
    assert make_state({**again.as_dict(), **rest}) == make_state({**state.as_dict(), **rest})


@given(
    st.one_of(
        st.text(max_size=80),
        st.dictionaries(
            st.sampled_from([*LIMITS, *CHOICES, "estimators", "nonsense"]),
            st.one_of(st.text(max_size=12), st.floats().map(str), st.integers().map(str)),
        ).map(lambda d: "?" + "&".join(f"{k}={v}" for k, v in d.items())),
    )
)
@settings(max_examples=150, deadline=None)
def test_any_link_is_a_state_within_the_limits_or_one_sentence(search: str) -> None:
    sentence, state = "", State()
    try:
        state = from_query(search)
    except InvalidInput as error:
        sentence = str(error)
    assert "\n" not in sentence
    assert len(sentence) < 250
    for name, limit in LIMITS.items():
        assert limit.low <= getattr(state, name) <= limit.high
    assert state.low <= state.alpha <= state.high
    assert math.isfinite(state.ridge)


@given(
    st.sampled_from([*LIMITS, *CHOICES, "estimators"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=4,
    ),
)
@settings(max_examples=150, deadline=None)
def test_any_value_of_a_control_is_taken_or_refused_with_a_sentence(name: str, value: Any) -> None:
    with contextlib.suppress(InvalidInput):
        state = make_state(settings_of({**shown_values(State()), name: value}))
        assert from_query(to_query(state)) == state


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ("?k=51", "from 2 to 50"),
        ("?k=2.5", "whole number"),
        ("?k=nan", "whole number"),
        ("?points=100000", "from 2 to 200"),
        ("?dimension=1e9", "from 10 to 5000"),
        ("?prior=cauchy", "gaussian, rademacher, ternary"),
        ("?estimators=", "among bayes"),
        ("?low=3&high=2", "upwards"),
        ("?scale=log&low=0", "start above 0"),
        ("?k=3&k=4", "twice"),
        ("?__class__=1", "unknown setting"),
        ("?" + "k=3&" * 1000, "longer than"),
        ("?%ff%fe", "cannot be read"),
        ("?k=" + "9" * 400, "from 2 to 50"),
    ],
)
def test_wild_links_get_a_sentence(search: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        from_query(search)


def test_nothing_after_the_question_mark_is_the_default() -> None:
    assert from_query("") == from_query("?") == from_query(None) == State()


def test_simulations_are_bounded_by_data_and_by_number() -> None:
    check_simulation(State())
    with pytest.raises(InvalidInput, match="dimension of at most 1732"):
        check_simulation(make_state({"dimension": 5000, "high": 10.0}))
    with pytest.raises(InvalidInput, match="at most 200"):
        check_simulation(make_state({"places": 40, "runs": 50}))
    with pytest.raises(InvalidInput, match="no sample"):
        check_simulation(make_state({"low": 0.001, "dimension": 100}))


def test_the_perceptron_has_two_classes_whatever_k_says() -> None:
    assert make_state({"model": "perceptron", "k": 7}).teacher.n_classes == 2
