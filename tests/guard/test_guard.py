"""The numbers of the public interface are those that were frozen, within their error bars.

`frozen.csv` is made by `python tools/guard.py freeze tests/guard/frozen.csv`. A change that is
meant to change numbers freezes the table again and says which cases changed and why.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import guard
from guard_cases import CLASSES, SHARES, cases
from polyceptron.problem import CHANNELS, ESTIMATORS, FEATURES, LOSSES, PENALTIES, PRIORS

FROZEN = guard.read_frozen(Path(__file__).with_name("frozen.csv"))  # compared in test_*_third.py
EXAMPLE = "learning_curve(Teacher(2), ERM('cross-entropy', 0.1), 2)"

# Members that are meant where a case names none, such as independent features.
DEFAULTS = ("gaussian", "none", "isotropic", "ridge")


def test_frozen_cases_are_those_of_the_design() -> None:
    assert FROZEN.keys() <= set(cases())
    assert len(FROZEN) > 500


@pytest.mark.parametrize(
    "registry", [CHANNELS, ESTIMATORS, FEATURES, LOSSES, PENALTIES, PRIORS], ids=lambda r: r.kind
)
@pytest.mark.parametrize("k", CLASSES)
def test_every_registered_member_is_frozen(registry, k: int) -> None:
    """Also those that are registered later: they need a line in `guard_cases.py`."""
    of_k_classes = [case for case in FROZEN if f"Teacher({k}" in case or SHARES[k] in case]
    written = "\n".join(of_k_classes)
    spelling = {
        "one-vs-rest": "OneVsRest",
        "lda": "DiscriminantAnalysis",
        "sgd": "SGD",
        "mismatched-bayes": "MismatchedBayes",
    }
    missing = [
        name
        for name in registry.names
        if name not in DEFAULTS and spelling.get(name, name) not in written
    ]
    assert not missing


def test_an_answer_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    answer = guard.ask(EXAMPLE)
    path = tmp_path / "table.csv"
    with path.open("w", encoding="utf-8") as file:
        guard.write_table(file, [answer])
    (again,) = guard.read_frozen(path).values()
    assert guard.changes(answer, again) == []
    assert [quantity.value for quantity in again.quantities] == [
        quantity.value for quantity in answer.quantities
    ]


# Controls: what the guard must see.


def with_first_quantity(answer: guard.Answer, **changed: float) -> guard.Answer:
    """Return the answer with another value or bar of its first number."""
    first, *others = answer.quantities
    return replace(answer, quantities=(replace(first, **changed), *others))


def kinds_of_change(answer: guard.Answer) -> list[str]:
    """Return what the guard says has changed from the frozen example."""
    return [change.what for change in guard.changes(FROZEN[EXAMPLE], answer)]


def test_a_value_beyond_both_bars_is_a_change() -> None:
    frozen = FROZEN[EXAMPLE]
    first = frozen.quantities[0]
    within = with_first_quantity(frozen, value=first.value + 1.9 * first.bar)
    beyond = with_first_quantity(frozen, value=first.value + 2.1 * first.bar + 2 * guard.ROUNDING)
    assert kinds_of_change(within) == []
    assert kinds_of_change(beyond) == ["value"]


def test_a_number_that_is_no_longer_finite_is_a_change() -> None:
    lost = with_first_quantity(FROZEN[EXAMPLE], value=float("nan"))
    assert kinds_of_change(lost) == ["value"]


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_bar_that_is_longer_or_shorter_is_a_change(factor: float) -> None:
    case = "learning_curve(Teacher(10), ERM('hinge', 0.1), 2)"
    frozen = FROZEN[case]
    other = with_first_quantity(frozen, bar=factor * frozen.quantities[0].bar)
    assert [change.what for change in guard.changes(frozen, other)] == ["bar"]


def test_another_status_and_a_missing_number_are_changes() -> None:
    frozen = FROZEN[EXAMPLE]
    assert kinds_of_change(replace(frozen, status="tolerance-not-met")) == ["status"]
    assert kinds_of_change(replace(frozen, quantities=frozen.quantities[1:])) == [
        "names of numbers"
    ]


def test_a_refusal_and_a_crash_are_answers() -> None:
    assert guard.ask("learning_curve(Teacher(1), 'bayes', 2)").status == guard.REFUSED
    assert guard.ask("learning_curve(Teacher(2), 'bayes', 1 / 0)").status.startswith(guard.CRASHED)


def test_slower_means_by_a_quarter_and_long_enough_to_measure() -> None:
    assert guard.Timing(EXAMPLE, old=0.1, new=0.13).slower
    assert not guard.Timing(EXAMPLE, old=0.1, new=0.12).slower
    assert not guard.Timing(EXAMPLE, old=0.005, new=0.015).slower
