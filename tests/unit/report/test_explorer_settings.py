"""The explorer's settings: what a link or a control may say, and nothing else."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer.controls import Choice, Number
from polyceptron.report.explorer.layout import SLIDERS, settings_of, shown_values
from polyceptron.report.explorer.links import from_query, to_query
from polyceptron.report.explorer.members import METHODS, NUMBERS, slider_ends
from polyceptron.report.explorer.settings import (
    SETTINGS,
    SHARES,
    PageSettings,
    check_simulation,
    make_settings,
)

CHOICES = {n: list(kind.words) for n, kind in SETTINGS.items() if isinstance(kind, Choice)}
ESTIMATORS = CHOICES.pop("estimators")
LIMITS = {name: kind for name, kind in SETTINGS.items() if isinstance(kind, Number)}


def numbers(name: str) -> st.SearchStrategy[float]:
    limit = LIMITS[name]
    if limit.whole:
        return st.integers(int(limit.low), int(limit.high))
    return st.floats(limit.low, limit.high)


@st.composite
def pages(draw: st.DrawFn) -> PageSettings:
    values = {name: draw(st.sampled_from(options)) for name, options in CHOICES.items()}
    values |= {name: draw(numbers(name)) for name in LIMITS}
    values["estimators"] = draw(st.lists(st.sampled_from(ESTIMATORS), min_size=1, unique=True))
    k = 2 if values["model"] == "perceptron" else values["k"]
    for kind, number in NUMBERS.items():
        values[number] = draw(st.floats(*slider_ends(kind, values[kind], k)))
    low = draw(st.floats(0.01, 100))
    values |= {"low": low, "high": low + draw(st.floats(0.01, 800))}
    try:
        return make_settings(values)
    except InvalidInput:  # much noise leaves no class as rare as asked for
        assert PageSettings(**{n: values[n] for n in ("k", *SHARES)}).shares
        reject()


@given(pages())
@settings(max_examples=60, deadline=None)
def test_links_and_controls_give_back_every_setting(page: PageSettings) -> None:
    """Controls to the digits of a slider."""
    assert from_query(to_query(page)) == (page, ())
    assert make_settings(page.as_dict()) == page
    again = make_settings(settings_of(shown_values(page)))
    for name in SLIDERS:
        assert getattr(again, name) == pytest.approx(getattr(page, name), rel=1e-4, abs=1e-9)
    others = [name for name in SETTINGS if name not in SLIDERS]
    assert [getattr(again, n) for n in others] == [getattr(page, n) for n in others]


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
def test_any_link_is_settings_within_the_limits_or_one_sentence(search: str) -> None:
    sentence, page = "", PageSettings()
    try:
        page = from_query(search)[0]
    except InvalidInput as error:
        sentence = str(error)
    assert "\n" not in sentence
    assert len(sentence) < 250
    for name, limit in LIMITS.items():
        assert limit.low <= getattr(page, name) <= limit.high
    assert page.range_rule == "follow" or page.low <= page.alpha <= page.high
    assert math.isfinite(page.ridge)


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
        page = make_settings(settings_of({**shown_values(PageSettings()), name: value}))
        assert from_query(to_query(page)) == (page, ())


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ("?k=51", "from 2 to 50"),
        ("?k=2.5", "whole number"),
        ("?k=nan", "whole number"),
        ("?points=100000", "from 1 to 200"),
        ("?dimension=1e9", "from 10 to 5000"),
        ("?prior=cauchy", "gaussian, rademacher, ternary"),
        ("?estimators=", "among bayes"),
        ("?low=3&high=2", "upwards"),
        ("?scale=log&low=0", "start above 0"),
        ("?k=3&k=4", "twice"),
        ("?__class__=1", "unknown setting"),
        ("?" + "k=3&" * 2000, "longer than"),
        ("?run=simulation:amp,dimension:5000", "dimension of at most 1732"),
        ("?run=k:4;rm", "whole number"),
        ("?run=points:4", "cannot be read"),
        ("?" + "run=simulation:amp&" * 13, "at most 12"),
        ("?%ff%fe", "cannot be read"),
        ("?k=" + "9" * 400, "from 2 to 50"),
    ],
)
def test_wild_links_get_a_sentence(search: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        from_query(search)


def test_nothing_after_the_question_mark_is_the_default() -> None:
    assert from_query("") == from_query("?") == from_query(None) == (PageSettings(), ())


def test_simulations_are_bounded_by_data_and_by_number() -> None:
    check_simulation(PageSettings())
    with pytest.raises(InvalidInput, match="dimension of at most 1095"):
        check_simulation(make_settings({"dimension": 5000, "high": 10.0}))
    with pytest.raises(InvalidInput, match="dimension of at most 3464"):
        check_simulation(make_settings({"dimension": 5000, "high": 0.5}))
    with pytest.raises(InvalidInput, match="at most 200"):
        check_simulation(make_settings({"places": 40, "runs": 50}))
    with pytest.raises(InvalidInput, match="no sample"):
        check_simulation(make_settings({"low": 0.001, "dimension": 100}))


def test_the_perceptron_has_two_classes_whatever_k_says() -> None:
    assert make_settings({"model": "perceptron", "k": 7}).teacher.n_classes == 2


@given(pages(), st.lists(pages(), max_size=3))
@settings(max_examples=25, deadline=None)
def test_a_link_gives_back_the_simulations(page: PageSettings, shown: list[PageSettings]) -> None:
    small = {"dimension": 30, "places": 2, "runs": 2, "low": 0.5, "high": 2.0, "scale": "linear"}
    runs = [make_settings({**one.as_dict(), **small}) for one in shown]
    again = from_query(to_query(page, runs))
    assert again[0] == page
    names = ("simulation", "model", "k", "prior", "ridge", "ridge_rule", *small, "alpha", "seed")
    for one, other in zip(runs, again[1], strict=True):
        told = [name for name in names if name not in other.idle]
        assert [getattr(one, name) for name in told] == [getattr(other, name) for name in told]


def test_who_gives_a_range_means_it() -> None:
    assert from_query("?k=4")[0].range_rule == "follow"
    assert from_query("?k=4&high=2")[0].range_rule == "set"
    assert from_query("?k=4&high=2&range_rule=follow")[0].range_rule == "follow"


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"noise": "pink"}, "noise must be one of none, gaussian, softmax, flips"),
        (
            {"noise": "gaussian", "strength": "-1"},
            "the strength of the noise must be a number from",
        ),
        ({"noise": "flips", "strength": 0.6, "k": 2}, "must be below 0.5"),
    ],
)
def test_a_noise_that_there_is_not(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        make_settings(asked)


def test_a_choice_begins_at_the_number_of_its_example_and_what_is_idle_has_its_default() -> None:
    chosen = make_settings({"features": "power", "noise": "softmax", "prior": "sparse-gaussian"})
    written = [chosen.written(kind) for kind in NUMBERS]
    assert written == ["sparse-gaussian:0.2", "softmax:2", "power:1.2:200"]
    other = make_settings({"features": "levels", "shape": 9, "l1": 3, "share5": 0.3})
    assert other.written("features") == "levels:9x0.2,0.25x0.8"
    assert (other.l1, other.share5) == (PageSettings.l1, 1.0)  # no elastic net, three classes
    assert {"l1", "share5", "separation"} <= other.idle
    assert "share5" not in to_query(other)
    smoothed = make_settings({"estimators": "smoothed", "epsilon": 0.3})
    assert smoothed.estimator("smoothed").columns["estimator"] == "smoothed:0.3"


def test_a_loss_and_one_pass_have_a_number_each() -> None:
    both = make_settings({"estimators": "smoothed,sgd", "epsilon": 0.3, "rate": 2})
    assert both.estimator("smoothed").columns["estimator"] == "smoothed:0.3"
    assert both.estimator("sgd").columns["estimator"] == "sgd:2"
    assert "rate" in make_settings({"estimators": "smoothed"}).idle
    assert "epsilon" in make_settings({"estimators": "sgd"}).idle


def test_message_passing_is_the_method_of_the_bayes_optimal_student_alone() -> None:
    assert [METHODS["amp"], *METHODS].count("bayes") == 1
    assert len(METHODS) == len(ESTIMATORS)


def test_shares_and_clusters_make_a_population() -> None:
    unequal = make_settings({"share1": 0.6, "share2": 0.3, "share3": 0.1, "prior": "gaussian"})
    assert unequal.teacher.class_shares == pytest.approx([0.6, 0.3, 0.1])
    assert (unequal.equal_classes, unequal.shown) == (False, "recall")
    mixture = make_settings({"model": "mixture", "k": 2, "separation": 3, "intercept": "free"})
    assert mixture.teacher.gram == ((2.25, -2.25), (-2.25, 2.25))
    assert mixture.estimator("cross-entropy").columns["intercept"] is True
    assert "intercept" not in make_settings({"intercept": "free"}).estimator("square").columns
    assert make_settings({"k": 7, "share1": 0.2}).shares is None
    with pytest.raises(InvalidInput, match=r"the weight of class 1 must be a number from 0\.01"):
        make_settings({"share1": 0})
