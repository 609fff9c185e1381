"""Certified fits with an L1 penalty or an elastic net, against skglm and celer.

Both rivals fit two classes, W = (−b/2, b/2), where the penalty on ‖w_i‖ is one on |b_i|/√2. They
have no bound on the distance to the minimiser: each gets the loosest tolerance with which its
weights come within 1e-5 of it, found beforehand. Three and ten classes have no rival with this
penalty: scikit-learn's SAGA penalises every weight of a feature for itself.

Both come with `pip install polyceptron[rivals]`; a rival that is missing has no row. Processor
time, one BLAS thread.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from polyceptron.fit.erm import fit_erm
from polyceptron.fit.solvers.erm_fit import ERMFit

N, D = 2000, 2000
ACCURACY = 1e-5  # relative distance of the weights to the minimiser
SHARES = (0.1, 0.3)  # of the least penalty at which all weights are 0
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)
Model = Callable[[float], Any]  # an estimator with a tolerance


def bench() -> list[dict[str, Any]]:
    """Rows name, ours_seconds, rival_seconds, ratio, note."""
    rows = []
    for share in SHARES:
        rows += two_classes(share)
    return rows + [alone(k, share) for k in (3, 10) for share in SHARES]


def sparse_samples(k: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return X (n, d), y (n,), and the least L1 penalty at which all weights are 0."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    W = rng.standard_normal((D, k)) * (rng.random((D, 1)) < 0.05)
    y = np.argmax(X @ W / math.sqrt(D) + 0.1 * rng.standard_normal((N, k)), axis=1)
    slope = (X / math.sqrt(D)).T @ (np.eye(k)[y] - 1 / k)
    return X, y, float(np.linalg.norm(slope, axis=1).max())


def two_classes(share: float) -> list[dict[str, Any]]:
    """One row for each rival that is installed, and our time alone without any."""
    X, y, largest = sparse_samples(2)
    l1 = share * largest
    A = X / math.sqrt(D)
    sign = 2 * y - 1
    exact = fitted(X, y, l1, 1e-10).weights
    b = exact[:, 1] - exact[:, 0]
    rows = []
    for name, model in rivals(l1).items():
        for tol in TOLERANCES:
            found = model(tol).fit(A, sign).coef_.ravel()
            error = float(np.linalg.norm(found - b) / np.linalg.norm(b))
            if error <= ACCURACY:
                break
        pairs = [
            (seconds(lambda: fitted(X, y, l1)), seconds(lambda: model(tol).fit(A, sign)))  # noqa: B023
            for _ in range(5)
        ]
        ours, theirs = np.min(pairs, axis=0).tolist()
        note = f"off by {error:.0e} at tol={tol:g}; aim 0.5"
        rows.append(row(2, share, fitted(X, y, l1), ours, name, theirs, note))
    return rows or [alone(2, share)]


def rivals(l1: float) -> dict[str, Model]:
    """Return the rivals that are installed, by name."""
    found: dict[str, Model] = {}
    if find_spec("skglm"):
        from skglm.estimators import SparseLogisticRegression

        found["skglm"] = lambda tol: SparseLogisticRegression(
            alpha=l1 / math.sqrt(2) / N, fit_intercept=False, tol=tol, max_epochs=100_000
        )
    if find_spec("celer"):
        from celer import LogisticRegression

        found["celer"] = lambda tol: LogisticRegression(
            C=math.sqrt(2) / l1, fit_intercept=False, tol=tol
        )
    return found


def alone(k: int, share: float) -> dict[str, Any]:
    """Our time, of more classes than the rivals can have."""
    X, y, largest = sparse_samples(k)
    l1 = share * largest
    spent = min(seconds(lambda: fitted(X, y, l1)) for _ in range(3))
    return row(k, share, fitted(X, y, l1), spent, "no rival", None, "")


def fitted(X: np.ndarray, y: np.ndarray, l1: float, tol: float = ACCURACY) -> ERMFit:
    """Return our fit."""
    return fit_erm(X, y, "cross-entropy", penalty=f"elastic-net:{l1}:0", tol=tol)


def seconds(work: Callable[[], Any]) -> float:
    """Processor seconds of a call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.process_time()
        work()
        return time.process_time() - begin


def row(
    k: int, share: float, fit: ERMFit, ours: float, rival: str, theirs: float | None, note: str
) -> dict[str, Any]:
    """One row."""
    bound = fit.distance_bound / np.linalg.norm(fit.weights)
    n_kept = int(fit.weights.any(axis=1).sum())
    own = f"{n_kept} features kept, {fit.status}, certified to {bound:.0e}"
    return {
        "name": f"L1 at {share:g} of the largest, n={N}, d={D}, k={k}: against {rival}",
        "ours_seconds": ours,
        "rival_seconds": theirs,
        "ratio": None if theirs is None else theirs / ours,
        "note": f"{own}; {note}".rstrip("; "),
    }


if __name__ == "__main__":
    for line in bench():
        print(line)
