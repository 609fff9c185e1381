"""One finite instance against its teacher, as rows: draw teacher and data, learn, measure.

    generalisation_error   P(argmax Ŵᵀx ≠ y), y as the teacher draws it, noise included
    clean_error            the same against argmax W*ᵀx; only where labels are noisy

Both follow from the overlaps of the weights with the teacher's, without a test set; on one, if
asked, they are counted. Only there are a student's probabilities p measured,

    test_loss              −mean ln p_y            brier   mean ‖p − e_y‖²
    calibration_error      Σ_b |hits − confidence| / n over 15 even bins b of max p

Fields of a rule are Wᵀx/√d + b. Its error is the exact one of W without b: where classes are alike
the b of all classes have one limit.
"""

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from polyceptron.data.checks import check_choice
from polyceptron.fit.erm import fit_erm, fit_erm_path
from polyceptron.amp.posterior_mean import AMPResult, amp
from polyceptron.fit.overlaps import exact_generalisation_error, overlaps
from polyceptron.data.watching import uninterrupted
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.lab.tasks import REACHED
from polyceptron.problem import ERM, AnyTeacher, BayesOptimal, Dataset
from polyceptron.checks import check_alpha, check_size, difference_basis
from polyceptron.problem.specs.base import late
from polyceptron.problem.populations import Population, check_teacher
from polyceptron.problem.population import numbers_text
from polyceptron.numerics import Array
from polyceptron.rows import Row, Status, make_row
from polyceptron.theory.erm.fixed_point import optimal_ridge
from polyceptron.sides.scores import FieldsLaw, TeacherFields, population_scores

Fitted = tuple[Array, Array, Status]
_BLOCK_NUMBERS = 2_000_000  # of samples held in double precision at once
_N_BINS = 15
_POSTERIOR = ("test_loss", "brier", "calibration_error")  # scores of probabilities that know V


def run_amp(
    teacher: AnyTeacher, alpha: float, dimension: int, seed: int, *, start: str = "uninformed",
    dtype: str = "float64", test_samples: int | None = None, **settings: Any,
) -> tuple[Row, AMPResult]:  # fmt: skip
    """Message passing on round(αd) samples of `teacher` in d dimensions: a row, and the run itself.

    `teacher.sample(n_samples, dimension, seed)` draws the same data again from the row's columns.
    `test_samples` replaces the exact error by that on so many new samples, with the scores there.
    `settings` are variances, tol and max_iter of `amp`.
    """
    check_teacher(teacher)
    check_choice("precision", dtype, ("float32", "float64"))
    d, n, number = check_size(dimension, "dimension"), n_samples(alpha, dimension), check_seed(seed)
    try:
        draw = teacher.sample if dtype == "float64" else partial(draw_single, teacher)
        X, y, truth = draw(n, d, number)
        result = amp(
            X, y, teacher.prior, teacher_weights=truth, start=start, model=teacher.model,
            n_classes=teacher.n_classes, noise=teacher.noise, features=teacher.features, **settings,
        )  # fmt: skip
        uninterrupted(result)
        wrong = float(np.mean(np.argmax(X @ result.weights.astype(X.dtype), axis=1) != y))
    except MemoryError:
        raise ComputationFailed(
            f"{n} samples in dimension {d} need {np.dtype(dtype).itemsize * n * d / 1e9:.3g} GB: "
            "choose a smaller dimension or alpha"
        ) from None
    v = np.asarray(result.variance)  # per class direction, averaged over coordinates
    if v.ndim == 3:  # covariances in k coordinates, of rank k − 1
        v = np.trace(v, axis1=1, axis2=2) / (teacher.n_classes - 1)
    V = float(v.mean())
    chances = partial(teacher.channel.chances, variance=max(V, 1e-12))  # of the posterior
    row = make_row(
        source="amp", **teacher.columns, estimator=BayesOptimal.name, alpha=alpha, V=V,
        branch=REACHED[start], training_error=wrong, status=result.status, dimension=d,
        n_samples=n, seed=number,
        **_measured(result.weights, truth, teacher, number, test_samples, chances),
    )  # fmt: skip
    return row, result


