"""The error of found weights against the teacher that drew the data, as columns of a row.

    generalisation_error   P(argmax Ŵᵀx ≠ y), y as the teacher draws it, noise included
    clean_error            the same against argmax W*ᵀx; only where labels are noisy

Both follow from the weights without a test set; on one, if asked, they are counted.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms import exact_generalisation_error
from polyceptron.model import Channel

Array = NDArray[np.float64]
Columns = dict[str, float]
_QUANTILE = 2.576  # standard deviations of a normal that hold 99 of 100 cases
_CHUNK_NUMBERS = 2_000_000  # of a test set held at once


def exact_errors(weights: Any, truth: Any, noise: Channel, seed: int = 0) -> Columns:
    """Of weights (d, k) and the teacher's (d, k); `seed` is for integrals that need points."""
    error = exact_generalisation_error(weights, truth, noise=noise, seed=seed)
    columns = {"generalisation_error": error.value, "uncertainty": error.uncertainty}
    if not noise.noiseless:
        columns["clean_error"] = exact_generalisation_error(weights, truth, seed=seed).value
    return columns


def counted_errors(
    weights: Array, truth: Array, noise: Channel, n_samples: int, seed: int
) -> Columns:
    """On `n_samples` new samples, which follow from the seed of the training data.

    Children of the seed: 0 draws the noise of training labels (`teacher.label_generator`), or the
    new inputs where there is no noise; otherwise 1 draws the new inputs and 2 their labels.
    """
    children = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(3)]
    inputs, labels = (children[0], None) if noise.noiseless else children[1:]
    d = truth.shape[0]
    chunk = max(1, _CHUNK_NUMBERS // d)
    wrong = np.zeros(2, dtype=np.int64)
    for start in range(0, n_samples, chunk):
        X = inputs.standard_normal((min(chunk, n_samples - start), d))
        answer, fields = (X @ weights).argmax(1), X @ truth / math.sqrt(d)
        drawn = noise.sample(fields, labels)
        wrong += [(answer != drawn).sum(), (answer != fields.argmax(1)).sum()]
    # Half a count more keeps the uncertainty positive when no error, or no success, was seen.
    smoothed = (wrong[0] + 0.5) / (n_samples + 1)
    columns = {
        "generalisation_error": wrong[0] / n_samples,
        "uncertainty": _QUANTILE * math.sqrt(smoothed * (1 - smoothed) / n_samples),
    }
    return columns if noise.noiseless else {**columns, "clean_error": wrong[1] / n_samples}
