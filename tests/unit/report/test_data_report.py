"""A user's table: every sentence from a number, a page that needs nothing else, bad files."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from typer.testing import CliRunner

from polyceptron.cli import app
from polyceptron.errors import InvalidInput
from polyceptron.problem import Teacher
from polyceptron.questions.forecast import forecast
from polyceptron.report.data.alarms import find_alarms, no_ridge_alarm
from polyceptron.report.data.measuring import Measured, _Measurement, measure
from polyceptron.report.data.page import report_html, report_json, report_text
from polyceptron.report.data.reading import read_samples
from polyceptron.report.data.report import DataReport, data_report
from polyceptron.report.data.sentences import choices, sentences

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables")
    data = load_iris(as_frame=True)
    frame = data.frame.assign(target=[f"class {i}" for i in data.target], constant=1.0)
    frame.to_csv(path / "iris.csv", index=False)
    frame.to_csv(path / "semicolons.csv", index=False, sep=";")
    np.savez(path / "iris.npz", X=data.data.to_numpy(), y=data.target.to_numpy())
    return path


@pytest.fixture(scope="module")
def measured(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("polyceptron.report.data.measuring.N_SIZES", 4)
        return measure(read_samples(folder / "iris.csv", "target"))


def test_numbers_of_iris(measured):
    v = measured.numbers
    assert (v["n"], v["d"], v["k"], v["left_out"]) == (150, 4, 3, "constant (constant)")
    assert v["separable"] is False
    X = load_iris().data
    squares = np.linalg.eigvalsh(np.corrcoef(X.T))
    assert v["effective_dimension"] == pytest.approx(16 / (squares**2).sum())
    assert v["error"] < 0.1
    assert v["error_double_low"] <= v["error_double"] <= v["error_double_high"]
    assert sum(row["samples"] for row in measured.tables["calibration"]) == 150
    assert v["accuracy"] == pytest.approx(1 - v["error"])
    best = min(measured.tables["ridge"], key=lambda row: row["score"])
    assert 0.3 * best["ridge"] < v["ridge"] < 3.2 * best["ridge"]
    assert v["error_now"] <= min(v["error"], v["first_error"])
    assert v["log_loss_tenfold"] <= v["log_loss_double"] <= v["log_loss_now"] <= v["log_loss"]
    confusion = np.array(
        [[row[f"named class {i}"] for i in range(3)] for row in measured.tables["classes"]]
    )
    assert confusion.sum(1).tolist() == [50, 50, 50]
    assert 1 - confusion.trace() / 150 == pytest.approx(v["error"])
    assert 1 - (confusion.diagonal() / 50).mean() == pytest.approx(v["balanced_error"])
    assert v["worst_recall"] == (confusion.diagonal() / 50).min()
    assert all(row["low"] < row["weight"] < row["high"] for row in measured.tables["weights"])


def test_every_number_of_a_sentence_is_in_the_json(measured):
    """Figures that a reader sees are those of the numbers named, and change with them."""
    stored = json.loads(report_json(measured))
    for sentence in stored["sentences"]:
        assert sentence["numbers"]
        numbers = stored["numbers"] | {"alarms": len(stored["tables"]["alarms"])}
        values = [numbers[name] for name in sentence["numbers"]]
        shown = set()
        for value in values:
            if isinstance(value, bool) or value is None or isinstance(value, str):
                shown |= set(re.findall(r"\d+\.?\d*", str(value)))
                continue
            for digits in ("d",) if isinstance(value, int) else (".2g", ".3g", ".4f", ".2f"):
                shown.add(f"{value:{digits}}".lstrip("-+"))
            if isinstance(value, float):
                shown |= {f"{abs(value):.{i}%}".rstrip("%") for i in range(3)}
        for figure in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", sentence["text"]):
            assert figure in shown or figure in ("0", "0.1", "1", "9", "10", "95"), (
                figure,
                sentence["text"],
            )
    changed = {**measured.numbers, "n": 149}
    other = sentences(type(measured)(measured.source, changed, measured.tables))
    assert any("149 samples" in sentence.text for sentence in other)


def test_the_page_needs_nothing_else_and_the_text_fits(measured):
    page = report_html(measured)
    assert page.count("<svg") == 5
    assert not re.search(r"https?:|//[a-z]|<script|@import|<link", page)
    names = re.findall(r'id="([^"]+)"', page)
    assert len(names) == len(set(names))
    assert max(map(len, report_text(measured).splitlines())) <= 80
    for sentence in sentences(measured):
        assert sentence.section in report_text(measured)


def test_a_q_value_of_zero_is_shown_as_small(measured):
    row = {"feature": "x", "class": "a", "weight": 1.0, "low": 0.5, "high": 1.5}
    table = [row | {"q_value": 0.0}, row | {"q_value": 0.00123}]
    shown = Measured("table", measured.numbers, measured.tables | {"weights": table})
    text = report_text(shown)
    assert "< 1e-16" in text
    assert "0.0012" in text


def test_sentences_that_are_asked_for_exist(measured):
    text = files("polyceptron.report.data").joinpath("sentences.toml").read_text("utf-8")
    content = tomllib.loads(text)
    names = [name for templates in content.values() for name in templates]
    assert len(names) == len(set(names))
    assert set(choices(measured.numbers | {"alarms": 0})) <= set(names)


def test_a_name_with_markup_is_text(measured, monkeypatch):
    monkeypatch.setattr("polyceptron.report.data.page.draw", lambda measured: [])
    odd = type(measured)("<b>.csv", measured.numbers, measured.tables)
    assert "<b>.csv" not in report_html(odd)


def test_other_kinds_of_files_hold_the_same(folder):
    text = read_samples(folder / "iris.csv", "target", ["constant"])
    for path, target, drop in (
        ("iris.npz", None, ()),
        ("semicolons.csv", "target", ["constant"]),
    ):
        other = read_samples(folder / path, target, drop)
        np.testing.assert_allclose(other.X, text.X)
    pytest.importorskip("pyarrow")
    pd.read_csv(folder / "iris.csv").to_parquet(folder / "iris.parquet")
    np.testing.assert_allclose(
        read_samples(folder / "iris.parquet", "target", ["constant"]).X, text.X
    )


def _bad(folder):
    good = pd.read_csv(folder / "iris.csv").drop(columns="constant")
    first = good.columns[0]
    holes = good.copy()
    holes.iloc[[4, 7], 0] = np.nan
    return {
        "missing column": (good, "kind", r"no column 'kind': there are 'sepal length \(cm\)'"),
        "no target": (good, None, "name the column of the labels with --target"),
        "one class": (good.assign(target="a"), "target", "one class only, 'a'"),
        "missing values": (holes, "target", rf"{re.escape(repr(first))} has 2 missing.*row 5"),
        "all at once": (
            holes.assign(x=[np.inf] * 149 + [1], target=["z"] + ["a"] * 149),
            "target",
            "class 'z'.*has 2 missing.*--missing fill.*'x' is infinite",
        ),
        "missing labels": (good.assign(target=["a", None, "b"] * 50), "target", "50 missing"),
        "a number": (good.assign(target=np.linspace(0, 1, 150)), "target", "a number to predict"),
        "infinite": (good.assign(x=[np.inf] * 149 + [1]), "target", "infinite in data row 1"),
        "rare class": (
            good.assign(target=["z"] + ["a", "b", "c"] * 49 + ["a", "b"]),
            "target",
            "class 'z' of 'target' has 1 sample",
        ),
        "no rows": (good.iloc[:0], "target", "has no rows"),
        "no features": (good[["target"]], "target", "there are no features"),
    }


def test_bad_tables_are_one_sentence_each_and_exit_code_2(folder):
    runner = CliRunner()
    for name, (frame, target, message) in _bad(folder).items():
        path = folder / "bad.csv"
        frame.to_csv(path, index=False)
        with pytest.raises(InvalidInput, match=message):
            read_samples(path, target)
        arguments = ["data", str(path), *(["--target", target] if target else [])]
        result = runner.invoke(app, arguments)
        assert isinstance(result.exception, InvalidInput), name  # main() makes it exit code 2
    for name, content, message in (
        ("empty.csv", b"", "cannot read 'empty.csv' as a table"),
        ("binary.csv", bytes(range(256)) * 20, "cannot read 'binary.csv' as a table"),
        ("binary.npz", b"nothing of the kind", "no .npz file"),
        ("table.docx", b"", "ends in .csv"),
        ("broken.parquet", b"PAR1", "as Parquet|needs pyarrow"),
    ):
        (folder / name).write_bytes(content)
        with pytest.raises(InvalidInput, match=message):
            read_samples(folder / name, "target")
    with pytest.raises(InvalidInput, match=r"read the table .*: there is no such file"):
        read_samples(folder / "nowhere.csv", "target")


def test_targets_of_a_kind_that_names_no_class(folder):
    good = pd.read_csv(folder / "iris.csv").drop(columns="constant")
    good.assign(target=np.arange(150) % 3 + 0.5).to_csv(folder / "halves.csv", index=False)
    with pytest.raises(InvalidInput, match=r"continuous values, such as 0\.5 in row 0"):
        read_samples(folder / "halves.csv", "target")
    pytest.importorskip("pyarrow")
    good.assign(target=[[1, 2], [3]] * 75).to_parquet(folder / "lists.parquet")
    with pytest.raises(InvalidInput, match="a value of the type ndarray in row 0"):
        read_samples(folder / "lists.parquet", "target")
    good.assign(target=[b"a", b"b"] * 75).to_parquet(folder / "bytes.parquet")
    with pytest.raises(InvalidInput, match="a value of the type bytes in row 0"):
        read_samples(folder / "bytes.parquet", "target")


def test_headers_and_labels_that_are_not_what_they_seem(folder):
    """A name twice, labels of blanks, bytes that are no UTF-8: what is wrong, and all of it."""
    path = folder / "odd.csv"
    path.write_text("a,y,y,\ufeffc\n" + "1,2,u,3\n2,2,v,\n5,2,v,4\n" * 5, encoding="utf-8-sig")
    with pytest.raises(InvalidInput, match=r"'y' is the name of 2 columns.*has 5 missing"):
        read_samples(path, "y")
    path.write_text("a,y\n" + "1,u\n2,  \n3,v\n" * 5)
    with pytest.raises(InvalidInput, match="'y' has 5 missing values, the first in data row 2"):
        read_samples(path, "y")
    path.write_bytes(b"a,y\n\x001,u\n\xff\xfe,v\n")
    with pytest.raises(InvalidInput, match="save it as UTF-8"):
        read_samples(path, "y")


def test_tables_of_other_countries(folder):
    """Semicolons with decimal commas, and dates with the day first."""
    days = pd.date_range("2024-01-01", periods=40).strftime("%d.%m.%Y")
    frame = pd.DataFrame({"day": days, "x": np.linspace(-1, 1, 40), "y": ["u", "v"] * 20})
    frame.to_csv(folder / "comma.csv", sep=";", decimal=",", index=False)
    table = read_samples(folder / "comma.csv", "y")
    assert (list(table.X), table.left_out) == (["x"], {"day": "dates"})
    np.testing.assert_allclose(table.X["x"], frame["x"])
    kept = read_samples(folder / "comma.csv", "y", keep=["day"])
    assert (np.diff(kept.X["day"]) == 1).all()


def test_columns_without_values_and_huge_numbers(folder):
    """An empty column costs no row; integers of 30 digits and percentages are numbers."""
    x = np.random.default_rng(0).integers(1, 50, 60)
    frame = pd.DataFrame({"empty": np.nan, "huge": [10**30 * int(i) for i in x], "y": [0, 1] * 30})
    frame["share"] = [f"{i / 7} %" for i in x]
    frame.to_csv(folder / "huge.csv", index=False)
    table = read_samples(folder / "huge.csv", "y", missing="drop-rows")
    assert (table.left_out, table.dropped_rows) == ({"empty": "no values"}, 0)
    np.testing.assert_allclose(table.X["huge"], 1e30 * x)
    np.testing.assert_allclose(table.X["share"], x / 7)
    with pytest.raises(InvalidInput, match="no column 'a', 'b': there are 'empty', 'huge'"):
        read_samples(folder / "huge.csv", "y", ["a"], ["b"])


def test_all_features_constant_is_a_sentence(folder):
    frame = pd.DataFrame({"x": np.ones(20), "y": [0, 1] * 10})
    frame.to_csv(folder / "flat.csv", index=False)
    with pytest.raises(InvalidInput, match=r"no column is left to learn from: 'x' \(constant\)"):
        read_samples(folder / "flat.csv", "y")


@pytest.fixture(scope="module")
def mixed(folder):
    """A table as people have them: an index, dates, names, categories, holes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame["kind"] = np.where(X[:, 0] > 0, "big", "small")
    frame["day"] = pd.date_range("2024-01-01", periods=60).astype(str)
    frame["who"] = [f"person {i}" for i in range(60)]
    frame["length"] = np.where(np.arange(60) % 20 == 5, "unknown", X[:, 1].round(3).astype(str))
    frame["label"] = np.where(X[:, 0] + 0.5 * rng.standard_normal(60) > 0, "yes", "no")
    frame.loc[[3, 7], "b"] = np.nan
    frame.loc[9, "kind"] = None
    frame.to_csv(folder / "mixed.csv")
    return folder / "mixed.csv"


