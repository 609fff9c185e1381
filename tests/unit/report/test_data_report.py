"""A user's table: every sentence from a number, a page that needs nothing else, bad files."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from polyceptron.cli import app
from polyceptron.errors import InvalidInput
from polyceptron.model import Teacher
from polyceptron.report.data.measure import measure, read_samples
from polyceptron.report.data.page import report_html, report_json, report_text, sentences
from polyceptron.report.measured_curve import fit_power_law


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
    return measure(read_samples(folder / "iris.csv", "target"))


def test_numbers_of_iris(measured):
    v = measured.numbers
    assert (v["n"], v["d"], v["k"], v["constant_features"]) == (150, 4, 3, 1)
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
    assert best["score"] == v["log_loss"]


@pytest.mark.slow
def test_every_number_of_a_sentence_is_in_the_json(measured):
    """Figures that a reader sees are those of the numbers named, and change with them."""
    stored = json.loads(report_json(measured))
    for sentence in stored["sentences"]:
        assert sentence["numbers"]
        values = [stored["numbers"][name] for name in sentence["numbers"]]
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
            assert figure in shown or figure in ("0", "1", "9", "10"), (figure, sentence["text"])
    changed = {**measured.numbers, "n": 149}
    other = sentences(type(measured)(measured.source, changed, measured.tables))
    assert "149 samples" in other[0].text


@pytest.mark.slow
def test_the_page_needs_nothing_else_and_the_text_fits(measured):
    page = report_html(measured)
    assert page.count("<svg") == 4
    assert not re.search(r"https?:|//[a-z]|<script|@import|<link", page)
    names = re.findall(r'id="([^"]+)"', page)
    assert len(names) == len(set(names))
    assert max(map(len, report_text(measured).splitlines())) <= 80
    for sentence in sentences(measured):
        assert sentence.section in report_text(measured)


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
        "text": (good.assign(city="Rome"), "target", r"'city' holds text such as 'Rome'.*--drop"),
        "missing values": (holes, "target", rf"{re.escape(repr(first))} has 2 missing.*row 5"),
        "missing labels": (good.assign(target=["a", None, "b"] * 50), "target", "50 missing"),
        "a number": (good.assign(target=np.linspace(0, 1, 150)), "target", "a number to predict"),
        "infinite": (good.assign(x=[np.inf] * 150), "target", "infinite in data row 1"),
        "rare class": (good.assign(target=["z"] + ["a", "b", "c"] * 49 + ["a", "b"]), "target",
                       "class 'z' of 'target' has 1 sample"),
        "no rows": (good.iloc[:0], "target", "has no rows"),
        "no features": (good[["target"]], "target", "there are no features"),
    }  # fmt: skip


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
        ("table.xlsx", b"", "ends in .csv"),
        ("broken.parquet", b"PAR1", "as Parquet|needs pyarrow"),
    ):
        (folder / name).write_bytes(content)
        with pytest.raises(InvalidInput, match=message):
            read_samples(folder / name, "target")
    with pytest.raises(InvalidInput, match="there is no table"):
        read_samples(folder / "nowhere.csv", "target")


def test_all_features_constant_is_a_sentence(folder):
    frame = pd.DataFrame({"x": np.ones(20), "y": [0, 1] * 10})
    frame.to_csv(folder / "flat.csv", index=False)
    with pytest.raises(InvalidInput, match="every feature is constant"):
        measure(read_samples(folder / "flat.csv", "y"))


def test_the_command_writes_page_and_numbers(folder, monkeypatch, measured):
    monkeypatch.setattr(
        "polyceptron.report.data.measure.measure", lambda table, **options: measured
    )
    page = folder / "iris.html"
    result = CliRunner().invoke(
        app, ["data", str(folder / "iris.csv"), "--target", "target", "--html", str(page)]
    )
    assert result.exit_code == 0, result.output
    assert "150 samples of 4 features in 3 classes" in result.stdout
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert json.loads((folder / "iris.json").read_text(encoding="utf-8"))["numbers"]["n"] == 150


def test_a_power_law_is_found_and_its_band_holds_it():
    n = np.array([30.0, 60, 120, 240, 480])
    rate = 0.05 + 1.5 * n**-0.8
    law = fit_power_law(n, np.tile(rate[:, None], 5), 1e-6)
    assert law(5000.0) == pytest.approx(0.05 + 1.5 * 5000**-0.8, abs=2e-3)
    inside = 0
    for seed in range(20):  # errors of 600 samples at known rates
        rng = np.random.default_rng(seed)
        wrong = (rng.random(600) < rate[:, None]).astype(float)
        low, high = fit_power_law(n, wrong, 0.5 / 600, seed).band(960.0)
        inside += low <= 0.05 + 1.5 * 960**-0.8 <= high
    assert inside >= 14


def test_a_curve_without_errors_has_a_forecast():
    law = fit_power_law(np.array([10.0, 20.0, 40.0]), np.zeros((3, 50)), 0.01)
    low, high = law.band(80.0)
    assert law(80.0) == low == high == 0
    assert np.isfinite(law.b)


@pytest.mark.slow
def test_forecasts_of_a_teacher_reach_what_twice_the_data_bring(tmp_path):
    """The error at 2n is measured on fresh samples of the same teacher."""
    teacher = Teacher(2, noise="flips:0.1")
    X, y, W = teacher.sample(300, 20, seed=5)
    frame = pd.DataFrame(X).assign(label=y)
    frame.to_csv(tmp_path / "teacher.csv", index=False)
    v = measure(read_samples(tmp_path / "teacher.csv", "label")).numbers
    assert v["separable"] is False
    assert v["loud_directions"] <= 2
    from polyceptron.algorithms.erm_classifier import ERMClassifier

    rng = np.random.default_rng(6)
    errors = []
    for _ in range(5):
        A = rng.standard_normal((600, 20))
        fit = ERMClassifier(ridge=v["ridge"]).fit(A, teacher.noise.sample(A @ W / 20**0.5, rng))
        B = rng.standard_normal((4000, 20))
        errors.append(np.mean(fit.predict(B) != teacher.noise.sample(B @ W / 20**0.5, rng)))
    assert v["error_double_low"] - 0.02 <= np.mean(errors) <= v["error_double_high"] + 0.02
