"""How weights that were learnt from drawn data are measured against their teacher.

    generalisation_error   P(argmax Ŵᵀx ≠ y), y as the teacher draws it, noise included
    clean_error            the same against argmax W*ᵀx; only where labels are noisy

Both follow from the overlaps of the weights with the teacher's, without a test set; on one, if
asked, they are counted. Only there are a student's probabilities p measured,

    test_loss              −mean ln p_y            brier   mean ‖p − e_y‖²
    calibration_error      Σ_b |hits − confidence| / n over 15 even bins b of max p
"""

import math
from functools import partial
from typing import Any

import numpy as np

from polyceptron.checks import check_alpha, check_size, difference_basis
from polyceptron.errors import InvalidInput
from polyceptron.fit.overlaps import exact_generalisation_error, overlaps
from polyceptron.numerics import Array
from polyceptron.problem.populations import AnyTeacher, Dataset, Population
from polyceptron.rows import Row
from polyceptron.sides.scores import FieldsDistribution, TeacherFields

_BLOCK_NUMBERS = 2_000_000  # of samples held in double precision at once
_N_BINS = 15


def measured(
    weights: Array, truth: Array, teacher: AnyTeacher, seed: int, test_samples: Any, chances: Any
) -> Row:
    """Return overlaps and errors of weights (d, k): exact, or counted on new samples."""
    found = overlaps(weights, truth, teacher.features)
    if test_samples is None:
        errors = exact_errors(weights, truth, teacher, seed)
    else:
        errors = counted_errors(weights, truth, teacher, test_samples, seed, chances)
    return {"m": found.m, "q": found.q, **errors}


def exact_errors(weights: Array, truth: Array, teacher: AnyTeacher, seed: int = 0) -> Row:
    """Return the errors of weights (d, k) against the teacher's (d, k).

    The `seed` is for integrals that need points.
    """
    noise = teacher.channel
    k = teacher.n_classes
    ask = partial(exact_generalisation_error, weights, truth, features=teacher.features, seed=seed)
    value, uncertainty = clean = ask()
    guessed = k * noise.guess(k)  # the share of labels that follow no rule
    error = (1 - guessed) * value + guessed * (1 - 1 / k), (1 - guessed) * uncertainty
    if noise.utility_variance != 0:  # the others are not the teacher's choice
        error = ask(noise=noise)
    columns = dict(zip(("generalisation_error", "uncertainty"), error, strict=True))
    return columns if noise.noiseless else {**columns, "clean_error": clean.value}


def counted_errors(
    weights: Array, truth: Array, teacher: Any, n_samples: int, seed: int, chances: Any = None
) -> Row:
    """Return the errors and scores that are counted on `n_samples` new samples.

    `chances` turns the student's fields (n, k) into probabilities p (n, k).

    Children of the training data's seed: 0 draws the noise of training labels, or the new inputs
    where there is no noise; otherwise 1 draws the new inputs and 2 their labels.
    """
    check_size(n_samples, "test_samples")
    noise = teacher.channel
    children = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(3)]
    inputs, labels = (children[0], None) if noise.noiseless else children[1:]
    d, k = truth.shape
    root = teacher.features.deviations(d).T
    scores = np.zeros(2)
    bins = np.zeros(_N_BINS)
    wrong = np.zeros(2, dtype=np.int64)
    chunk = max(1, _BLOCK_NUMBERS // d)
    for start in range(0, n_samples, chunk):
        X = inputs.standard_normal((min(chunk, n_samples - start), d)) * root
        own = X @ weights / math.sqrt(d)
        fields = X @ truth / math.sqrt(d)
        answer = own.argmax(1)
        drawn = noise.sample(fields, labels)
        wrong += [(answer != drawn).sum(), (answer != fields.argmax(1)).sum()]
        if chances is not None:
            p = chances(own)
            chance = p[np.arange(len(p)), drawn]
            top = p.max(1)
            scores += [-np.log(np.maximum(chance, 1e-300)).sum(), (p * p).sum() - 2 * chance.sum()]
            place = np.clip((top - 1 / k) / (1 - 1 / k) * _N_BINS, 0, _N_BINS - 1).astype(int)
            bins += np.bincount(place, (answer == drawn) - top, _N_BINS)
    # Half a count more keeps the uncertainty positive when no error, or no success, was seen; a
    # normal is within 2.576 standard deviations in 99 of 100 cases.
    smoothed = (wrong[0] + 0.5) / (n_samples + 1)
    columns = {
        "generalisation_error": wrong[0] / n_samples,
        "uncertainty": 2.576 * math.sqrt(smoothed * (1 - smoothed) / n_samples),
    }
    if not noise.noiseless:
        columns["clean_error"] = wrong[1] / n_samples
    if chances is not None:
        columns["test_loss"] = scores[0] / n_samples
        columns["brier"] = 1 + scores[1] / n_samples
        columns["calibration_error"] = float(np.abs(bins).sum()) / n_samples
    return columns


def weights_law(
    population: Population, weights: Array, intercepts: Array, truth: Array
) -> FieldsDistribution:
    """Return the law of the fields of weights (d, k) on fresh samples; `truth` is (d, k).

    m_c = Wᵀμ_c/d, Q_c = WᵀΣ_cW/d; a teacher's M = WᵀΣW*/d and R = W*ᵀΣW*/d.
    """
    d, k = weights.shape
    T = difference_basis(k)
    W = weights @ T
    b = T.T @ intercepts
    full = population.full_features
    channel = population.label_channel
    if channel is None:
        if full is not None:
            Q = np.stack([W.T @ sigma @ W / d for sigma in full[1]])
        else:
            deviations: Array = population.deviations(d)  # type: ignore[attr-defined]
            Q = np.stack([(W * (s * s)[:, None]).T @ W / d for s in deviations])
        return FieldsDistribution(population.group_shares, truth.T @ W / d, Q, b)
    root = population.features.deviations(d)  # type: ignore[attr-defined]
    W = W * root
    Z = truth @ T * root
    teacher = TeacherFields(W.T @ Z / d, Z.T @ Z / d, T.T @ population.offsets, channel)
    return FieldsDistribution(np.ones(1), np.zeros((1, k - 1)), (W.T @ W / d)[None], b, teacher)


def draw_single(teacher: AnyTeacher, n: int, d: int, seed: int) -> Dataset:
    """Return `teacher.sample(n, d, seed)` with X (n, d) in single precision, never in double."""
    rng = np.random.default_rng(seed)
    labels = teacher.label_generator(rng)
    X = np.empty((n, d), np.float32)
    y = np.empty(n, np.int64)
    weights = teacher.draw_weights(rng, d)
    root = teacher.features.deviations(d).T
    block = max(1, _BLOCK_NUMBERS // d)
    for start in range(0, n, block):
        rows = rng.standard_normal((min(block, n - start), d)) * root
        X[start : start + block] = rows
        y[start : start + block] = teacher.channel.sample(rows @ weights / math.sqrt(d), labels)
    return Dataset(X, y, weights)  # type: ignore[arg-type]  # X in its own precision


def n_samples(alpha: float, dimension: int) -> int:
    """Return round(αd), which must be 1 or more."""
    n = round(check_alpha(alpha) * check_size(dimension, "dimension"))
    if n < 1:
        raise InvalidInput(f"alpha = {alpha:g} in dimension {dimension} leaves no sample")
    return n


def check_seed(seed: object) -> int:
    """Return the seed if it is a whole number of 0 or more."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInput(f"the seed must be a whole number of 0 or more, got {seed!r}")
    return int(seed)