def test_columns_that_mislead_are_named_and_others_encoded_and_filled(mixed, monkeypatch):
    monkeypatch.setattr("polyceptron.report.data.measuring.N_SIZES", 2)
    table = read_samples(mixed, "label", missing="fill")
    assert table.left_out == {
        "Unnamed: 0": "it numbers the rows",
        "day": "dates",
        "who": "text of 60 values",
        "length": "text in 3 of 60 rows, 'unknown' in data row 6",
    }
    assert (list(table.X), table.categories) == (["a", "b", "kind"], ("kind",))
    assert table.filled == {"b": 2, "kind": 1}
    made = table.encoder().fit_transform(table.X[:30])
    assert list(made) == ["a", "b", "kind_small"]
    assert made["b"][3] == pytest.approx(table.X["b"][:30].median())  # of these rows alone
    kept = read_samples(mixed, "label", keep=["day", "Unnamed: 0"], missing="drop-rows")
    assert (kept.dropped_rows, len(kept.y)) == (3, 57)
    assert np.diff(kept.X["day"]).min() == 1 == np.diff(kept.X["Unnamed: 0"]).min()
    v = measure(table).numbers
    assert (v["n"], v["d"], v["encoded"], v["filled"]) == (60, 3, "kind", "b (2), kind (1)")
    assert 0 < v["noise_floor"] < v["error"] < 0.4


