"""The error of found weights against the teacher that drew the data, as columns of a row.

    generalisation_error   P(argmax Ŵᵀx ≠ y), y as the teacher draws it, noise included
    clean_error            the same against argmax W*ᵀx; only where labels are noisy

Both follow from the weights without a test set; on one, if asked, they are counted. Only there are
a student's probabilities p measured,

    test_loss              −mean ln p_y            brier   mean ‖p − e_y‖²
    calibration_error      Σ_b |hits − confidence| / n over 15 even bins b of max p
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms import exact_generalisation_error
from polyceptron.model import AnyTeacher

Array = NDArray[np.float64]
Columns = dict[str, float]
_QUANTILE = 2.576  # standard deviations of a normal that hold 99 of 100 cases
_N_BINS = 15
_CHUNK_NUMBERS = 2_000_000  # of a test set held at once


def exact_errors(weights: Any, truth: Any, teacher: AnyTeacher, seed: int = 0) -> Columns:
    """Of weights (d, k) and the teacher's (d, k); `seed` is for integrals that need points."""
    noise, features = teacher.channel, teacher.features
    error = exact_generalisation_error(weights, truth, noise=noise, features=features, seed=seed)
    columns = {"generalisation_error": error.value, "uncertainty": error.uncertainty}
    if not noise.noiseless:
        clean = exact_generalisation_error(weights, truth, features=features, seed=seed)
        columns["clean_error"] = clean.value
    return columns


def counted_errors(
    weights: Array,
    truth: Array,
    teacher: AnyTeacher,
    n_samples: int,
    seed: int,
    says: Callable[[Array], Array] | None = None,
) -> Columns:
    """On `n_samples` new samples, which follow from the seed of the training data.

    `says` turns the student's fields (n, k) into its probabilities (n, k).

    Children of the seed: 0 draws the noise of training labels (`teacher.label_generator`), or the
    new inputs where there is no noise; otherwise 1 draws the new inputs and 2 their labels.
    """
    noise = teacher.channel
    children = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(3)]
    inputs, labels = (children[0], None) if noise.noiseless else children[1:]
    d, k = truth.shape
    root = teacher.features.deviations(d).T
    scores, bins = np.zeros(2), np.zeros(_N_BINS)
    chunk = max(1, _CHUNK_NUMBERS // d)
    wrong = np.zeros(2, dtype=np.int64)
    for start in range(0, n_samples, chunk):
        X = inputs.standard_normal((min(chunk, n_samples - start), d)) * root
        own, fields = X @ weights / math.sqrt(d), X @ truth / math.sqrt(d)
        answer, drawn = own.argmax(1), noise.sample(fields, labels)
        wrong += [(answer != drawn).sum(), (answer != fields.argmax(1)).sum()]
        if says is not None:
            p = says(own)
            said, top = p[np.arange(len(p)), drawn], p.max(1)
            scores += [-np.log(np.maximum(said, 1e-300)).sum(), ((p * p).sum(1) - 2 * said).sum()]
            place = np.clip((top - 1 / k) / (1 - 1 / k) * _N_BINS, 0, _N_BINS - 1).astype(int)
            bins += np.bincount(place, (answer == drawn) - top, _N_BINS)
    # Half a count more keeps the uncertainty positive when no error, or no success, was seen.
    smoothed = (wrong[0] + 0.5) / (n_samples + 1)
    columns = {
        "generalisation_error": wrong[0] / n_samples,
        "uncertainty": _QUANTILE * math.sqrt(smoothed * (1 - smoothed) / n_samples),
    }
    if not noise.noiseless:
        columns["clean_error"] = wrong[1] / n_samples
    if says is not None:
        columns["test_loss"], columns["brier"] = scores[0] / n_samples, 1 + scores[1] / n_samples
        columns["calibration_error"] = float(np.abs(bins).sum()) / n_samples
    return columns
