"""The sentences of a report: templates of numbers, so that each number can be traced.

`sentences.toml` has them under their headings. A sentence names the numbers that stand in it and
those that chose it.
"""

import math
import tomllib
from importlib.resources import files
from string import Formatter
from typing import NamedTuple

from polyceptron.report.data.measuring import Measured, Numbers

ALARMS = "Look at this first"
SUMMARY = "In short"
CLEARLY = 2.0  # standard errors
NOT_GAUSSIAN_KURTOSIS = 0.5
UNEVEN = 1.2  # times the share of equal classes
LOW_RECALL = 0.5


class Sentence(NamedTuple):
    """A sentence, the heading it stands under, and the names of the numbers in it."""

    section: str
    text: str
    numbers: tuple[str, ...]


def sentences(measured: Measured) -> list[Sentence]:
    """Return all sentences of the report, in order; alarms come after the summary."""
    numbers = measured.numbers | {"alarms": len(measured.tables["alarms"])}
    chosen = choices(numbers)
    found = []
    for section, templates in _templates().items():
        for name, (template, *because) in templates.items():
            if chosen.get(name, True):
                shown = [part[1] for part in Formatter().parse(template) if part[1]]
                names = (*dict.fromkeys(shown), *because)
                found.append(Sentence(section, template.format(**numbers), names))
    summary = [sentence for sentence in found if sentence.section == SUMMARY]
    others = [sentence for sentence in found if sentence.section != SUMMARY]
    alarms = [Sentence(ALARMS, row["text"], ("alarms",)) for row in measured.tables["alarms"]]
    return [*summary, *alarms, *others]


def _templates() -> dict[str, dict[str, list[str]]]:
    text = files(__package__).joinpath("sentences.toml").read_text("utf-8")
    return tomllib.loads(text)


def choices(v: Numbers) -> dict[str, bool]:
    """Return by name whether a report has a sentence; those without a name here are always there.

    Parameters
    ----------
    v : dict
        The numbers of the report, with the number of alarms.
    """
    return {
        **_summary(v),
        **_data(v),
        **_predictions(v),
        **_scaling(v),
        **_theory(v),
    }


def _summary(v: Numbers) -> dict[str, bool]:
    """Choose three sentences: how good, what next, what to distrust."""
    is_better = v["guess_error"] - v["error"] > CLEARLY * v["error_se"]
    rival_is_better = v["error"] - v["best_rival_error"] > CLEARLY * v["error_se"]
    has_enough = _has_enough_data(v)
    too_sure = abs(v["confidence_gap"]) > CLEARLY * v["accuracy_se"]
    distrust = {
        "distrust_alarms": v["alarms"] > 0,
        "distrust_probabilities": too_sure,
        "distrust_rare": v["worst_recall"] < LOW_RECALL,
        "distrust_little": True,
    }
    first = next(name for name, applies in distrust.items() if applies)
    return {
        "good": is_better,
        "no_better": not is_better,
        "next_other_rule": rival_is_better,
        "next_more_data": not rival_is_better and not has_enough,
        "next_features": not rival_is_better and has_enough,
        **{name: name == first for name in distrust},
    }


def _has_enough_data(v: Numbers) -> bool:
    """Return whether ten times the data change the error by less than its standard error."""
    return bool(v["error_now"] - v["error_tenfold"] < v["error_se"])


def _data(v: Numbers) -> dict[str, bool]:
    is_uneven = v["largest_share"] > v["smallest_share"]
    named = ("left_out", "encoded", "filled", "dropped_rows", "understood", "read_as")
    return {
        **{name: bool(v[name]) for name in named},
        "drawn": v["n_in_file"] > v["n"],
        "uneven": is_uneven,
        "even": not is_uneven,
    }


def _predictions(v: Numbers) -> dict[str, bool]:
    unsure = CLEARLY * v["accuracy_se"]
    has_enough = _has_enough_data(v)
    return {
        "mistaken": v["mistaken_share"] > 0,
        "laws": not has_enough,
        "enough_data": has_enough,
        "too_sure": v["confidence_gap"] > unsure,
        "not_sure": v["confidence_gap"] < -unsure,
        "by_chance": abs(v["confidence_gap"]) <= unsure,
        "tested": not v["untested"],
        "untested": bool(v["untested"]),
    }


def _scaling(v: Numbers) -> dict[str, bool]:
    """Choose what is said of the ridge: how features were scaled, and whether both were tried."""
    scaling = v["scaling"]
    if not math.isnan(v["other_score"]):
        scaling += "_compared"
    names = ("standard", "standard_compared", "global", "global_compared")
    return {name: name == scaling for name in names}


def _theory(v: Numbers) -> dict[str, bool]:
    kinds = ("separable", "quasi", "overlapping", "undecided")
    far_from_gaussian = abs(v["median_excess_kurtosis"]) > NOT_GAUSSIAN_KURTOSIS
    return {
        **{name: name == v["separation"] for name in kinds},
        "twins": bool(v["twins"]),
        "loud_directions": v["loud_directions"] > 0,
        "not_gaussian": far_from_gaussian or v["few_valued_features"] > 0,
        "unlike": v["largest_share"] > UNEVEN * v["even_share"],
        "noisy": v["separable"] is False,
        "floor": bool(v["noise_floor"]),
        "no_floor": v["noise_floor"] == 0,
    }
