"""Fits for test_watching, for programs that are killed: without pytest and scikit-learn."""

from __future__ import annotations

import sys
import time

import numpy as np

import polyceptron as pc

RUNS = {
    "amp": lambda X, y, **more: [pc.amp(X, y, noise="gaussian:0.1", **more)],
    "full variances": lambda X, y, **more: [pc.amp(X, y, variances="full", **more)],
    "amp_erm": lambda X, y, **more: [pc.amp_erm(X, y, "cross-entropy", 0.5, **more)],
    "cross-entropy": lambda X, y, **more: [pc.fit_erm(X, y, ridge=1e-3, **more)],
    "from a start": lambda X, y, **more: [
        pc.fit_erm(X, y, ridge=1e-3, start=pc.fit_erm(X, y, ridge=1.0).weights, **more)
    ],
    "a path": lambda X, y, **more: pc.fit_erm_path(
        X, y, "cross-entropy", [1.0, 0.3, 0.1, 0.03, 0.01, 0.003], solver="newton", **more
    ),
    "max-margin": lambda X, y, **more: [pc.fit_erm(X, y, "max-margin", **more)],
    "no ridge": lambda X, y, **more: [pc.fit_erm(X, wrong(y), ridge=0.0, **more)],
    "a ridge and none": lambda X, y, **more: pc.fit_erm_path(
        X, y, "cross-entropy", [0.1, 0.0], **more
    ),
}


def wrong(y):
    """Labels of which half are wrong, so that no weights separate the samples."""
    return np.where(np.arange(y.size) % 2, y, (y + 1) % 3)


def in_memory(fit):
    def run(folder, **more):
        return fit(np.load(f"{folder}/X.npy"), np.load(f"{folder}/y.npy"), **more)

    return run


KILLED = {
    "amp": in_memory(lambda X, y, **more: RUNS["amp"](X, y, **more)[0]),
    "erm": in_memory(lambda X, y, **more: RUNS["cross-entropy"](X, y, **more)[0]),
    "max-margin": in_memory(lambda X, y, **more: RUNS["max-margin"](X, y, **more)[0]),
}


def slow_fit(kind: str, folder: str, path: str | None = None) -> None:
    """A fit that writes a line for each step, 0.05 s apart, so that a test can stop it between."""

    def listen(now):
        sys.stdout.write(f"{now.iteration} {now.max_iter}\n")
        sys.stdout.flush()
        time.sleep(0.05)

    more = {}
    if path is not None:
        more = {"checkpoint": path, "checkpoint_every": 0}
    found = KILLED[kind](folder, callback=listen, **more)
    sys.stdout.write(f"ended {found.status} {found.n_iter}\n")
