"""How far the symbols of figures lie from their lines, and whether chance allows it.

    z = (mean − theory) / √(standard error² + theory's uncertainty²)

The rule does not look at the numbers. The theory is for d → ∞; a finite size shifts a mean by a
bias of order 1/d, for which ALLOWANCE/d is granted. What is left of |mean − theory| is compared
with Student's law (the standard error is that of `instances` runs), which gives p. Then

    every symbol   p > FALSE_ALARM/m for all m symbols (Bonferroni: they may depend on each other)
    all of them    among symbols of different data, no more have p < SMALL_P than a binomial law
                   allows at FALSE_ALARM

so a correct program is blamed twice in a thousand. Where a finite size rounds a jump or a peak
(next to α_algo, or at α = 1 without a ridge), and for the steps of a run, symbols are recorded and
not judged.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binom, chi2, t

from polyceptron.numerics import Array
from polyceptron.numerics.averages import deviation
from polyceptron.problem import make_estimator
from polyceptron.report.figures.bayes_figures import ENTRIES
from polyceptron.rows import Row, error_column

ALLOWANCE = 2.0  # bias of an error or an overlap, times d
FALSE_ALARM = 1e-3  # probability
SMALL_P = 0.05  # of a symbol that is counted as unlikely
ROUNDING = 1e-12  # a number that is zero in theory is at most this on data
NEAR_JUMP = 0.5  # in α: runs of a finite size are rounded there
NEAR_PEAK = 0.3  # in α
QUANTITIES = (
    "generalisation_error",
    "balanced_error",
    "training_error",
    "training_loss",
    *ENTRIES,
)
DATA = ("model", "n_classes", "prior", "noise", "features", "ratio", "alpha", "dimension")
PLACE = (*DATA[:-1], "way", "estimator", "ridge", "iteration")
COLUMNS = (
    "figure",
    "quantity",
    "source",
    *PLACE,
    "dimension",
    "instances",
    "mean",
    "standard_error",
    "theory",
    "theory_uncertainty",
    "z",
    "p",
    "judged",
)


class Verdict(NamedTuple):
    """How many symbols there are and were judged, their z, and whether chance allows them.

    Attributes
    ----------
    symbols, judged : int
    root_mean_square_z, largest_z : float
    smallest_p : float
        Times the number of judged symbols.
    unlikely, unlikely_allowed : int
        Symbols of different data with p < SMALL_P, and how many the rule allows.
    combined_p : float
        Fisher's, of the errors of different data, with nothing granted for 1/d.
    """

    symbols: int
    judged: int
    root_mean_square_z: float
    largest_z: float
    smallest_p: float
    unlikely: int
    unlikely_allowed: int
    combined_p: float

    @property
    def by_chance(self) -> bool:
        """Whether both parts of the rule hold."""
        return self.smallest_p > FALSE_ALARM and self.unlikely <= self.unlikely_allowed

    def __str__(self) -> str:
        allowed = "as" if self.by_chance else "NOT as"
        return (
            f"{self.judged} symbols beside their lines: root mean square z "
            f"{self.root_mean_square_z:.2f}, largest {self.largest_z:.1f}, {allowed} chance allows"
        )


def agreement(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return a row for every symbol that has a line, with its z and p.

    Parameters
    ----------
    tables : mapping of str to pandas.DataFrame
        The table of each figure by its name.
    """
    rows: list[Row] = []
    for figure, table in tables.items():
        if "instances" in table:
            rows += _rows_of_figure(figure, table)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _rows_of_figure(figure: str, table: pd.DataFrame) -> list[Row]:
    """Return the rows of the symbols of one figure."""
    place = [column for column in PLACE if column in table]
    for column in ("ridge", "iteration"):
        if column in place:
            table = table.assign(**{column: table[column].fillna(0)})
    rows = []
    for quantity in QUANTITIES:
        if quantity in table:
            for pair in _symbols_on_lines(table, quantity, place):
                rows.append(_row(figure, quantity, pair, _is_judged(pair, table)))
    return rows


