"""How far data are from a Gaussian mixture with their own moments: their twins.

    own         each class with its own mean and covariance
    pooled      each class with its own mean, one covariance
    isotropic   each class with its own mean and variance
    teacher     one Gaussian with the data's spectrum, labels of a linear rule (`predicted`)

What a fit to n samples of a mixture scores, `twin_point`, has two ways. The equations of the theory
are exact for d → ∞ at n/d; time grows as ((k − 1)d)³. At a finite d they are below the mean by a
part of order 1/d, at 60 correlated features and two samples a feature by a fifth to two fifths.
Fits to samples drawn from the mixture have no such part and an uncertainty from their spread.

A ridge is that of fields wᵀx/√d: LogisticRegression's C is 1/(λd), for two classes 2/(λd), and the
alpha of RidgeClassifier is λd. On r leading directions the ridge is λd/r at n/r: the same fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from polyceptron.checks import as_numbers, check_size
from polyceptron.data.class_moments import ClassMoments, class_moments
from polyceptron.data.labels import class_labels
from polyceptron.display import ShortDisplay
from polyceptron.errors import InvalidInput
from polyceptron.fit.erm import fit_erm
from polyceptron.fit.erm_classifier import ERMClassifier
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import estimate_from_replicates
from polyceptron.pictures import parts as pic
from polyceptron.pictures.matplotlib_figure import Axes, plot_panel
from polyceptron.problem import ERM, Mixture, Teacher
from polyceptron.problem.mixture import COVARIANCES, LARGEST_FULL
from polyceptron.problem.specs import as_erm
from polyceptron.questions.measured_curve import MeasuredErrors, measure_errors
from polyceptron.questions.teacher_of_data import fit_model, theory_errors
from polyceptron.rows import Status
from polyceptron.theory.erm.fixed_point import erm_fixed_point

WAYS = ("auto", "equations", "draws")
MODELS = (*COVARIANCES, "teacher")
N_FRESH_SAMPLES = 4000  # on which a fit to a drawn twin is tested
FEW_SAMPLES_PER_FEATURE = 3.0  # of a class: below it a covariance is poorly known
SMALLEST_PROBABILITY = 1e-15  # of a label: losses are those of at least this much
TOLERANCE_OF_FITS = 1e-4  # small against the spread between draws
# Uncertainty of the teacher's theory, which is sampled above three classes.
THEORY_UNCERTAINTY = 1e-6
SAMPLED_THEORY_UNCERTAINTY = 2e-3
_COLUMNS = ["model", "n_samples", "error", "error_uncertainty", "log_loss", "log_loss_uncertainty"]
_NAMES = {  # in a legend, and in a sentence
    "own": ("own covariances", "a Gaussian mixture with own covariances of the classes"),
    "pooled": ("pooled covariance", "a mixture with a pooled covariance"),
    "isotropic": ("isotropic classes", "a mixture of isotropic classes"),
    "teacher": ("teacher, own spectrum", "a Gaussian teacher with the data's spectrum"),
    "measured": ("measured", ""),
}
LARGEST_MISS = 0.25  # of the measured error, up to which a model is said to describe the data
ADVICE = {
    "own": "The classes differ in their covariances: try a quadratic rule, and ask `twin_point` of "
    "`Mixture.from_data(X, y)` what other ridges or sizes would bring.",
    "pooled": "The classes share their covariance: linear discriminant analysis is made for such "
    "data, and no rule that is not linear will do better.",
    "isotropic": "Within the classes all directions are alike: the means of the classes say all, "
    "and a strong ridge costs little.",
    "teacher": "The labels cut one cloud of samples in parts: `predicted_curve(X, y)` goes on with "
    "this theory to sizes that were not measured.",
    "none": "Trust the measured curve alone, and try a rule that is not linear.",
}


@dataclass(frozen=True, repr=False)
class TwinPoint(ShortDisplay):
    """Scores of a fit to n samples of a mixture; uncertainties hold in 99 of 100 cases.

    `way` is 'equations' or 'draws', `words` says the same with the projection, if there is one.
    """

    n_samples: int
    dimension: int
    generalisation_error: float
    uncertainty: float
    log_loss: float  # NaN for a loss without probabilities
    log_loss_uncertainty: float
    way: str
    words: str
    status: Status


def twin_point(
    mixture: Mixture,
    estimator: Any,
    n_samples: int,
    *,
    way: str = "auto",
    directions: int | None = None,
    draws: int = 8,
    seed: int = 0,
    tol: float | None = None,
) -> TwinPoint:
    """Return how a fit to n samples of a mixture with known means scores on fresh ones.

    Parameters
    ----------
    mixture : Mixture
        A mixture whose means are vectors, which fix the dimension.
    estimator : ERM, Loss or str
    n_samples : int
    way : {'auto', 'equations', 'draws'}
        The equations for d → ∞, or fits to drawn samples. By default the equations, where k·d is
        at most 4000.
    directions : int, optional
        Project the mixture first on so many leading directions of its total covariance.
    draws, seed : int
        How many samples are drawn, and from which seed.
    tol : float, optional
        Of the error by the equations.

    Returns
    -------
    TwinPoint

    Examples
    --------
    >>> two = Mixture((0.5, 0.5), means=[[1, 0, 0], [-1, 0, 0]])
    >>> twin_point(two, "square", 6).way
    'equations'
    """
    if way not in WAYS:
        raise InvalidInput(f"way is {', '.join(WAYS)}, got {way!r}")
    if mixture.means is None:
        raise InvalidInput(
            "a number of samples needs a dimension, which means as vectors have: without them use "
            "erm_fixed_point(mixture, estimator, alpha)"
        )
    spec = as_erm(estimator)
    n = check_size(n_samples, "n_samples")
    d = mixture.means.shape[1]
    if isinstance(spec.ridge, str):
        raise InvalidInput(f"a twin needs a ridge that is a number, got {spec.ridge!r}")
    projection = ""
    if directions is not None:
        mixture, share = projected(mixture, check_size(directions, "directions"))
        if spec.takes_ridge:
            spec = spec.with_ridge(spec.ridge * d / directions)
        projection = f", on {directions} of {d} directions, with {share:.1%} of the variance"
        d = directions
    if way == "equations" or (way == "auto" and mixture.n_classes * d <= LARGEST_FULL):
        return _point_by_equations(mixture, spec, n, d, tol, projection)
    scores = _drawn(mixture, spec, n, d, check_size(draws, "draws"), seed)
    error, error_uncertainty, log_loss, log_loss_uncertainty = scores
    return TwinPoint(
        n_samples=n,
        dimension=d,
        generalisation_error=error,
        uncertainty=error_uncertainty,
        log_loss=log_loss,
        log_loss_uncertainty=log_loss_uncertainty,
        way="draws",
        words=f"{draws} fits to drawn samples{projection}",
        status=Status.OK,
    )


def _point_by_equations(
    mixture: Mixture, spec: ERM, n: int, d: int, tol: float | None, projection: str
) -> TwinPoint:
    """Return the scores by the equations for d → ∞ at n/d."""
    point = erm_fixed_point(mixture, spec, n / d, tol)
    log_loss = math.nan
    log_loss_uncertainty = math.nan
    if _has_probabilities(spec, mixture.n_classes):  # then its loss is the log-loss
        log_loss = point.test_loss
        log_loss_uncertainty = point.test_loss_uncertainty
    return TwinPoint(
        n_samples=n,
        dimension=d,
        generalisation_error=point.generalisation_error,
        uncertainty=point.uncertainty,
        log_loss=log_loss,
        log_loss_uncertainty=log_loss_uncertainty,
        way="equations",
        words=f"equations for d → ∞{projection}",
        status=point.status,
    )


def _has_probabilities(spec: ERM, n_classes: int) -> bool:
    """Tell whether the loss stands for class probabilities."""
    return spec.loss.probabilities(np.zeros((1, n_classes))) is not None


def projected(mixture: Mixture, directions: int) -> tuple[Mixture, float]:
    """Return the mixture on the leading directions of its total covariance.

    Returns
    -------
    Mixture
        With means (k, r) and covariances (k, r, r) in r = `directions` dimensions.
    float
        The share of the variance in these directions.
    """
    means = np.asarray(mixture.means)
    p = mixture.class_shares
    d = means.shape[1]
    if directions > d:
        raise InvalidInput(f"there are {d} directions, got {directions}")
    sigma = mixture.covariances
    if sigma is None:
        sigma = np.stack([np.diag(variances) for variances in mixture.deviations(d) ** 2])
    centred = means - p @ means
    within = np.einsum("c,cab->ab", p, sigma)
    between = (p * centred.T) @ centred
    values, vectors = np.linalg.eigh(within + between)
    U = vectors[:, d - directions :]
    inner = np.stack([U.T @ covariance @ U for covariance in sigma])
    inner = (inner + inner.swapaxes(1, 2)) / 2
    share = float(values[d - directions :].sum() / values.sum())
    return Mixture(p, means=means @ U, covariances=inner), share


def _drawn(mixture: Mixture, spec: ERM, n: int, d: int, draws: int, seed: int) -> list[float]:
    """Return error and log-loss on fresh samples, each with its uncertainty, of fits to draws."""
    if draws < 2:
        raise InvalidInput(f"an uncertainty needs at least 2 draws, got {draws}")
    k = mixture.n_classes
    scores = np.full((2, draws), math.nan)
    for i in range(draws):
        draw_seed = np.random.SeedSequence([seed, n, i])
        X, y, _ = mixture.sample(n + N_FRESH_SAMPLES, d, seed=draw_seed)
        if np.unique(y[:n]).size < k:  # one of each class, as where errors are measured
            first = np.unique(y, return_index=True)[1]
            order = np.concatenate([first, np.setdiff1d(np.arange(len(y)), first)])
            X = X[order]
            y = y[order]
        fit = fit_erm(
            X[:n],
            y[:n],
            spec.loss,
            float(spec.ridge),
            penalty=spec.penalty,
            n_classes=k,
            tol=TOLERANCE_OF_FITS,
            intercept=spec.intercept,
            class_weight=spec.class_weight,
        )
        fields = X[n:] @ fit.weights / math.sqrt(d)
        if fit.intercepts is not None:
            fields = fields + fit.intercepts
        labels = y[n:]
        scores[0, i] = np.mean(fields.argmax(1) != labels)
        chances = spec.loss.probabilities(fields)
        if chances is not None:
            of_labels = chances[np.arange(len(labels)), labels]
            scores[1, i] = -np.mean(np.log(np.maximum(of_labels, SMALLEST_PROBABILITY)))
    return _means(scores)


def _means(scores: Array) -> list[float]:
    """Return the mean of each row of scores (r, draws) and its uncertainty, 2r numbers in turn."""
    numbers: list[float] = []
    for values in scores:
        estimate = estimate_from_replicates(values)
        numbers += [float(estimate.value), float(estimate.uncertainty)]
    return numbers


@dataclass(frozen=True)
class TwinReport:
    """Error and log-loss against n as measured and of the twins, and which twin is nearest.

    Attributes
    ----------
    frame : pandas.DataFrame
        A row for each model and size, with uncertainties that hold in 99 of 100 cases.
    off : pandas.DataFrame
        A row for each model, the nearest first. With the gaps ln(model/measured) of the sizes,
        `error_largest` is the largest gap by size, `n_largest` where it is, `error` the root mean
        square of the gaps and `error_mean` their mean; likewise `log_loss` and `log_loss_mean`.
    sentence : str
        Which model describes the data, or that none does.
    advice : str
        What to do with this answer.
    caveats : tuple of str
        What a twin is not good for.
    """

    frame: pd.DataFrame
    off: pd.DataFrame
    sentence: str
    advice: str
    caveats: tuple[str, ...]

    def __repr__(self) -> str:
        shown = self.frame.pivot_table(index="n_samples", columns="model", values="error")
        words = [self.sentence, self.advice, *self.caveats]
        return "\n".join([shown.round(4).to_string(), "", *words])

    def plot(self, ax: Axes | None = None, score: str = "error", **style: Any) -> Axes:
        """Draw the error (or `score="log_loss"`) against n: models as lines, data as symbols."""
        return plot_panel(twins_panel(self.frame, score), ax, style)


def twins_panel(table: pd.DataFrame, score: str = "error") -> pic.Panel:
    """Return the measured score as symbols and that of each model as a line."""
    traces = []
    for model, colour in zip([*MODELS, "measured"], pic.CYCLE, strict=False):
        rows = table[(table["model"] == model) & table[score].notna()].sort_values("n_samples")
        if rows.empty:
            continue
        trace = pic.trace_of(
            rows,
            "n_samples",
            score,
            f"{score}_uncertainty",
            label=_NAMES[model][0],
            colour=colour,
        )
        if model == "measured":
            trace = replace(trace, kind="symbols", marker="circle", colour="#1a1a1a")
        traces.append(trace)
    sizes = sorted({x for trace in traces for x in trace.x})
    ticks = tuple(sizes[:: max(len(sizes) // 3, 1)])
    words = "error" if score == "error" else "log-loss"
    return pic.Panel(
        tuple(traces),
        pic.Axis("samples learnt from", "log", ticks=ticks),
        pic.Axis(words, "log"),
        legend=pic.Legend(),
    )


def twin_report(
    X: Any,
    y: Any,
    estimator: Any = None,
    *,
    train_sizes: Sequence[float] | None = None,
    models: Sequence[str] = MODELS,
    draws: int = 5,
    random_state: int = 0,
    cv: Any = 5,
    progress: Callable[[str], None] = lambda text: None,
) -> TwinReport:
    """Find which Gaussian model describes data, by their learning curve and those of twins.

    The learning curve of the data is measured by cross-validation, and each fit standardises the
    features. Twins have the moments of all standardised samples; the same classifier is fitted to
    as many samples drawn from them.

    Parameters
    ----------
    X : array_like (n, d)
        Features that are constant do not count.
    y : array_like (n,)
    estimator : ERM or str, optional
        By default cross-entropy with a ridge of 0.1. Intercepts are fitted.
    train_sizes : sequence, optional
        As in `predicted_curve`.
    models : sequence of str
        Some of own, pooled, isotropic and teacher.
    draws : int
        Twins at each size.
    random_state : int
        The seed of folds and draws.
    cv : int or splitter
        Folds by which the data's curve is measured, as in `predicted_curve`.
    progress : callable
        It is called with a text that says what is being done.

    Returns
    -------
    TwinReport

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> found = twin_report(X, y, train_sizes=[0.5, 1.0], models=["own"])
    >>> list(found.frame["model"])
    ['measured', 'measured', 'own', 'own']
    """
    X = as_numbers(X, "X").astype(float)
    if X.ndim != 2:
        raise InvalidInput(f"X must be (samples, features), got shape {X.shape}")
    labels = class_labels(y, len(X))
    if not models or not set(models) <= set(MODELS):
        raise InvalidInput(f"models are {', '.join(MODELS)}, got {models!r}")
    X = X[:, np.ptp(X, axis=0) > 0]
    if X.shape[1] == 0:
        raise InvalidInput("every feature is constant: there is nothing to learn from")
    if estimator is None:
        estimator = ERM()
    spec = replace(as_erm(estimator), intercept=True)
    index = np.unique(labels, return_inverse=True)[1]
    k = int(index.max()) + 1
    d = X.shape[1]
    clf = ERMClassifier(spec.loss, spec.ridge, scaling="standard")  # type: ignore[arg-type]
    measured = measure_errors(
        clf,
        X,
        index,
        train_sizes,
        cv,
        random_state,
        chances=_has_probabilities(spec, k),
        progress=progress,
    )
    Z = (X - X.mean(0)) / X.std(0)
    moments = class_moments(Z, index)
    rows = _measured_rows(measured)
    for model in models:
        if model == "teacher":  # by its theory: a drawn teacher of few directions lacks classes
            progress("the teacher with the data's spectrum")
            rows += _teacher_rows(Z, index, replace(spec, intercept=False), measured)
            continue
        twin = Mixture.from_moments(moments, model)
        for n in measured.sizes.tolist():
            progress(f"twins: {model}, {n} samples")
            rows.append((model, n, *_drawn(twin, spec, n, d, draws, random_state)))
    table = pd.DataFrame(rows, columns=_COLUMNS).assign(dimension=d)
    instances = {"measured": measured.fold.max() + 1, "teacher": 1}  # others have `draws`
    table["instances"] = [instances.get(str(model), draws) for model in table["model"]]
    table["alpha"] = table["n_samples"] / d
    off = _off(table, _half_a_count(measured))
    nearest = off.iloc[0]
    describes = _describes(nearest)
    sentence = _sentence(off, describes)
    advice = ADVICE[str(nearest["model"]) if describes else "none"]
    return TwinReport(table, off, sentence, advice, _caveats(moments, d))


_Scored = tuple[Any, ...]  # a row with the columns _COLUMNS


def _half_a_count(measured: MeasuredErrors) -> float:
    """Return the error of half a mistake among the held-out samples."""
    return 0.5 / measured.fold.size


def _measured_rows(measured: MeasuredErrors) -> list[_Scored]:
    """Return error and log-loss at each size, with uncertainties from the folds."""
    losses = replace(measured, wrong=measured.losses).folds
    rows: list[_Scored] = []
    for n, error, loss in zip(measured.sizes, measured.folds, losses, strict=True):
        rows.append(("measured", int(n), *_means(np.array([error, loss]))))
    return rows


def _teacher_rows(Z: Array, index: Any, spec: ERM, measured: MeasuredErrors) -> list[_Scored]:
    """Return the theory's error at each size, of a teacher fitted to the measured errors."""
    k = int(index.max()) + 1
    alphas = measured.sizes / Z.shape[1]
    half = _half_a_count(measured)
    fit = fit_model(Z, index, Teacher(k), spec, alphas, measured.errors, half)
    errors = theory_errors(fit.teacher, spec, alphas)
    uncertainty = THEORY_UNCERTAINTY
    if k > 3:
        uncertainty = SAMPLED_THEORY_UNCERTAINTY
    rows: list[_Scored] = []
    for n, error in zip(measured.sizes.tolist(), errors.tolist(), strict=True):
        rows.append(("teacher", n, error, uncertainty, math.nan, math.nan))
    return rows