def run_erm(
    teacher: Any, estimators: Sequence[ERM], alpha: float, dimension: int, seed: int, *,
    solver: str = "auto", tol: float = 1e-8, test_samples: int | None = None,
) -> list[Row]:  # fmt: skip
    """One row for each estimator, on `teacher.sample(round(alpha * dimension), dimension, seed)`.

    The estimators have one loss. A ridge 'optimal' is the theory's best at this α. `test_samples`
    as in `run_amp`, if the fit gives probabilities.
    """
    n, loss, k = n_samples(alpha, dimension), estimators[0].loss, teacher.n_classes
    alike = all(one.alike(teacher) and not one.intercept for one in estimators)
    if not alike and any(isinstance(one.ridge, str) for one in estimators):
        raise InvalidInput("fits of classes that are not alike take a ridge as a number")
    plain = [one for one in estimators if alike and one.penalty is None]
    ridges: list[Any] = [
        _best_ridge(teacher, loss, float(alpha)) if one.ridge == "optimal" else one.ridge
        for one in plain
    ]
    X, y, truth = teacher.sample(n, dimension, seed)
    settings: dict[str, Any] = {"n_classes": k, "tol": tol}
    path = iter(fit_erm_path(X, y, loss, ridges, solver=solver, **settings) if ridges else ())
    rows = []
    for one in estimators:
        if not alike:  # class weights are those of the population, as in the theory
            weights = None if one.class_weight is None else one.loss_weights(teacher.class_shares)
            fit = fit_erm(
                X, y, loss, float(one.ridge), intercept=one.intercept, **settings,
                class_weight=None if weights is None else dict(enumerate(weights.tolist())),
            )  # fmt: skip
        elif one.penalty is None:
            fit = next(path)
        else:
            fit = fit_erm(X, y, loss, penalty=one.penalty, **settings)
        uninterrupted(fit)
        chances: Any = loss.probabilities
        if fit.loss != loss.name or chances(np.zeros((1, k))) is None:
            chances = None  # a direction has no scale
        if alike:
            found = _measured(fit.weights, truth, teacher, seed, test_samples, chances)
        else:
            law = weights_law(teacher, fit.weights, fit.intercepts, truth)
            found = population_scores(law, chances).columns
            if one.intercept:
                found["intercepts"] = numbers_text(fit.intercepts - fit.intercepts.mean())
        row = make_row(
            source="erm", **teacher.columns, alpha=float(alpha),
            **one.columns | ({} if one.penalty else {"ridge": fit.ridge}),
            training_error=fit.training_error, training_loss=fit.training_loss, status=fit.status,
            dimension=dimension, n_samples=n, seed=seed, **found,
        )  # fmt: skip
        rows.append(row)
    return rows


def run_posterior(
    teacher: AnyTeacher, estimators: Sequence[Any], *place: Any, **settings: Any
) -> list[Row]:
    """The row of message passing for each estimator."""
    row, _ = run_amp(teacher, *place, **settings)
    plain = {name: value for name, value in row.items() if name not in _POSTERIOR}
    return [{**(row if one.calibrated else plain), "estimator": one.name} for one in estimators]


def run_rules(
    teacher: AnyTeacher, estimators: Sequence[Any], *place: Any, **settings: Any
) -> list[Row]:
    """One row for each, of `teacher.sample(round(alpha * dimension), dimension, seed)`."""
    check_teacher(teacher)
    alpha, dimension, seed = place
    n, rows = n_samples(alpha, dimension), []
    X, y, truth = teacher.sample(n, dimension, seed)
    for one in estimators:
        columns = dict(one.columns)
        if columns.get("ridge") == "optimal":
            columns["ridge"] = one.rows(teacher, [float(alpha)])[0]["ridge"]
        weights, b, status = late(one.fitted_by)(X, y, teacher.n_classes, one, columns.get("ridge"))
        wrong = float(np.mean((X @ weights / math.sqrt(dimension) + b).argmax(1) != y))
        row = make_row(
            source="erm", **teacher.columns, **columns, alpha=float(alpha), training_error=wrong,
            status=status, dimension=dimension, n_samples=n, seed=seed,
            **_measured(weights, truth, teacher, seed, None, None),
        )  # fmt: skip
        rows.append(row)
    return rows


def fit_one_vs_rest(X: Array, y: Any, k: int, rule: Any, ridge: float) -> Fitted:
    """Of two classes with fields (−h/2, h/2) the squared weights are half those of h."""
    status, W, b = Status.OK, [], []
    for c in range(k):
        fit = fit_erm(X, (y == c).astype(int), rule.loss, 2 * ridge, intercept=True, n_classes=2)
        W.append(fit.weights[:, 1] - fit.weights[:, 0])
        b.append(fit.intercepts[1] - fit.intercepts[0])
        status = status if fit.status == Status.OK else fit.status
    return np.stack(W, 1), np.array(b), status


def _means(X: Array, y: Any, k: int) -> Array:
    """Class means (d, k); 0 for a class without samples."""
    return np.asarray(X.T @ np.eye(k)[y] / np.maximum(np.bincount(y, minlength=k), 1))


def fit_class_means(X: Array, y: Any, k: int, rule: Any, ridge: None) -> Fitted:
    """Weights √d μ̂_c."""
    means = math.sqrt(X.shape[1]) * _means(X, y, k)
    return means, -0.5 * (means**2).sum(0) / X.shape[1], Status.OK


def fit_lda(X: Array, y: Any, k: int, rule: Any, ridge: float) -> Fitted:
    """Weights √d (nS/d + λ)⁻¹ n(μ̂_c − μ̂)/d."""
    (n, d), means = X.shape, _means(X, y, k)
    within = X - means.T[y]
    middle = means - X.mean(0)[:, None]
    W = np.linalg.solve(within.T @ within / d + ridge * np.eye(d), middle) * n / d
    quadratic = -0.5 * ((means + X.mean(0)[:, None]) * W).sum(0)
    counts = np.log(np.maximum(np.bincount(y, minlength=k), 1) / n)
    return math.sqrt(d) * W, quadratic + counts, Status.OK


