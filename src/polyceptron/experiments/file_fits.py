"""A fit to samples in files: weights to one file, a report to another, both or none.

With `standardise`, features are centred and scaled as they are read; the weights that are written
are those of the features as they are in the file, with what centring adds to the fields as offset.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from polyceptron.algorithms import amp, fit_erm
from polyceptron.algorithms.data_checks import check_labels
from polyceptron.algorithms.design import Design
from polyceptron.algorithms.mapped_design import scaled
from polyceptron.algorithms.open_design import open_design
from polyceptron.experiments.data_files import open_samples, read_labels
from polyceptron.files import write_atomically
from polyceptron.rows import VERSION

Fit = Callable[[Design, Any], Any]  # of a design and labels


def amp_of_files(data: Path, labels: Path, *, standardise: bool, **more: Any) -> dict[str, Any]:
    """Message passing on files: a report with weights (d, k) and offset (k,)."""
    k = more.get("n_classes")
    report, found = _fit(data, labels, k, standardise, lambda X, y: amp(X, y, **more))
    return report | {"residual": found.residual, "damping": found.damping}


def fit_of_files(data: Path, labels: Path, *, standardise: bool, **more: Any) -> dict[str, Any]:
    """A certified fit to files: a report with weights (d, k) and offset (k,)."""
    k = more.get("n_classes")
    report, found = _fit(data, labels, k, standardise, lambda X, y: fit_erm(X, y, **more))
    names = ("distance_bound", "training_loss", "training_error", "matrix_passes")
    return report | {"ridge": found.ridge} | {name: getattr(found, name) for name in names}


def _fit(
    data: Path, labels: Path, n_classes: int | None, standardise: bool, fit: Fit
) -> tuple[dict[str, Any], Any]:
    y = read_labels(labels)
    design = open_design(open_samples(data))
    check_labels(y, design.n_samples, n_classes)  # before anything of X is read
    begin = time.monotonic()
    n, d = design.shape
    X, shift, scale = design, np.zeros(d), np.ones(d)
    if standardise:
        design.check_entries()
        shift, deviation, largest = design.column_moments()
        scale = np.where(deviation > 10 * np.finfo(float).eps * largest, deviation, 1.0)
        X = scaled(design, shift, scale)
    found = fit(X, y)
    weights = found.weights / scale[:, None]
    offset = -(shift @ weights) / math.sqrt(d)
    report = {
        "data": str(data), "labels": str(labels), "n_samples": n, "dimension": d,
        "n_classes": weights.shape[1], "precision": str(design.dtype), "standardise": standardise,
        "status": str(found.status), "n_iter": found.n_iter, "passes": design.passes + (
            X.passes if X is not design else 0.0
        ),
        "seconds": time.monotonic() - begin, "version": VERSION, "weights": weights,
        "offset": offset.tolist(),
    }  # fmt: skip
    return report, found


def save_weights(path: Path, weights: Any) -> None:
    """Weights (d, k) as a .npy file, in one piece."""
    write_atomically(path, lambda place: _save(place.open("wb"), weights))


def _save(file: BinaryIO, weights: Any) -> None:
    with file:
        np.save(file, weights, allow_pickle=False)
