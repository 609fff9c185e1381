"""Self-tuning classifiers against scikit-learn's LogisticRegressionCV: time and test score.

Same grid of ridges, same folds, the features standardised on the training part: five outer folds of
each data set give accuracy and log-loss on samples that no fit has seen, and the processor time of
all fits. `python -m benchmarks --only classifiers`.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import polyceptron as pc

RIDGES = np.geomspace(1e-4, 10, 10)
MANY = (6000, 200, 100)  # n, d, k: the large figures are in docs/large-data.md
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


def data_sets() -> Iterator[tuple[str, Any, Any]]:
    for load in (load_digits, load_breast_cancer, load_wine, load_iris):
        yield load.__name__.removeprefix("load_"), *load(return_X_y=True)
    X, y, _ = pc.Teacher(3, noise="gaussian:0.3").sample(600, 100, seed=0)
    yield "synthetic", X, y


def models(k: int, d: int) -> dict[str, Any]:
    inverse = np.sort((2 if k == 2 else 1) / (RIDGES * d))
    rival = LogisticRegressionCV(
        Cs=inverse,
        cv=FOLDS,
        scoring="neg_log_loss",
        max_iter=1000,
        use_legacy_attributes=False,
        l1_ratios=(0,),
    )
    return {
        "LogisticRegressionCV": make_pipeline(StandardScaler(), rival),
        "ERMClassifier, same folds": pc.ERMClassifier(ridges=RIDGES, cv=FOLDS, scaling="standard"),
        "ERMClassifier": pc.ERMClassifier(),
        "AMPClassifier": pc.AMPClassifier(),
    }


def scores(model: Any, X: Any, y: Any) -> tuple[Any, Any, float]:
    """Log-loss and hit (n,) of every sample held out, and seconds of all fits."""
    loss, hit, seconds = np.zeros(y.size), np.zeros(y.size), 0.0
    for train, test in StratifiedKFold(5, shuffle=True, random_state=1).split(X, y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            begin = time.process_time()
            model.fit(X[train], y[train])
            seconds += time.process_time() - begin
        p = model.predict_proba(X[test])
        place = np.searchsorted(model.classes_, y[test])
        loss[test] = -np.log(np.maximum(p[np.arange(test.size), place], 1e-15))
        hit[test] = p.argmax(1) == place
    return loss, hit, seconds


def bench() -> list[dict[str, Any]]:
    """One row for each data set and classifier of ours."""
    rows = []
    for name, X, y in data_sets():
        found = {
            key: scores(model, X, y) for key, model in models(np.unique(y).size, X.shape[1]).items()
        }
        rival = found.pop("LogisticRegressionCV")
        for key, (loss, hit, seconds) in found.items():
            gap = loss - rival[0]
            doubt = gap.std() / math.sqrt(gap.size)
            rows.append(
                {
                    "name": f"{key} on {name}: LogisticRegressionCV",
                    "ours_seconds": seconds,
                    "rival_seconds": rival[2],
                    "note": f"log-loss {loss.mean():.4f} against {rival[0].mean():.4f} (difference "
                    f"{gap.mean():+.4f} ± {doubt:.4f}), accuracy {hit.mean():.4f} against "
                    f"{rival[1].mean():.4f}",
                }
            )
        rows.append(search(name, X, y))
    X, y, _ = pc.Teacher(MANY[2], noise="gaussian:0.2").sample(*MANY[:2], seed=0)
    size = "n={}, d={}, k={}".format(*MANY)
    return [*rows, search(f"{size}, float32", X.astype(np.float32), y, repeats=3)]


def search(name: str, X: Any, y: Any, repeats: int = 9) -> dict[str, Any]:
    """The search for ridge and scaling against one fit with those that it chose, in turns."""
    chosen = pc.ERMClassifier().fit(X, y)
    given = pc.ERMClassifier(ridge=chosen.ridge_, scaling=chosen.scaling_)
    models = {"ours_seconds": pc.ERMClassifier(), "rival_seconds": given}
    best = dict.fromkeys(models, math.inf)
    for _ in range(repeats):
        for key, model in models.items():
            begin = time.process_time()
            model.fit(X, y)
            best[key] = min(best[key], time.process_time() - begin)
    times = best["ours_seconds"] / best["rival_seconds"]
    note = f"the search takes {times:.1f} times one fit, best of {repeats} each; aim 3"
    return {"name": f"search of ERMClassifier on {name}: one fit", **best, "note": note}