def test_the_command_writes_page_and_numbers(folder, monkeypatch, measured):
    monkeypatch.setattr("polyceptron.report.data.report.measure", lambda table, **options: measured)
    monkeypatch.setattr("polyceptron.report.data.page.draw", lambda measured: [])
    page = folder / "iris.html"
    result = CliRunner().invoke(
        app, ["data", str(folder / "iris.csv"), "--target", "target", "--html", str(page)]
    )
    assert result.exit_code == 0, result.output
    assert "150 samples of 4 features in 3 classes" in result.stdout
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    report = json.loads((folder / "iris.report.json").read_text(encoding="utf-8"))
    assert report["numbers"]["n"] == 150


def test_a_power_law_is_found_and_its_band_holds_it():
    n = np.array([30.0, 60, 120, 240, 480, 960])
    rate = 0.05 + 1.5 * n**-0.8
    law = forecast(n, np.tile(rate[:, None], 5), 1e-6, 1000)
    assert law(5000.0) == pytest.approx(0.05 + 1.5 * 5000**-0.8, abs=2e-3)
    inside = 0
    for seed in range(8):  # errors of 600 samples at known rates
        rng = np.random.default_rng(seed)
        wrong = (rng.random(600) < rate[:, None]).astype(float)
        low, high = forecast(n, wrong, 0.5 / 600, 1200).band(1920.0)
        inside += low <= 0.05 + 1.5 * 1920**-0.8 <= high
    assert inside >= 5


