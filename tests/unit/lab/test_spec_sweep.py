"""The sweep file: what is read, and errors that name the line and the field."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyceptron.errors import InvalidInput
from polyceptron.lab.spec import field_line, load_spec, parse_spec
from polyceptron.lab.sweep import run_sweep
from polyceptron.problem import make_teacher

GOOD = {
    "model": '"argmax"',
    "classes": "[3]",
    "prior": '["gaussian"]',
    "sources": '["theory", "erm"]',
    "estimators": '["cross-entropy", "square"]',
    "ridge": "[0.01, 1.0]",
    "alpha": "[1, 2, 5]",
    "dimension": "[1000]",
    "instances": "20",
}


def text(**changes: str | None) -> str:
    fields = {k: v for k, v in {**GOOD, **changes}.items() if v is not None}
    return "[sweep]\nname = 'x'\n[[grid]]\n" + "".join(f"{k} = {v}\n" for k, v in fields.items())


def test_the_example_of_the_manual() -> None:
    grid = parse_spec(text()).grid[0]
    assert grid.model == ["argmax"]
    assert grid.alpha == [1.0, 2.0, 5.0]
    assert grid.instances == 20


def test_ranges() -> None:
    assert parse_spec(text(alpha='"0.5:5:10"')).grid[0].alpha == pytest.approx(
        [0.5 * i for i in range(1, 11)]
    )
    ridges = parse_spec(text(ridge='"0.01:100:5:log"')).grid[0].ridge
    assert ridges == pytest.approx([0.01, 0.1, 1, 10, 100], rel=1e-12)


def test_a_finite_prior_reads_back_exactly() -> None:
    table = "[{values = [-3, 0, 1], probabilities = [0.1, 0.6, 0.3]}]"
    (name,) = parse_spec(text(prior=table)).grid[0].prior
    prior = make_teacher("argmax", 3, name).prior
    assert prior.values == pytest.approx([v / 1.2**0.5 for v in (-3, 0, 1)], rel=1e-15)
    assert prior.probabilities == (0.1, 0.6, 0.3)
    assert parse_spec(text(prior=f'"{name}"')).grid[0].prior == [name]


WRONG = [
    ({"alpha": "[1, -2]"}, "alpha", r"alpha\[2\]: .*greater than 0, got -2"),
    ({"alpha": '"5:1:3"'}, "alpha", "alpha: a range must go upwards"),
    ({"alpha": "[1, 1]"}, "alpha", "repeated: 1.0"),
    ({"alpha": "[nan]"}, "alpha", "finite"),
    ({"alpha": '["1"]'}, "alpha", r"alpha\[1\]: .*number, got '1'"),
    ({"classes": "[1]"}, "classes", "greater than or equal to 2, got 1"),
    ({"prior": '"cauchy"'}, "prior", "unknown prior 'cauchy'"),
    ({"sources": '["theorie"]'}, "sources", "'theory', 'amp' or 'erm', got 'theorie'"),
    ({"instances": "0"}, "instances", "greater than or equal to 1, got 0"),
    ({"dimension": "[10.5]"}, "dimension", "integer, got 10.5"),
    ({"instances": "true"}, "instances", "integer, got True"),
    ({"colour": "3"}, "colour", "unknown field; allowed are model, classes"),
]


@pytest.mark.parametrize(("change", "field", "sentence"), WRONG)
def test_an_error_names_line_and_field(change: dict[str, str], field: str, sentence: str) -> None:
    wrong = text(**change)
    line = next(i for i, row in enumerate(wrong.splitlines(), 1) if row.startswith(field))
    with pytest.raises(InvalidInput, match=rf"^sweep, line {line}, grid\[1\]\.{field}.*") as caught:
        parse_spec(wrong)
    caught.match(sentence)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"dimension": None}, "need dimension"),
        ({"estimators": '"bayes"'}, "'erm' computes one of the estimators cross"),
        ({"sources": '"amp"'}, "'amp' computes one of the estimators bayes"),
        ({"model": '"perceptron"'}, r"'perceptron' has classes = \[2\], got \[3\]"),
        ({"alpha": "[0.0001]"}, "leaves no sample"),
        ({"sources": None}, "grid.1..sources: this field is required"),
    ],
)
def test_fields_that_do_not_fit_together(change: dict[str, str | None], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=rf"line 3, .*{sentence}"):
        parse_spec(text(**change))


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("shares = [0.5, 0.5]\nseparation = 2.0", "the model 'argmax' takes no separation"),
        ('model = "mixture"\nshares = [0.5, 0.5]\nbiases = [0, 1]', "'mixture' takes no biases"),
        ('model = "mixture"\nseparation = 2.0', "a mixture needs shares"),
        ("shares = 0.7", "shares must be"),
        ("shares = [0.7, 0.7]", "shares"),
    ],
)
def test_populations_that_do_not_fit_together(lines: str, sentence: str) -> None:
    grid = '[[grid]]\nsources = "theory"\nestimators = "square"\nalpha = 1\n'
    with pytest.raises(InvalidInput, match=rf"^sweep, line 1, population: .*{sentence}"):
        parse_spec(f"[population]\n{lines}\n{grid}")


def test_all_errors_come_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_spec(text(alpha="[-1]", instances="0"))
    assert len(str(caught.value).splitlines()) == 2


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"read the sweep file .*: there is no such file"):
        load_spec(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'")
    with pytest.raises(InvalidInput, match="cannot read"):
        load_spec(tmp_path / "latin.toml")
    (tmp_path / "bad.toml").write_text("[sweep]\nname = \n")
    with pytest.raises(InvalidInput, match=r"bad.toml is not valid TOML: .*line 2"):
        load_spec(tmp_path / "bad.toml")
    with pytest.raises(InvalidInput, match="cannot read"):
        load_spec(tmp_path)


HOSTILE = {
    "nested arrays": ({"alpha": "[" * 900 + "1" + "]" * 900}, "nested too deeply"),
    "nested tables": ({"prior": "{a = " * 900 + "1" + "}" * 900}, "nested too deeply"),
    "a long integer": ({"alpha": "9" * 5001}, "more digits than can be read"),
    "a large integer": ({"alpha": "9" * 4000}, r"alpha\[1\]: .*valid number"),
    "a long integer in base 16": ({"instances": "0x" + "f" * 6000}, "value too long to show"),
    "many classes": (
        {"classes": "0x" + "f" * 6000},
        "less than or equal to 1000, got a value too long",
    ),
    "an infinite sample": ({"alpha": "1e300"}, "too much in these dimensions"),
    "a large prior": (
        {"prior": "{values = [0x" + "f" * 6000 + ", 1], probabilities = [0.5, 0.5]}"},
        "too large",
    ),
    "a long range": ({"alpha": f'"1:2:{"9" * 5001}"'}, "takes numbers such as"),
    "many mistakes": ({"alpha": str([-1] * 50_000)}, "and 49980 more"),
    "many rows": ({"instances": "1000000000"}, "24,000,000,000 combinations; it may have up to"),
}


@pytest.mark.parametrize(("change", "sentence"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_numbers_end_in_a_short_sentence(change: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as caught:
        parse_spec(text(**change))
    lines = str(caught.value).splitlines()
    assert len(lines) <= 21
    assert all(len(line) < 500 for line in lines)


VALUES = st.sampled_from(["1", '"a = [b"', "[1,\n 2,\n 3]", "[[1, 2],\n [3, 4]]", "true  # c = ["])


@given(st.lists(VALUES, min_size=1, max_size=8), st.integers(0, 3))
def test_lines_are_right_whatever_stands_around(values: list[str], blank: int) -> None:
    lines, expected = ["# top = 1", "[a]"], {}
    for i, value in enumerate(values):
        lines += ["[[grid]]"] + [""] * blank + [f"key = {value}"]
        expected[i] = "\n".join(lines).count("\n") - value.count("\n") + 1
    text = "\n".join(lines)
    assert {i: field_line(text, ("grid", i, "key", 1)) for i in expected} == expected
    assert field_line(text, ("grid", 0, "none")) == 3
    assert field_line(text, ("a", "key")) == 2
    assert field_line(text, ("none", "key")) is None


def test_a_wrong_number_of_processors_in_the_environment_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended in a traceback of the library that starts the workers."""
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "many")
    spec = parse_spec('[[grid]]\nsources = "theory"\nestimators = "square"\nalpha = 1')
    with pytest.raises(InvalidInput, match=r"LOKY_MAX_CPU_COUNT .* got 'many'"):
        run_sweep(spec, tmp_path / "runs.sqlite")