def weights_law(
    population: Population, weights: Array, intercepts: Array, truth: Array
) -> FieldsLaw:
    """The law of the fields of weights (d, k) on fresh samples, `truth` (d, k) as in `Dataset`.

    m_c = Wᵀμ_c/d, Q_c = WᵀΣ_cW/d; a teacher's M = WᵀΣW*/d and R = W*ᵀΣW*/d.
    """
    d, k = weights.shape
    T = difference_basis(k)
    W, b, full = weights @ T, T.T @ intercepts, population.full_features
    channel = population.label_channel
    if channel is None:
        if full is not None:
            Q = np.stack([W.T @ sigma @ W / d for sigma in full[1]])
        else:
            deviations: Array = population.deviations(d)  # type: ignore[attr-defined]
            Q = np.stack([(W * (s * s)[:, None]).T @ W / d for s in deviations])
        return FieldsLaw(population.group_shares, truth.T @ W / d, Q, b)
    root = population.features.deviations(d)  # type: ignore[attr-defined]
    W, Z = W * root, truth @ T * root
    teacher = TeacherFields(W.T @ Z / d, Z.T @ Z / d, T.T @ population.offsets, channel)
    return FieldsLaw(np.ones(1), np.zeros((1, k - 1)), (W.T @ W / d)[None], b, teacher)


def _measured(
    weights: Array, truth: Array, teacher: AnyTeacher, seed: int, test_samples: Any, chances: Any
) -> Row:
    """Overlaps and errors: exact ones, or on new samples where the data were drawn with `seed`."""
    found = overlaps(weights, truth, teacher.features)
    if test_samples is None:
        errors = exact_errors(weights, truth, teacher, seed)
    else:
        errors = counted_errors(weights, truth, teacher, test_samples, seed, chances)
    return {"m": found.m, "q": found.q, **errors}


def draw_single(teacher: AnyTeacher, n: int, d: int, seed: int) -> Dataset:
    """`teacher.sample(n, d, seed)` with X in single precision, never held in double."""
    rng = np.random.default_rng(seed)
    labels = teacher.label_generator(rng)
    X, y = np.empty((n, d), np.float32), np.empty(n, np.int64)
    weights, root = teacher.draw_weights(rng, d), teacher.features.deviations(d).T
    block = max(1, _BLOCK_NUMBERS // d)
    for start in range(0, n, block):
        rows = rng.standard_normal((min(block, n - start), d)) * root
        X[start : start + block] = rows
        y[start : start + block] = teacher.channel.sample(rows @ weights / math.sqrt(d), labels)
    return Dataset(X, y, weights)  # type: ignore[arg-type]  # X in its own precision


def n_samples(alpha: float, dimension: int) -> int:
    """round(αd), 1 or more."""
    n = round(check_alpha(alpha) * check_size(dimension, "dimension"))
    if n < 1:
        raise InvalidInput(f"alpha = {alpha:g} in dimension {dimension} is no sample at all")
    return n


def check_seed(seed: Any) -> int:
    """A seed that can be asked for."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInput(f"the seed must be a whole number of 0 or more, got {seed!r}")
    return int(seed)


# Once for a problem in a process: all of its instances are fitted at the same ridge.
_best_ridge = lru_cache(maxsize=4096)(optimal_ridge)


def exact_errors(weights: Any, truth: Any, teacher: AnyTeacher, seed: int = 0) -> Row:
    """Of weights (d, k) and the teacher's (d, k); `seed` is for integrals that need points."""
    noise, k = teacher.channel, teacher.n_classes
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
    """On `n_samples` new samples; `chances` turns the student's fields (n, k) into p (n, k).

    Children of the training data's seed: 0 draws the noise of training labels, or the new inputs
    where there is no noise; otherwise 1 draws the new inputs and 2 their labels.
    """
    check_size(n_samples, "test_samples")
    noise = teacher.channel
    children = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(3)]
    inputs, labels = (children[0], None) if noise.noiseless else children[1:]
    d, k = truth.shape
    root = teacher.features.deviations(d).T
    scores, bins, wrong = np.zeros(2), np.zeros(_N_BINS), np.zeros(2, dtype=np.int64)
    chunk = max(1, _BLOCK_NUMBERS // d)
    for start in range(0, n_samples, chunk):
        X = inputs.standard_normal((min(chunk, n_samples - start), d)) * root
        own, fields = X @ weights / math.sqrt(d), X @ truth / math.sqrt(d)
        answer, drawn = own.argmax(1), noise.sample(fields, labels)
        wrong += [(answer != drawn).sum(), (answer != fields.argmax(1)).sum()]
        if chances is not None:
            p = chances(own)
            chance, top = p[np.arange(len(p)), drawn], p.max(1)
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
        columns["test_loss"], columns["brier"] = scores[0] / n_samples, 1 + scores[1] / n_samples
        columns["calibration_error"] = float(np.abs(bins).sum()) / n_samples
    return columns