def test_a_curve_without_errors_has_a_forecast():
    law = forecast(np.array([10.0, 20.0, 40.0]), np.zeros((3, 50)), 0.01, 50)
    low, high = law.band(80.0)
    assert law(80.0) == low == pytest.approx(0, abs=1e-12)
    assert 0.5 / 50 < high < 3 / 50  # at 3/50 no mistake would be seen in 1 of 20 cases


def test_laws_through_few_samples_are_held_back():
    """The forecast of few samples falls by about a third of the exponent, of many by all of it."""
    n = np.array([10.0, 16, 26, 42, 67, 108])
    rate = 2.0 * n**-0.5
    rng = np.random.default_rng(0)
    falls = []
    for _ in range(20):
        wrong = (rng.random((6, 100)) < rate[:, None]).astype(float)
        law = forecast(n, wrong, 0.5 / 100, 135)
        low, high = law.band(1080)
        assert low <= law(1080) < high
        falls.append(np.log(law(108) / law(1080)) / np.log(10))
    assert np.mean(falls) == pytest.approx(0.35 * 0.5, rel=0.25)
    exact = forecast(n, np.tile(rate[:, None], 100), 1e-6, 135)
    assert np.log(exact(108) / exact(1080)) / np.log(10) == pytest.approx(0.5, rel=0.02)