def _symbols_on_lines(table: pd.DataFrame, quantity: str, place: list[str]) -> list[dict[Any, Any]]:
    """Return the symbols of a quantity joined with the point of their line at the same place."""
    value = table[quantity]
    if quantity in ENTRIES:
        factor, _ = ENTRIES[quantity]
        value = value.where(table["source"] != "theory", factor * table["q"])
    branch = pd.Series("", index=table.index)
    if "branch" in table:
        branch = table["branch"].fillna("")
    error = table.get(error_column(quantity), pd.Series(math.nan, index=table.index))
    known = table.assign(value=value, error=error, branch=branch)[value.notna()]
    theory = known[known["source"] == "theory"]
    # Measurements on data of others, or on twins, have no line.
    is_run = known["source"].isin(["amp", "erm"])
    pairs: list[dict[Any, Any]] = []
    for source, symbols in known[known["instances"].notna() & is_run].groupby("source", sort=False):
        branches = _branches_beside(str(source), theory)
        line = theory[theory["branch"].isin(branches)].drop_duplicates(place)
        pairs += symbols.merge(line, on=place, suffixes=("", "_theory")).to_dict("records")
    return pairs


def _branches_beside(source: str, theory: pd.DataFrame) -> list[str]:
    """Return the branches of theory that runs of a source are compared with."""
    if source != "amp":
        return [""]
    if (theory["branch"] == "amp").any():  # message passing has a line of its own
        return ["amp"]
    return ["optimal", ""]


def _is_judged(pair: Mapping[Any, Any], table: pd.DataFrame) -> bool:
    """Return False where a finite size rounds a jump or a peak, and for the steps of a run."""
    if "iteration" in pair:
        return False
    if pair["source"] == "amp":
        if "branch" not in table:
            return True
        jumps = table.loc[table["branch"] == "alpha_algo", "alpha"]
        return not any(abs(pair["alpha"] - jump) < NEAR_JUMP for jump in jumps)
    has_peak = make_estimator(pair["estimator"]).explicit and pair["ridge"] == 0
    return not (has_peak and abs(pair["alpha"] - 1) < NEAR_PEAK)


def _row(figure: str, quantity: str, pair: Mapping[Any, Any], judged: bool) -> Row:
    """Return the row of one symbol: its mean, its theory, z and p."""
    standard_error = float(pair["error"])
    uncertainty = 0.0
    if quantity == "generalisation_error":
        uncertainty = float(pair.get("uncertainty_theory", 0.0))
    mean = pair["value"]
    theory = pair["value_theory"]
    distance = abs(mean - theory)
    known_error = float(np.nan_to_num(standard_error))
    spread = math.hypot(known_error, float(np.nan_to_num(uncertainty)))
    z = None
    if distance >= ROUNDING:
        z = deviation(mean, known_error, theory, uncertainty)
    return {
        **{name: pair.get(name) for name in (*PLACE, "source", "dimension", "instances")},
        "figure": figure,
        "quantity": quantity,
        "mean": mean,
        "standard_error": standard_error,
        "theory": theory,
        "theory_uncertainty": uncertainty,
        "judged": judged,
        "z": z,
        "p": chance(distance - ALLOWANCE / pair["dimension"], spread, int(pair["instances"])),
    }


def chance(excess: float, spread: float, instances: int) -> float:
    """Return the probability that a mean of so many runs is at least so far off.

    A mean without spread is right or wrong.
    """
    if excess <= 0:
        return 1.0
    if spread == 0:
        return 0.0
    return float(2 * t.sf(excess / spread, max(instances - 1, 1)))


def verdict(table: pd.DataFrame) -> Verdict:
    """Apply the rule to the rows of `agreement`."""
    judged = table[table["judged"].astype(bool)]
    data = [column for column in DATA if column in table]
    errors = judged[judged["quantity"] == "generalisation_error"].drop_duplicates(data)
    z = np.asarray(judged["z"].dropna(), dtype=np.float64)
    allowed = 0
    if len(errors):
        allowed = int(binom.isf(FALSE_ALARM, len(errors), SMALL_P))
    return Verdict(
        symbols=len(table),
        judged=len(judged),
        root_mean_square_z=_root_mean_square(z),
        largest_z=float(np.abs(z).max(initial=0.0)),
        smallest_p=float((judged["p"] * len(judged)).min()) if len(judged) else 1.0,
        unlikely=int((errors["p"] < SMALL_P).sum()),
        unlikely_allowed=allowed,
        combined_p=_fishers_p(errors.dropna(subset="z")),
    )


def _root_mean_square(z: Array) -> float:
    if len(z) == 0:
        return 0.0
    return float(np.sqrt(np.mean(z**2)))


def _fishers_p(errors: pd.DataFrame) -> float:
    """Return Fisher's combined p of independent symbols, with nothing granted for 1/d."""
    if errors.empty:
        return 1.0
    z = errors["z"].astype(float).abs().to_numpy()
    p = np.asarray(2 * t.sf(z, errors["instances"].astype(int) - 1))
    return float(chi2.sf(-2 * np.log(p).sum(), 2 * len(p)))
