"""One tidy row for every result, whatever made it.

Theory, message passing and empirical risk minimisation emit the same columns, so that every
comparison is a group-by. A column that means nothing for a row is absent from it (and is NaN or
None in the table).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from polyceptron.version import VERSION

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]

BRANCHES: dict[str, str] = {
    "optimal": "the fixed point of largest free entropy: the Bayes-optimal answer",
    "amp": "the one that message passing reaches without side knowledge",
    "informed": "the one reached from the teacher itself",
    "unstable": "the barrier next to the one of highest overlap; unstable-1, … are earlier ones",
    "metastable": "any other stable one, by its place along the curve: metastable-1, …",
}


def kind_of(branch: str) -> str:
    """Return the name of a branch in BRANCHES, without its number along the solution curve.

    >>> kind_of("unstable-1")
    'unstable'
    """
    return branch.partition("-")[0]


COLUMNS: tuple[str, ...] = (
    # theory; amp or erm: one run on drawn data; amp-summary, amp-trace: the mean over runs, of an
    # iteration; measured: a classifier on the user's own data, by cross-validation
    "source",
    "model",  # argmax or perceptron
    "n_classes",
    "prior",
    "noise",  # of the labels; none, or a channel's name
    "features",  # a spectrum's name; absent for independent features of unit variance
    "shares",  # of the classes, as numbers with commas; absent where they are equal
    "biases",  # of a teacher's classes, where these were given in place of shares
    "gram",  # of a teacher's fields or a mixture's means: rows end with a semicolon
    "levels",  # of a mixture: fraction of the directions, variances, fraction of the gram
    "prune",  # of the samples: which are kept, and what share of them
    "estimator",  # a name in ESTIMATORS: bayes, or that of a loss
    "ridge",
    "rate",  # of one-pass SGD: η₀, the chosen one where it is optimal
    "penalty",  # with its numbers, where it is not a ridge
    "intercept",  # True where the student has one
    "class_weight",  # balanced, or a weight for each class
    "alpha",  # n / d
    "alpha_kept",  # n / d of the samples that are kept, where some are dropped
    "branch",  # one of BRANCHES (Bayes-optimal only); a figure may mark a transition here
    "m",  # overlap of estimate and teacher, per class direction
    "q",  # squared norm of the estimate, per class direction
    "V",  # its variance (Bayes) or rescaled susceptibility (ERM)
    "generalisation_error",  # on labels as drawn
    "uncertainty",  # of the generalisation error: holds in at least 99 of 100 cases
    "generalisation_error_standard_error",  # of a mean over runs or folds, in place of it
    "balanced_error",  # 1 − the mean recall of the classes
    "balanced_error_uncertainty",
    "recall",  # of each class, as numbers with commas
    "confusion",  # P(label, predicted), a row for each label
    "intercepts",  # of each class, of mean 0
    "clean_error",  # against the noiseless rule, where labels are noisy
    "gibbs_error",  # of a draw from the posterior, where its assumptions are its own
    "gibbs_error_uncertainty",
    "other_error",  # of the rival branch, where the choice of branch is undecided
    "training_error",
    "training_error_uncertainty",
    "training_loss",  # mean loss per sample, ridge term excluded
    "training_loss_uncertainty",
    "test_loss",  # mean log loss of the probabilities on fresh samples, where it was asked for
    "test_loss_uncertainty",
    "brier",  # their mean squared distance from the labels
    "brier_uncertainty",
    "calibration_error",  # |accuracy − confidence|, averaged over 15 bins of confidence
    "calibration_error_uncertainty",
    "free_entropy",
    "evidence",  # ln P(labels | assumptions) per dimension and class direction
    "evidence_uncertainty",
    "status",
    "dimension",
    "n_samples",
    "seed",
    "version",
)


class Status(StrEnum):
    """How far a number can be trusted, what that means, and what to try.

    >>> Status.TOLERANCE_NOT_MET.remedy
    'ask for a larger tolerance'
    """

    meaning: str
    remedy: str

    def __new__(cls, value: str, meaning: str, remedy: str) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        member.remedy = remedy
        return member

    OK = "ok", "converged, and the stated uncertainty is within the asked tolerance", ""
    TOLERANCE_NOT_MET = (
        "tolerance-not-met",
        "converged, but the stated uncertainty is larger than asked",
        "ask for a larger tolerance",
    )
    UNDECIDED = (
        "undecided",
        "two fixed points have free entropies that cannot be told apart here",
        "move alpha away from the transition, or ask for a smaller tolerance",
    )
    NOT_CONVERGED = (
        "not-converged",
        "the best iterate, without a guarantee",
        "try another ridge or alpha, or more iterations",
    )
    INCONSISTENT = (
        "inconsistent",
        "two routes to the same number disagree by more than their uncertainties, or fixed points "
        "were overlooked",
        "ask for a larger alpha_max, for fewer classes, or for a prior whose values are well apart",
    )
    INTERRUPTED = (
        "interrupted",
        "stopped before its end: what there was by then, without a guarantee",
        "run it again, with a checkpoint to go on from there",
    )
    RATE_TOO_LARGE = (
        "rate-too-large",
        "the weights grow without bound at this learning rate",
        "lower the rate",
    )
    DIVERGES = ("diverges", "the quantity is infinite here", "move alpha or raise the ridge")
    FAILED = ("failed", "there is no number", "see the reason beside it")


def make_row(**values: object) -> Row:
    """Return a row with its columns in order, absent ones left out, and the version stamped."""
    unknown = set(values) - set(COLUMNS)
    if unknown:
        raise KeyError(f"not columns of a row: {sorted(unknown)}")
    values.setdefault("version", VERSION)
    return {name: _plain(values[name]) for name in COLUMNS if values.get(name) is not None}


COUNTED = ("n_classes", "dimension", "n_samples", "instances", "not_converged", "failed")


def frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows as a table: columns of every row first, then any further ones."""
    import pandas as pd

    rows = list(rows)
    further = dict.fromkeys(name for row in rows for name in row if name not in COLUMNS)
    present = [name for name in COLUMNS if any(name in row for row in rows)]
    table = pd.DataFrame(rows, columns=[*present, *further])
    for name in ("dimension", "n_samples", "seed", "iterations", "instances"):
        if name in table and table[name].isna().any():  # else a seed would become 12.0
            table[name] = pd.array([row.get(name) for row in rows], dtype="Int64")
    return table