def _describes(nearest: pd.Series[Any]) -> bool:
    """Return whether the nearest model is near enough at every size, or as far as is known."""
    largest = abs(nearest["error_largest"])
    return bool(largest <= max(math.log1p(LARGEST_MISS), nearest["known_to"]))


def _sentence(off: pd.DataFrame, describes: bool) -> str:
    """Say which model describes the data, and how far each deviates from them."""
    models = []
    for row in off.to_dict("records"):
        worst = math.expm1(row["error_largest"])
        facts = f"{worst:+.0%} at {row['n_largest']:.0f} samples"
        log_loss = math.expm1(row["log_loss_mean"])
        if math.isfinite(log_loss):
            facts += f", log-loss {log_loss:+.0%} on average"
        models.append(f"{_NAMES[row['model']][1]} ({facts})")
    ranking = ", then ".join(models)
    if describes:
        return f"Ranked by the largest deviation from the measured error: {ranking}."
    return (
        "No Gaussian model describes these data. Ranked by the largest deviation from the "
        f"measured error: {ranking}."
    )


def _caveats(moments: ClassMoments, d: int) -> tuple[str, ...]:
    """Say what the twins are not good for."""
    caveats = [
        "A twin describes the sizes that were measured; tails that are not Gaussian make its "
        "log-loss up to 20 % too low."
    ]
    samples_per_feature = float(moments.counts.min()) / d
    if samples_per_feature < FEW_SAMPLES_PER_FEATURE:
        caveats.append(
            f"The smallest class has {samples_per_feature:.2g} samples a feature and covariances "
            f"are shrunk by up to {float(moments.shrinkage().max()):.0%}: a twin of so few is too "
            "easy, and beyond the measured sizes its forecast is several times too optimistic."
        )
    return tuple(caveats)