def test_a_band_is_no_narrower_than_the_interval_of_the_error():
    """Of N held-out samples, whose fits share their training samples."""
    rng = np.random.default_rng(1)
    wrong = (rng.random(200) < 0.2) * np.ones((5, 1))
    law = forecast(np.geomspace(20, 160, 5), wrong, 0.5 / 200, 200)
    p = wrong[0].mean()
    low, high = law.band(400.0)
    half = 1.645 * (p * (1 - p) / 200) ** 0.5 * (1 + 200 / 160) ** 0.5
    assert low < p - 0.9 * half < p + half < high


def test_forecasts_of_a_teacher_reach_what_twice_the_data_bring(tmp_path):
    """The error at 2n is measured on fresh samples of the same teacher."""
    teacher = Teacher(2, noise="flips:0.1")
    X, y, W = teacher.sample(300, 20, seed=5)
    frame = pd.DataFrame(X).assign(label=y)
    frame.to_csv(tmp_path / "teacher.csv", index=False)
    v = measure(read_samples(tmp_path / "teacher.csv", "label")).numbers
    assert v["separable"] is False
    assert v["loud_directions"] <= 2
    from polyceptron.fit.erm_classifier import ERMClassifier

    rng = np.random.default_rng(6)
    errors = []
    for _ in range(5):
        A = rng.standard_normal((600, 20))
        fit = ERMClassifier(ridge=v["ridge"]).fit(A, teacher.noise.sample(A @ W / 20**0.5, rng))
        B = rng.standard_normal((4000, 20))
        errors.append(np.mean(fit.predict(B) != teacher.noise.sample(B @ W / 20**0.5, rng)))
    assert v["error_double_low"] - 0.02 <= np.mean(errors) <= v["error_double_high"] + 0.02


def test_a_table_is_fitted_at_the_shell_with_a_ridge_that_is_chosen(mixed, tmp_path):
    from polyceptron.fit.erm_classifier import ERMClassifier

    out, run = tmp_path / "w.npy", CliRunner().invoke
    common = ["--missing", "fill", "--ridge", "auto", "--out", str(out)]
    result = run(app, ["fit", "--data", str(mixed), "--target", "label", *common])
    assert result.exit_code == 0, result.output
    report = json.loads(out.with_suffix(".report.json").read_text(encoding="utf-8"))
    assert (report["classes"], report["features"]) == (["no", "yes"], ["a", "b", "kind_small"])
    table = read_samples(mixed, "label", missing="fill")
    X = table.encoder().fit_transform(table.X)
    model = ERMClassifier(scaling="standard").fit(X, table.y)
    assert report["ridge"] == model.ridge_
    fields = X.to_numpy() @ np.load(out) / np.sqrt(3) + report["offset"]
    assert fields[:, 1] - fields[:, 0] == pytest.approx(model.decision_function(X))
    np.save(tmp_path / "X.npy", np.ascontiguousarray(X))
    np.save(tmp_path / "y.npy", table.y.astype(str))
    files = ["--data", str(tmp_path / "X.npy"), "--labels", str(tmp_path / "y.npy")]
    for ridge in ("auto", "0.5"):
        result = run(app, ["fit", *files, "--ridge", ridge, "--out", str(out)])
        assert result.exit_code == 0, result.output
        report = json.loads(out.with_suffix(".report.json").read_text(encoding="utf-8"))
        assert report["classes"] == ["no", "yes"]
    for wrong in (["--ridge", "auto"], ["--ridge", "0.1,0.2"]):
        result = run(app, ["fit", *files[:2], *wrong, "--out", str(out)])
        assert isinstance(result.exception, InvalidInput)


