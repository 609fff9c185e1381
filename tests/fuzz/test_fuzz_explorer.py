"""The explorer's pure parts under anything that a browser, or somebody else, may send."""

import ast
import copy
import json
import logging
import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyceptron.errors import InvalidInput

pytest.importorskip("dash")

from polyceptron.report.explorer.links import from_query
from polyceptron.report.explorer.page_content import to_csv
from polyceptron.report.explorer.page_figures import phase_words
from polyceptron.report.explorer.page_tasks import tasks_of
from polyceptron.report.explorer.request_guard import CALLBACK
from polyceptron.report.explorer.script import python_lines
from polyceptron.report.explorer.server import make_app
from polyceptron.report.explorer.sessions import Sessions
from polyceptron.report.explorer.settings import (
    NAMES,
    PageSettings,
    check_simulation,
    make_settings,
)
from polyceptron.report.explorer.work_queue import Job

JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
KEYS = st.one_of(st.sampled_from(NAMES), st.text(max_size=8), st.integers())


def usable(page):
    """Settings that were accepted lead to bounded work, a figure, and Python that parses."""
    assert isinstance(page, PageSettings)
    assert len(tasks_of(page)) < 50
    ast.parse(python_lines(page))
    assert phase_words(page, {}) is not None
    with suppress(InvalidInput):
        check_simulation(page)


@settings(max_examples=150)
@given(st.dictionaries(KEYS, JUNK, max_size=4))
def test_settings_from_a_browser(values):
    with suppress(InvalidInput):
        usable(make_settings(values))


@settings(max_examples=60)
@given(JUNK)
def test_settings_that_are_no_settings(values):
    with suppress(InvalidInput):
        usable(make_settings(values))


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
        usable(from_query(search)[0])


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["alpha", "q", "status"]), JUNK, max_size=3), max_size=3
    )
)
def test_downloads(rows):
    assert isinstance(to_csv(rows), str)


class NoTheory:
    """A queue whose work is never done."""

    def request(self, page, tasks): ...

    def answer(self, task):
        return Job(task)

    def wait(self, tasks, timeout):
        return False

    def add(self, simulation): ...

    def cancel(self, simulation): ...

    def forget(self, page): ...

    def close(self): ...


HERE = {"Host": "127.0.0.1:8050", "Origin": "http://127.0.0.1:8050"}
ODD = [
    None,
    True,
    False,
    0,
    -1,
    7,
    1.5,
    1e308,
    -0.0,
    10**400,
    "",
    "a",
    "..",
    "?k=4",
    "control-k.value",
    "\u0000",
    "é" * 50,
    [],
    [[]],
    [None],
    [[[[]]]],
    {},
    {"": ""},
    {"id": 1},
    {"id": {"a": 1}},
    {"id": "url", "property": "search"},
    {"stamp": 1e300},
    {"stamp": -1, "settings": []},
    {"stamp": 2**60, "settings": {}},
    {"range": [1, 2, 3], "stamp": 0},
    {"mark": [], "stale": 3},
    {"settings": {"k": {}}, "stamp": 1},
    "x" * 5000,
    list(range(300)),
]


@pytest.fixture(scope="module")
def page():
    """A browser's way to the page: its token, and a good body for each callback."""
    sessions = Sessions(NoTheory())
    http = make_app(sessions).server.test_client()
    http.get("/", headers=HERE)
    layout = http.get("/_dash-layout", headers=HERE).get_json()["props"]["children"]
    token = next(one["props"]["data"] for one in layout if one["props"].get("id") == "page-token")
    bodies = []
    for one in http.get("/_dash-dependencies", headers=HERE).get_json():
        if one["clientside_function"] is None:
            names = [part.rsplit(".", 1) for part in one["output"].strip(".").split("...")]
            body = {
                "output": one["output"],
                "outputs": [{"id": name, "property": what} for name, what in names],
                "inputs": [{**i, "value": None} for i in one["inputs"]],
                "state": [{**i, "value": None} for i in one["state"]],
                "changedPropIds": [f"{i['id']}.{i['property']}" for i in one["inputs"][:1]],
            }
            for held in body["state"]:
                if held["id"] == "page-token":
                    held["value"] = token
            if len(names) == 1:
                body["outputs"] = body["outputs"][0]
            bodies.append(body)
    assert len(bodies) == 4
    yield http, bodies
    sessions.close()


def odd_body(bodies, number):
    """A good body with a few of its parts replaced, removed, doubled or renamed."""
    rng = random.Random(number)
    body = copy.deepcopy(rng.choice(bodies))
    for _ in range(rng.randint(1, 3)):
        where, key = body, rng.choice(list(body))
        while isinstance(where[key], list | dict) and where[key] and rng.random() < 0.75:
            where = where[key]
            key = rng.choice(list(where)) if isinstance(where, dict) else rng.randrange(len(where))
        act = rng.choice(["replace", "replace", "remove", "double"])
        if act == "replace":
            where[key] = copy.deepcopy(rng.choice(ODD))
        elif act == "remove":
            del where[key]
        elif isinstance(where, list):
            where.append(copy.deepcopy(where[key]))
        else:
            where[f"{key} again"] = where[key]
        if not body:
            break
    return body


def send(http, data):
    return http.post(CALLBACK, data=data, headers={**HERE, "Content-Type": "application/json"})


def test_good_bodies_are_answered(page):
    http, bodies = page
    for body in bodies:
        assert send(http, json.dumps(body)).status_code in (200, 204)


@pytest.mark.parametrize("block", range(8))
def test_480_odd_bodies_are_answered_or_refused_with_a_sentence(page, block, caplog):
    http, bodies = page
    seen = set()
    with caplog.at_level(logging.WARNING):
        for number in range(60 * block, 60 * (block + 1)):
            answer = send(http, json.dumps(odd_body(bodies, number)))
            seen.add(answer.status_code)
            assert answer.status_code in (200, 204, 400, 403), (number, answer.text)
            if answer.status_code >= 400:
                assert answer.mimetype == "text/plain"
                assert len(answer.text.strip().splitlines()) == 1
                assert len(answer.text) < 200
    assert 400 in seen
    assert caplog.records == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"3",
        b'"text"',
        b"\xff\xfe",
        b"NaN",
        b'{"output": NaN}',
        b"[" * 100_000,
        b"9" * 5000,
        b'{"output": "\\ud800"}',
        b'{"output": ["a"]}',
        b"{}",
        b'{"output": "drawn.data", "inputs": 1}',
        b'{"a": 1, "a": 2}',
    ],
)
def test_what_is_no_body_is_refused_with_a_sentence(page, data, caplog):
    with caplog.at_level(logging.WARNING):
        answer = send(page[0], data)
    assert (answer.status_code, answer.mimetype) == (400, "text/plain")
    assert len(answer.text.strip().splitlines()) == 1
    assert caplog.records == []