def _off(table: pd.DataFrame, least: float) -> pd.DataFrame:
    """Return for each model how far ln of error and log-loss are from the measured ones.

    The models are ordered by their largest gap at any size. `known_to` is the share of the error
    at that size that the uncertainties of model and measurement explain. `least` is half a count,
    added before logarithms are taken.
    """
    real = table[table["model"] == "measured"].sort_values("n_samples")
    rows = []
    for model, part in table[table["model"] != "measured"].groupby("model", sort=False):
        own = part.sort_values("n_samples")
        gaps = _gaps(own, real, "error", least)
        log_loss_gaps = _gaps(own, real, "log_loss", least)
        worst = int(np.abs(gaps).argmax())
        uncertainty = math.hypot(
            own["error_uncertainty"].iloc[worst], real["error_uncertainty"].iloc[worst]
        )
        rows.append(
            {
                "model": model,
                "error_largest": float(gaps[worst]),
                "n_largest": float(own["n_samples"].iloc[worst]),
                "known_to": uncertainty / (real["error"].iloc[worst] + least),
                "error": _root_mean_square(gaps),
                "error_mean": float(gaps.mean()),
                "log_loss": _root_mean_square(log_loss_gaps),
                "log_loss_mean": float(log_loss_gaps.mean()),
            }
        )
    off = pd.DataFrame(rows)
    order = off["error_largest"].abs().sort_values().index
    return off.loc[order].reset_index(drop=True)


def _gaps(model: pd.DataFrame, measured: pd.DataFrame, score: str, least: float) -> Array:
    """Return ln(model/measured) of a score at each size, shape (s,)."""
    own = model[score].to_numpy(dtype=float)
    real = measured[score].to_numpy(dtype=float)
    return np.asarray(np.log(own + least) - np.log(real + least))


def _root_mean_square(gaps: Array) -> float:
    return float(np.sqrt(np.mean(gaps**2)))