@pytest.fixture(scope="module")
def written():
    """Numbers as people write them, with holes, and the values that they stand for."""
    rng = np.random.default_rng(3)
    amount = rng.integers(1000, 9_999_999, 60)
    share = rng.random(60).round(3)
    dash = rng.standard_normal(60).round(2)
    frame = pd.DataFrame(
        {
            "amount": [f"${value:,}" for value in amount],
            "share": [f"{100 * value:.1f} %" for value in share],
            "dash": [str(value) for value in dash],
            "kind": rng.choice(["+", "-"], 60),
            "label": ["yes", "no", "perhaps"] * 20,
            "price": [f"{value / 100:.2f} €" for value in amount],
        }
    )
    frame.loc[[4, 9], "dash"] = "-"
    frame.loc[0, "price"] = "?"
    frame.loc[5, "kind"] = "?"
    return frame, amount, share, dash


@pytest.mark.parametrize(
    ("name", "separator", "encoding", "read_as"),
    [
        ("a.csv", ",", "utf-8", ""),
        ("a.csv", ",", "cp1252", "letters in Latin-1 of Windows"),
        ("a.txt", "\t", "utf-16", "columns separated by tabs and letters in UTF-16"),
        ("a.csv.gz", ",", "utf-8", ""),
        ("a.tsv", "\t", "utf-8", "columns separated by tabs"),
        ("a.txt", "\t", "utf-8", "columns separated by tabs"),
        ("a.csv", "\t", "utf-8", "columns separated by tabs"),
        ("a.csv", ";", "latin-1", "columns separated by semicolons and letters in Latin-1"),
        ("a.csv", "|", "utf-8", "columns separated by vertical bars"),
    ],
)
def test_texts_as_people_have_them(tmp_path, written, name, separator, encoding, read_as):
    frame, amount, share, dash = written
    if encoding == "latin-1":  # it has no euro sign
        frame = frame.rename(columns={"amount": "größe"}).replace({"price": " €"}, "£", regex=True)
    frame.to_csv(tmp_path / name, sep=separator, encoding=encoding, index=False)
    table = read_samples(tmp_path / name, "label", missing="fill")
    assert table.read_as == read_as
    first = table.X.iloc[:, 0].to_numpy()
    np.testing.assert_allclose(first, amount)
    np.testing.assert_allclose(table.X["share"], 100 * share, atol=0.05)
    holes = table.X["dash"].isna().to_numpy()
    assert np.flatnonzero(holes).tolist() == [4, 9]
    np.testing.assert_allclose(table.X["dash"][~holes], dash[~holes])
    assert table.categories == ("kind",)  # "-" is a sign here, not a hole
    assert set(table.X["kind"].dropna()) == {"+", "-"}
    np.testing.assert_allclose(table.X["price"][1:], amount[1:] / 100)
    assert table.filled == {"dash": 2, "kind": 1, "price": 1}
    assert re.fullmatch(r"'[\d.]+ %' as a number", table.understood["share"])
    assert table.understood["dash"] == "'-' as missing"
    assert table.understood["kind"] == "'?' as missing"
    assert re.fullmatch(r"'[\d.]+ ?[€£]' as a number, '\?' as missing", table.understood["price"])


def test_letters_that_are_not_utf_8_late_in_a_file(tmp_path):
    """Only the beginning of a file is looked at to find its encoding."""
    words = np.array(["red"] * 29_996 + ["grün"] * 4)
    frame = pd.DataFrame({"colour": words, "label": np.arange(30_000) % 2})
    frame.to_csv(tmp_path / "late.csv", index=False, encoding="latin-1")
    table = read_samples(tmp_path / "late.csv", "label")
    assert table.X["colour"].iloc[-1] == "grün"
    assert table.read_as == "letters in Latin-1"


def test_spreadsheets_and_feather_hold_the_same(tmp_path, written):
    frame, amount, _, _ = written
    pytest.importorskip("openpyxl")
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    np.testing.assert_allclose(
        read_samples(tmp_path / "a.xlsx", "label", missing="fill").X["amount"], amount
    )
    (tmp_path / "broken.xlsx").write_bytes(b"PK nothing of the kind")
    with pytest.raises(InvalidInput, match=r"cannot read 'broken\.xlsx' as a spreadsheet"):
        read_samples(tmp_path / "broken.xlsx", "label")


