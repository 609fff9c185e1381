"""Sweep files and stores that are not what they should be: a sentence, and the file untouched."""

import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyceptron.errors import InvalidInput
from polyceptron.lab.spec import load_spec, parse_spec
from polyceptron.rows import make_row
from polyceptron.store import CaseResult, Store, decode_row, merge_stores

KEYS = st.sampled_from(
    [
        "sources",
        "alpha",
        "dimension",
        "instances",
        "n_classes",
        "prior",
        "model",
        "estimators",
        "ridge",
        "seed",
        "name",
        "start",
        "tol",
        "grid",
        "amp",
        "erm",
        "theory",
        "sweep",
        "x",
    ]
)
VALUES = st.one_of(
    st.sampled_from(
        [
            '"amp"',
            '"erm"',
            '"theory"',
            "[1]",
            "[1, 2]",
            "1",
            "0",
            "-1",
            "1e400",
            "nan",
            "inf",
            '"1:2:3"',
            '"1:2:999999999"',
            "true",
            "[]",
            "{}",
            '"gaussian"',
            '"optimal"',
            "[[[]]]",
            '"square"',
            "1979-05-27",
            "0x10",
            '["a", 1]',
            "{a = 1}",
            "9" * 40,
            '""',
        ]
    ),
    st.text(max_size=8),
)
LINES = st.one_of(
    st.builds("{} = {}".format, KEYS, VALUES),
    st.builds("[{}]".format, KEYS),
    st.builds("[[{}]]".format, KEYS),
    st.text(max_size=12),
)


def check_sentence(error):
    assert len(str(error)) > 10
    assert "Traceback" not in str(error)


@settings(max_examples=200)
@given(st.lists(LINES, max_size=8))
def test_random_sweeps_are_read_or_refused_with_a_sentence(lines):
    text = "\n".join(lines)
    try:
        spec = parse_spec(text)
    except InvalidInput as error:
        check_sentence(error)
    else:
        assert spec.grid  # what is accepted has something to compute


@settings(max_examples=60)
@given(st.lists(st.builds("{} = {}".format, KEYS, VALUES), max_size=6, unique=True))
def test_random_grids_are_read_or_refused(lines):
    text = '[[grid]]\nsources = "theory"\nalpha = [1]\n' + "\n".join(lines)
    try:
        parse_spec(text)
    except InvalidInput as error:
        check_sentence(error)


@settings(max_examples=40)
@given(st.binary(max_size=200))
def test_a_sweep_file_of_random_bytes(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sweep.toml"
        path.write_bytes(content)
        with pytest.raises(InvalidInput):
            load_spec(path)
        assert path.read_bytes() == content


def good_store(path):
    with Store(path, create=True):
        pass
    return path.read_bytes()


def refused(path):
    """Every way in refuses the file, and leaves it as it was."""
    before = path.read_bytes()
    listing = sorted(path.parent.iterdir())
    for open_it in (Store, lambda p: Store(p, create=True), lambda p: merge_stores(p, [p])):
        with pytest.raises(InvalidInput) as caught:
            open_it(path)
        assert path.name in str(caught.value)
    assert path.read_bytes() == before
    return sorted(path.parent.iterdir()) == listing


@settings(max_examples=40)
@given(st.binary(min_size=1, max_size=300), st.booleans())
def test_random_bytes_are_no_store(content, with_magic):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.sqlite"
        path.write_bytes((b"SQLite format 3\x00" if with_magic else b"") + content)
        refused(path)


@settings(max_examples=40)
@given(st.data())
def test_damaged_stores_never_give_wrong_rows(data):
    """Truncated or overwritten: refused, or read as what was written."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.sqlite"
        whole = good_store(path)
        if data.draw(st.booleans(), "truncate"):
            content = whole[: data.draw(st.integers(1, len(whole) - 1), "length")]
        else:
            place = data.draw(st.integers(0, len(whole) - 20), "place")
            noise = data.draw(st.binary(min_size=1, max_size=20), "noise")
            content = whole[:place] + noise + whole[place + len(noise) :]
        path.write_bytes(content)
        try:
            with Store(path) as store:
                assert len(store.frame()) == 0
        except InvalidInput as error:
            check_sentence(error)


def test_foreign_databases_are_refused(tmp_path):
    path = tmp_path / "mine.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE address (name TEXT)")
        connection.execute("INSERT INTO address VALUES ('Ada')")
    connection.close()
    refused(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM address").fetchall() == [("Ada",)]
    connection.close()


@pytest.mark.parametrize("version", [-1, 999, 2**31 - 1])
def test_other_schema_versions_are_refused(tmp_path, version):
    path = tmp_path / "rows.sqlite"
    good_store(path)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.commit()
    connection.close()
    with pytest.raises(InvalidInput, match=r"rows\.sqlite"):
        Store(path)


@given(st.text(max_size=40))
def test_text_from_outside_is_a_value_never_a_statement(text):
    """Keys are parameters: quotes and semicolons in them find nothing and break nothing."""
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "s", create=True) as store:
        assert store.done([text, f"'{text}' OR 1=1; DROP TABLE results; --"]) == set()
        assert len(store) == 0
        assert make_row(prior=text)["prior"] == text


@given(st.one_of(st.text(max_size=30), st.sampled_from(["{", "[1]", "null", "3", '"a"', "{}"])))
def test_damaged_rows_are_refused(text):
    try:
        assert isinstance(decode_row(text), dict)
    except InvalidInput as error:
        check_sentence(error)


COLUMNS = ["key", "task", "row", "status", "reason", "provenance", "checksum"]
JUNK = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.binary(max_size=30),
    st.text(max_size=30).filter(lambda text: "\x00" not in text),
)


@settings(max_examples=40)
@given(st.sampled_from(COLUMNS), st.integers(0, 3), JUNK)
def test_a_row_with_junk_in_it_is_left_out_and_the_others_stay(column, place, junk):
    """Whatever stands in a column now: no traceback, no wrong row, and a good one replaces it."""
    content = {"source": "theory", "estimator": "bayes", "n_classes": 2, "alpha": 1.0}
    row = make_row(source="theory", alpha=1.0, generalisation_error=0.25, status="ok")
    results = [CaseResult(f"{i:032}", content, row, None, {}, 0.1) for i in range(4)]
    with tempfile.TemporaryDirectory() as folder:
        path, new = Path(folder) / "rows.sqlite", Path(folder) / "new.sqlite"
        with Store(path, create=True) as store:
            store.add(results)
            before = list(store.records())
        connection = sqlite3.connect(path)
        try:
            connection.execute(
                f"UPDATE results SET {column} = ? WHERE key = ?", (junk, f"{place:032}")
            )
            connection.commit()
        except sqlite3.IntegrityError:  # a column that takes no NULL, a key that is taken
            return
        finally:
            connection.close()
        with Store(path) as store:
            records = list(store.records())
            changed = records != before
            assert len(store.damaged()) == (1 if changed else 0)
            assert records == [r for i, r in enumerate(before) if not (changed and i == place)]
            assert len(store.frame()) == len(records)
        report = merge_stores(new, [path])
        assert (report.added, len(report.damaged)) == (4 - changed, int(changed))
        with Store(path) as store:
            store.add(results)
            assert list(store.records()) == before
