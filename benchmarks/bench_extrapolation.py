"""What would more data give? A power law and the theory on held-out larger n, side by side.

Errors are measured at small training sizes, both fits see those alone, and are asked for the error
at the largest size, which was measured too. The columns of time are not the point here: the note
has the relative error of each, whoever wins. Data: scikit-learn's digits, breast cancer and wine,
and any local .npz with arrays X and y:

    python benchmarks/bench_extrapolation.py mine.npz
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polyceptron.questions.forecast import forecast
from polyceptron.questions.matching import described_features, matching_theory
from polyceptron.questions.measured_curve import measure_errors
from polyceptron.questions.teacher_of_data import fit_model, theory_errors

SETS = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine}
SIZES = np.geomspace(0.08, 1.0, 7)
SEEN = 4  # of the seven sizes: up to about a third of the data


def bench() -> list[dict[str, Any]]:
    """Rows name and note for each data set and classifier."""
    return [row for name, load in SETS.items() for row in compare(name, *load(return_X_y=True))]


def compare(name: str, X: Any, y: Any) -> list[dict[str, Any]]:
    """One row for logistic regression, one for a ridge classifier."""
    rows = []
    for clf in (LogisticRegression(max_iter=5000), RidgeClassifier()):
        begin = time.process_time()
        pipe = make_pipeline(StandardScaler(), clf)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = measure_errors(pipe, X, y, SIZES, 5, 0, None)
        seen = slice(0, min(SEEN, len(found.sizes) - 1))
        Z = described_features(pipe, X, y)
        d, k, least = Z.shape[1], np.unique(y).size, 0.5 / found.fold.size
        law = forecast(found.sizes[seen], found.folds[seen], least, len(X))
        teacher, estimator = matching_theory(pipe, k, d)
        alphas = found.sizes / d
        model = fit_model(Z, y, teacher, estimator, alphas[seen], found.errors[seen], least)
        truth, n = float(found.errors[-1]), int(found.sizes[-1])
        power = float(law(n))
        theory = float(theory_errors(model.teacher, estimator, alphas[-1:])[0])
        note = (
            f"n up to {found.sizes[seen][-1]} seen, at n = {n} measured {truth:.4f}; forecast "
            f"{power:.4f} ({_off(power, truth, least)}), theory {theory:.4f} "
            f"({_off(theory, truth, least)}, misfit {model.misfit:.2f})"
        )
        taken = time.process_time() - begin
        rows.append({"name": f"{name}, {type(clf).__name__}", "ours_seconds": taken, "note": note})
    return rows


def _off(found: float, truth: float, least: float) -> str:
    return f"{(found - truth) / (truth + least):+.0%}"


def main() -> None:
    """The table of the given files, or of scikit-learn's data."""
    given = sys.argv[1:]
    rows = [] if given else bench()
    for path in given:
        with np.load(path, allow_pickle=False) as data:
            rows += compare(path, data["X"], data["y"])
    for row in rows:
        print(f"{row['name']}: {row['note']}")


if __name__ == "__main__":
    main()