def test_feather_holds_the_same(tmp_path, written):
    frame, amount, _, _ = written
    pytest.importorskip("pyarrow")
    frame.to_feather(tmp_path / "a.feather")
    np.testing.assert_allclose(
        read_samples(tmp_path / "a.feather", "label", missing="fill").X["amount"], amount
    )


def test_an_index_with_gaps_is_left_out(written):
    frame, *_ = written
    kept = frame.drop(index=[3, 17, 40]).reset_index()
    table = read_samples(kept, "label", missing="fill")
    assert table.left_out == {"index": "it numbers the rows"}
    shuffled = kept.sample(frac=1, random_state=0)
    assert read_samples(shuffled, "label", missing="fill").left_out == table.left_out
    renamed = kept.rename(columns={"index": "height"})
    assert "height" in read_samples(renamed, "label", missing="fill").X


def test_a_number_to_predict_is_refused_at_once(written):
    frame, *_ = written
    ages = frame.assign(label=np.arange(60) % 45 + 20)
    with pytest.raises(InvalidInput, match="'label' has 45 different values in 60 rows: that is"):
        read_samples(ages, "label", missing="fill")
    repeated = pd.concat([ages] * 4, ignore_index=True)
    kept = read_samples(repeated, "label", missing="fill", keep=["label"])
    assert np.unique(kept.y).size == 45


def test_alarms_name_columns_and_rows():
    rng = np.random.default_rng(1)
    y = np.repeat(["a", "b", "c"], [60, 56, 4])
    clean = pd.DataFrame(rng.standard_normal((120, 3)), columns=["x", "z", "w"]).assign(y=y)
    assert [alarm.kind for alarm in find_alarms(read_samples(clean, "y"))] == ["rare"]
    leak = clean.assign(code=np.select([y == "a", y == "b"], [7, 3], 1) + 0.01 * rng.random(120))
    wild = leak.assign(w=np.where(np.arange(120) == 11, 1e9, leak["w"]))
    copied = pd.concat([wild, wild.iloc[:30]], ignore_index=True)
    alarms = {alarm.kind: alarm.text for alarm in find_alarms(read_samples(copied, "y"))}
    assert set(alarms) == {"leak", "copies", "wild", "rare"}
    assert alarms["leak"].startswith("code alone decides the label 'y'")
    assert alarms["copies"].startswith("30 of 150 rows have the same features")
    assert "w (1e+09 in data row 12)" in alarms["wild"]
    assert "c (4)" in alarms["rare"]


def test_a_wild_value_among_zeros_is_an_alarm_and_rare_ones_are_not():
    rng = np.random.default_rng(2)
    row = np.arange(120)
    table = pd.DataFrame(
        {
            "wild": np.where(row == 3, 1e9, 0.0),
            "flag": (row % 40 == 0).astype(float),
            "amount": np.where(row % 10 == 0, 1000.0 + row, 0.0),
            "z": rng.standard_normal(120),
            "y": np.repeat(["a", "b"], 60),
        }
    )
    (alarm,) = find_alarms(read_samples(table, "y"))
    assert alarm.kind == "wild"
    assert alarm.text.startswith("Wild values: wild (1e+09 in data row 4);")


def test_noise_alone_never_looks_like_a_leak():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        noise = pd.DataFrame(rng.standard_normal((80, 30)))
        table = read_samples(noise.assign(y=rng.choice(["a", "b"], 80)), "y")
        assert find_alarms(table, seed) == []


def test_the_report_of_python_is_that_of_the_shell(folder, measured, tmp_path, monkeypatch):
    monkeypatch.setattr("polyceptron.report.data.measuring.N_SIZES", 4)
    frame = pd.read_csv(folder / "iris.csv")
    report = data_report(frame, "target")
    assert report.numbers["error"] == measured.numbers["error"]
    assert len(report.headline) == 3
    assert report.frames["classes"]["samples"].tolist() == [50, 50, 50]
    assert str(report) == report_text(report.measured)
    page = report.to_html(tmp_path / "iris.html")
    assert (tmp_path / "iris.html").read_text(encoding="utf-8") == page
    assert report._repr_html_() in page
    assert json.loads(report.to_json())["numbers"]["n"] == 150
    assert page.index("In short") < page.index("How well it predicts") < page.index("Theory")