# Text that a spreadsheet takes for a formula begins with one of these, after what is not seen.
_FORMULA_SIGNS = tuple("=+-@")
_FORMULA_BEGINNINGS = tuple("\t\n")  # whatever follows
_SIGNED_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_SIGNED_NUMBERS = re.compile(rf"{_SIGNED_NUMBER}([,;: ]+{_SIGNED_NUMBER})*")


def without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with an apostrophe before text that a spreadsheet would compute.

    A cell such as =1+1 in a CSV file is a formula there, and may start programs; the name of a
    column may too. Text that is a list of numbers, such as shares or biases, stays as it is.
    """
    text = table.select_dtypes(include=["object", "string", "category"])
    plain = table.assign(**{str(name): text[name].map(_as_plain_cell) for name in text.columns})
    return plain.rename(columns=_as_plain_cell)


def _as_plain_cell(value: object) -> object:
    """Return the value, with an apostrophe before it where it is text that begins a formula."""
    if not isinstance(value, str):
        return value
    # Python's csv quotes a cell with a line feed, and not one with a carriage return, which many
    # programs take for the end of a row.
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    if not _begins_formula(text) or _SIGNED_NUMBERS.fullmatch(text):
        return text
    return f"'{text}"


def _begins_formula(text: str) -> bool:
    """Return whether text begins with the sign of a formula, in any of its forms.

    Spaces and characters that are not seen do not count: a spreadsheet drops some of them, such as
    the byte-order mark at the begin of a file. Wide and small forms of a sign are that sign.
    """
    if text.startswith(_FORMULA_BEGINNINGS):
        return True
    for character in text:
        if character.isprintable() and not character.isspace():
            return unicodedata.normalize("NFKC", character).startswith(_FORMULA_SIGNS)
    return False


def json_ready(row: Mapping[str, object]) -> dict[str, object]:
    """Return the row with None for non-finite numbers: JSON has no NaN or infinity."""
    plain = dict(row)
    for name, value in row.items():
        if isinstance(value, float) and not math.isfinite(value):
            plain[name] = None
    return plain


def _plain(value: object) -> object:
    """Return numpy scalars and enums as plain Python, so that a row is JSON- and SQL-ready."""
    if isinstance(value, StrEnum):
        return str(value)
    if hasattr(value, "item"):
        return value.item()
    return value


# Numbers that tell which point a row belongs to; every other number is measured there.
PLACES = ("n_classes", "ridge", "alpha", "dimension", "n_samples", "iteration", "margin", "table")
_ASIDE = (
    *("seed", "uncertainty", "status", "version", "reason"),
    *("recall", "confusion", "intercepts"),  # text, of which there is no mean
)


def error_column(name: str) -> str:
    """Return the column with the standard error of a mean of the column `name`."""
    return f"{name}_standard_error"


def average_instances(table: pd.DataFrame) -> pd.DataFrame:
    """Average the rows of simulated instances over each point; theory and means stay as they are.

    Returns
    -------
    pandas.DataFrame
        The rows that need no mean, then one row for each point: the mean of every measured column,
        its standard error, and the columns instances, not_converged and failed.
    """
    import numpy as np
    import pandas as pd
    from pandas.api.types import is_numeric_dtype

    raw = table.get("source", pd.Series("theory", table.index)) != "theory"
    if "instances" in table:
        raw &= table["instances"].isna()
    if not raw.any():
        return table
    rows = table[raw].replace([np.inf, -np.inf], np.nan)
    status = rows.get("status", pd.Series("ok", rows.index))
    rows = rows.assign(
        instances=(status != Status.FAILED).astype(int),
        not_converged=(status == Status.NOT_CONVERGED).astype(int),
        failed=(status == Status.FAILED).astype(int),
    )
    counts = ["instances", "not_converged", "failed"]
    measured = [
        name
        for name in rows.columns
        if name not in (*PLACES, *_ASIDE, *counts)
        and is_numeric_dtype(rows[name])
        and rows[name].notna().any()
    ]
    place = [name for name in rows.columns if name not in (*measured, *_ASIDE, *counts)]
    groups = rows.groupby(place, dropna=False, sort=False)
    spread = groups[measured].sem().rename(columns=error_column)
    parts = [groups[measured].mean(), spread, groups[counts].sum()]
    if "version" in rows:
        parts.append(groups[["version"]].first())
    means = pd.concat(parts, axis=1).reset_index()
    means["status"] = np.select(
        [means["not_converged"] > 0, means["instances"] > 0],
        [str(Status.NOT_CONVERGED), str(Status.OK)],
        str(Status.FAILED),
    )
    kept = table[~raw]
    if kept.empty:
        return means
    return pd.concat([kept, means], ignore_index=True)


def tidy(rows: Iterable[Mapping[str, object]]) -> pd.DataFrame:
    """Return rows as a table of means: the columns of every row first, then any further ones."""
    import pandas as pd

    table = average_instances(pd.DataFrame(list(rows)))
    if "seed" in table and table["seed"].isna().all():
        table = table.drop(columns="seed")
    known = [name for name in COLUMNS if name in table]
    table = table[known + [name for name in table.columns if name not in COLUMNS]]
    return table.astype({name: "Int64" for name in COUNTED if name in table})