def test_rivals_are_measured_on_the_same_folds(measured):
    rivals = {row["classifier"]: row for row in measured.tables["rivals"]}
    assert rivals["ridge cross-entropy"]["error"] == measured.numbers["error"]
    assert rivals["the largest class"]["error"] == pytest.approx(2 / 3)
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(random_state=0)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    expected = 1 - cross_val_score(forest, X, y, cv=folds).mean()
    assert rivals["random forest"]["error"] == pytest.approx(expected, abs=0.02)


def test_alarms_stand_before_every_number(measured):
    alarmed = Measured(
        measured.source,
        measured.numbers,
        {**measured.tables, "alarms": [{"kind": "leak", "text": "x alone decides the label."}]},
    )
    report = DataReport(alarmed)
    assert report.alarms == ("x alone decides the label.",)
    assert report.headline[2].startswith("Distrust the numbers until the alarms")
    assert str(report).index("Look at this first") < str(report).index("The data")


def test_a_ridge_that_is_next_to_none_is_an_alarm(monkeypatch):
    (alarm,) = no_ridge_alarm(1e8)
    assert alarm.text.startswith("Almost no ridge is wanted (C = 1e+08")
    assert no_ridge_alarm(1.0) == []
    monkeypatch.setattr("polyceptron.report.data.alarms.LARGE_C", 1e-3)
    rng = np.random.default_rng(4)
    y = np.arange(120) % 2
    frame = pd.DataFrame(rng.standard_normal((120, 2)) + y[:, None]).assign(label=y)
    steps = _Measurement(read_samples(frame, "label"), 0, lambda text: None)
    steps.look_at_columns()
    steps.encode()
    steps.choose_ridge()
    assert [alarm["kind"] for alarm in steps.tables["alarms"]] == ["no ridge"]


def test_blanks_around_text_make_no_class_of_their_own(tmp_path):
    rows = ["x,kind,y"]
    for i in range(40):
        label = ["van", "van ", " bus", "bus"][i % 4]
        rows.append(f"{i % 7},{'red ' if i % 3 else 'red'},{label}")
        rows.append(f"{i % 5},blue,{label}")
    (tmp_path / "blanks.csv").write_text("\n".join(rows))
    table = read_samples(tmp_path / "blanks.csv", "y")
    assert set(table.y) == {"van", "bus"}
    assert set(table.X["kind"]) == {"red", "blue"}


def test_rows_without_a_label_are_dropped_where_that_is_asked_for():
    frame = pd.DataFrame({"x": np.arange(30) % 7, "y": ["a", "b", None] * 10})
    with pytest.raises(InvalidInput, match=r"10 missing values.*or give --missing drop-rows"):
        read_samples(frame, "y")
    table = read_samples(frame, "y", missing="drop-rows")
    assert (table.dropped_rows, table.y.size) == (10, 20)


def test_a_category_is_one_test_and_what_matters_comes_first():
    rng = np.random.default_rng(3)
    n = 400
    twin = rng.standard_normal(n)
    frame = pd.DataFrame(
        {
            "strong": rng.standard_normal(n),
            "twin": twin,
            "other twin": twin + 0.01 * rng.standard_normal(n),
            "kind": rng.choice(list("pqrstu"), n),
        }
    )
    frame["y"] = np.where(frame["strong"] + 0.3 * rng.logistic(size=n) > 0, "yes", "no")
    steps = _Measurement(read_samples(frame, "y"), 0, lambda text: None)
    steps.look_at_columns()
    steps.encode()
    steps.choose_ridge()
    features = {row["feature"]: row for row in steps.tables["features"]}
    assert list(features) == ["strong", "twin", "other twin", "kind"]
    assert features["kind"]["degrees_of_freedom"] == 5
    assert steps.numbers["features_tested"] == 4
    weights = steps.tables["weights"]
    assert weights[0]["feature"] == "strong"
    of_kind = [row["q_value"] for row in weights if row["feature"].startswith("kind_")]
    assert set(of_kind) == {features["kind"]["q_value"]}


def test_more_data_are_advised_where_they_change_more_than_is_known(measured):
    little = measured.numbers | {"alarms": 0, "error_now": 0.10, "error_se": 0.01}
    for tenfold, advice in ((0.095, "next_features"), (0.05, "next_more_data")):
        ahead = little | {"error_tenfold": tenfold, "error_tenfold_low": 0.0}
        chosen = choices(ahead | {"best_rival_error": 0.2, "error": 0.1})
        assert chosen[advice]
