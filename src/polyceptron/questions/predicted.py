"""A user's measured learning curve beside the theory that knows most of the data.

    measured:   1 − accuracy by cross-validation, at growing numbers n of training samples
    theory:     the exact error of the matching estimator at the same k and α = n/d, for Gaussian
                inputs with the data's own spectrum and signal, and one fitted number
    forecast:   laws through the measured points (`measured_curve`)

The number is fitted so that theory and measurement agree on average over the measured sizes, in the
logarithm of the error: the variance Δ of Gaussian noise of the labels where the data are harder
than the noiseless teacher, an alignment γ, sθ → sθ·s^γ (more signal where s is large), where they
are easier. Data are not Gaussian, and on most data sets the theory misses the error by more than
its own digits. The rest of the distance is the misfit, the root mean square of ln(theory/measured).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from polyceptron.checks import as_numbers
from polyceptron.data.labels import class_labels
from polyceptron.errors import InvalidInput
from polyceptron.fit.amp_classifier import AMPClassifier
from polyceptron.fit.erm_classifier import ERMClassifier
from polyceptron.numerics import Array
from polyceptron.pictures.curves import curves_panel
from polyceptron.pictures.matplotlib_figure import Axes, plot_panel
from polyceptron.pictures.parts import Legend, Trace, numbers
from polyceptron.problem import ERM, BayesOptimal, Estimator, GaussianNoise, Spectrum, Teacher
from polyceptron.problem.losses import as_loss
from polyceptron.questions.curve import curve_text
from polyceptron.questions.curve_rows import curve_rows
from polyceptron.questions.forecast import Forecast, forecast
from polyceptron.questions.measured_curve import measure_errors
from polyceptron.rows import Row, Status, frame, make_row

_RIDGES = ("C", "alpha", "ridge")  # what the squared penalty is called
_MOST_ALIGNED, _MOST_NOISE = 4.0, 100.0
_FAR = 0.25  # misfit from which the data are called far from the model
_MORE = (2, 10)  # times the data


def matching_theory(clf: Any, n_classes: int, dimension: int) -> tuple[Teacher, Estimator]:
    """The teacher and the estimator whose theory describes `clf` on standardised features."""
    from sklearn.linear_model import LogisticRegression, RidgeClassifier

    last, _, searched = _unwrapped(clf)
    if isinstance(last, AMPClassifier):
        return Teacher(n_classes, last.prior), BayesOptimal()
    if isinstance(last, ERMClassifier):
        loss, ridge = last.loss, last.ridge
        if as_loss(loss).scale_free:
            searched, ridge = False, 0.0
    elif isinstance(last, LogisticRegression):
        ratio = getattr(last, "l1_ratio", None)
        mixed = {"l1": True, "elasticnet": ratio != 0, "deprecated": ratio not in (None, 0)}
        if mixed.get(str(last.penalty)):
            raise InvalidInput(
                f"LogisticRegression with an L1 penalty (penalty={last.penalty!r}, "
                f"l1_ratio={ratio!r}) is not described: the theory has a squared one, penalty='l2'"
            )
        # Its penalty ‖w‖²/2C is on weights w = W/√d; two classes share one w: ‖W‖² = d‖w‖²/2.
        half = 2 if n_classes == 2 else 1
        loss, ridge = "cross-entropy", 0.0 if last.penalty is None else half / last.C / dimension
    elif isinstance(last, RidgeClassifier):
        loss, ridge = "square", last.alpha / dimension
    else:
        raise InvalidInput(
            f"no theory matches {type(last).__name__}: allowed are AMPClassifier, ERMClassifier, "
            "LogisticRegression and RidgeClassifier, alone, at the end of a Pipeline or in a "
            "GridSearchCV over their ridge"
        )
    best = searched or ridge == "auto"
    return Teacher(n_classes), ERM(loss, "optimal" if best else ridge)  # type: ignore[arg-type]


def described_features(clf: Any, X: Array, y: Any) -> Array:
    """The features (n, d) that the last step sees, varying and standardised."""
    from sklearn.base import clone

    last, before, _ = _unwrapped(clf)
    seen = X
    for name, step in before:
        if step is None or step == "passthrough":
            continue
        count = seen.shape[1]
        seen = np.asarray(clone(step).fit_transform(seen, y), dtype=float)
        if seen.shape[1] != count:
            raise InvalidInput(
                f"the step {name!r} changes the number of features from {count} to "
                f"{seen.shape[1]}, which the theory does not follow: apply it to X first"
            )
    deviation = seen.std(0)
    varying = deviation > 1e-9 * max(1.0, float(np.abs(seen).max()))
    if not varying.any():
        raise InvalidInput("every feature is constant: there is nothing to learn from")
    seen, deviation = seen[:, varying], deviation[varying]
    own = getattr(last, "scaling", "none") in ("auto", "standard")  # it does so itself
    if not own and np.abs(deviation - 1).max() > 0.02:
        worst = float(deviation[np.abs(np.log(deviation)).argmax()])
        raise InvalidInput(
            f"the features were not standardised (one has a standard deviation of {worst:.3g}), "
            f"and a ridge means another thing for each of them: put a StandardScaler before "
            f"{type(last).__name__}"
        )
    return np.asarray((seen - seen.mean(0)) / deviation)


def _unwrapped(clf: Any) -> tuple[Any, list[tuple[str, Any]], bool]:
    """The classifier itself, the steps before it, and whether its ridge is searched for."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import Pipeline

    searched = isinstance(clf, GridSearchCV)
    if searched:
        grids = clf.param_grid if isinstance(clf.param_grid, list) else [clf.param_grid]
        names = {name for grid in grids for name in grid if name.split("__")[-1] not in _RIDGES}
        if names:
            raise InvalidInput(
                f"the GridSearchCV searches over {min(names)!r}: the theory follows a search over "
                f"the ridge alone ({', '.join(_RIDGES)})"
            )
        clf = clf.estimator
    steps = clf.steps if isinstance(clf, Pipeline) else [("", clf)]
    return steps[-1][1], steps[:-1], searched


class ModelFit(NamedTuple):
    """The teacher with its fitted number, in words, and the misfit on the measured sizes."""

    teacher: Teacher
    noise: float
    alignment: float
    misfit: float
    words: str


def fit_model(
    Z: Array,
    y: object,
    teacher: Teacher,
    estimator: Estimator,
    alphas: Array,
    errors: Array,
    least: float,
) -> ModelFit:
    """From standardised features Z (n, d) and labels, and errors measured at α (s,)."""
    spectrum, words = Teacher(2).features, "independent features"
    if teacher.prior.gaussian:
        try:
            spectrum, words = Spectrum.from_data(Z, y), "the spectrum and the signal of the data"
        except InvalidInput:  # too few samples, or no linear signal to be seen
            spectrum, words = Spectrum.from_data(Z), "the spectrum of the data, equal signal"
    slow = teacher.n_classes > 3 or estimator.columns.get("ridge") == "optimal"
    chosen = slice(None)
    if slow and not (estimator.explicit or estimator.branches):
        # A point takes seconds: one in the middle has to do.
        chosen = slice(len(alphas) // 2, len(alphas) // 2 + 1)

    def made(noise: float, tilt: float) -> Teacher:
        s, share = spectrum.eigenvalues, np.append(spectrum.fraction, 1 - spectrum.rank)
        signal = np.append(spectrum.signal * s**tilt, 0.0)
        tilted = Spectrum(np.append(s, 0.0), signal, share) if tilt else spectrum
        return Teacher(teacher.n_classes, teacher.prior, GaussianNoise(noise), tilted)

    def distance(noise: float, tilt: float, at: slice = chosen) -> Array:
        """ln(theory/measured) at the chosen sizes, or at others."""
        found = theory_errors(made(noise, tilt), estimator, alphas[at])
        return np.log(found + least) - np.log(errors[at] + least)

    noise, tilt = _balance(lambda *parts: float(distance(*parts).mean()), not spectrum.isotropic)
    misfit = float(np.sqrt(np.mean(distance(noise, tilt, slice(None)) ** 2)))
    words += f", noise of variance {noise:.3g}" if noise else ", no noise"
    words += f", alignment {tilt:.2g}" if tilt else ""
    return ModelFit(made(noise, tilt), noise, tilt, misfit, words)


def theory_errors(teacher: Teacher, estimator: Estimator, alphas: Array) -> Array:
    """ε of the theory at each α."""
    rows = _theory_rows(teacher, estimator, alphas.tolist())
    return np.array([row["generalisation_error"] for row in rows])


def _theory_rows(teacher: Teacher, estimator: Estimator, alphas: list[float]) -> list[Row]:
    """As exact as a plot needs: the theory of k ≥ 4 samples."""
    return curve_rows(teacher, estimator, alphas, tol=2e-3 if teacher.n_classes > 3 else None)


def _balance(gap: Callable[[float, float], float], tilts: bool) -> tuple[float, float]:
    """Noise Δ and tilt γ, one of them 0, at which the mean gap vanishes, or their end."""
    if gap(0.0, 0.0) > 0:  # the theory errs more than the data
        if not tilts or gap(0.0, _MOST_ALIGNED) > 0:
            return 0.0, _MOST_ALIGNED if tilts else 0.0
        return 0.0, float(brentq(lambda t: gap(0.0, t), 0.0, _MOST_ALIGNED, xtol=0.05))
    if gap(_MOST_NOISE, 0.0) < 0:
        return _MOST_NOISE, 0.0
    root = brentq(lambda x: gap(math.expm1(x), 0.0), 0.0, math.log1p(_MOST_NOISE), xtol=0.002)
    return math.expm1(float(root)), 0.0


@dataclass(frozen=True, repr=False)
class PredictedCurve:
    """Measured and theoretical errors in `frame`, and in `assumption` what the latter presumes.

    `model` is the fitted teacher with its misfit, `forecast` the laws through the measured points,
    `outlook` what both predict for twice and ten times the data, with the band of the forecast.
    `effective_dimension` is (Σλ)²/Σλ² of the features' correlation matrix: d for independent
    features, less for correlated ones.
    """

    frame: pd.DataFrame
    assumption: str
    effective_dimension: float
    model: ModelFit
    forecast: Forecast
    outlook: pd.DataFrame

    @property
    def misfit(self) -> float:
        """The root mean square of ln(theory/measured) over the measured sizes."""
        return self.model.misfit

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Symbols, lines of theory and forecast, and words, on `ax` or a new figure of pyplot."""
        # The teacher is the theory's alone: it does not tell what was measured from it.
        alone = ["model", "prior", "noise", "features", "ridge"]
        panel = curves_panel(self.frame.drop(columns=alone, errors="ignore"), log_x=True)
        theory, measured = panel.traces
        theory = replace(theory, label="theory, own spectrum")
        measured = replace(measured, label="measured (cross-validation)", in_legend=True)
        n = np.geomspace(measured.x[0], measured.x[-1], 40)
        values = self.forecast(n * float(self.frame["dimension"].dropna().iloc[0]))
        look: Any = {"colour": "#737373", "dash": "dot", "label": "forecast"}
        traces = (theory, measured, Trace(numbers(n), numbers(values), **look))
        # Two lines; `assumption` has all of it.
        title = f"Theory of a linear rule on Gaussian inputs\nmisfit {self.misfit:.2g}"
        far = ": not a prediction of these data" if self.misfit > _FAR else ""
        panel = replace(panel, traces=traces, legend=Legend(), title=title + far)
        return plot_panel(panel, ax, style)

    def __repr__(self) -> str:
        shown = self.frame.drop(columns=["noise", "features"], errors="ignore")
        return f"{curve_text(shown)}\n{self.assumption}\n{self.answers()}"

    def _repr_html_(self) -> str:
        shown = self.frame.drop(columns=["noise", "features"], errors="ignore")
        words = self.answers().replace("\n", "<br>")
        return f"{curve_text(shown, html=True)}<p>{self.assumption}</p><p>{words}</p>"

    def answers(self) -> str:
        """Twice and ten times the data, in words."""
        return "\n".join(
            f"{row.times:g} times the data ({row.n_samples} samples): error {row.forecast:.3g} "
            f"by the forecast (90 in 100: between {row.low:.3g} and {row.high:.3g}), "
            f"{row.theory:.3g} by the theory."
            for row in self.outlook.itertuples()
        )


def predicted_curve(
    clf: Any,
    X: Any,
    y: Any,
    *,
    train_sizes: Sequence[float] | None = None,
    cv: Any = 5,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> PredictedCurve:
    """Measure the learning curve of `clf` and lay theory and a forecast beside it.

    Parameters
    ----------
    clf : classifier
        AMPClassifier, ERMClassifier, scikit-learn's LogisticRegression or RidgeClassifier, a
        Pipeline that ends in one of them, or a GridSearchCV over its ridge. What the theory does
        not describe (a step that changes the number of features, an L1 penalty, features that were
        not standardised) is refused.
    X : array_like (n, d)
        Features that are constant do not count in d.
    y : array_like (n,)
    train_sizes, cv, random_state, n_jobs
        As in `sklearn.model_selection.learning_curve`.

    Returns
    -------
    PredictedCurve

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from polyceptron import ERMClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> curve = predicted_curve(ERMClassifier("square", ridge=1.0), X, y, train_sizes=[0.5, 1.0])
    >>> sorted(set(curve.frame["source"])), list(curve.outlook["times"])
    (['measured', 'theory'], [2, 10])
    """
    X = as_numbers(X, "X").astype(float)
    if X.ndim != 2:
        raise InvalidInput(f"X must be (samples, features), got shape {X.shape}")
    y = class_labels(y, len(X))
    k = np.unique(y).size
    matching_theory(clf, k, X.shape[1])  # its error messages before any work
    d = (Z := described_features(clf, X, y)).shape[1]
    teacher, estimator = matching_theory(clf, k, d)
    found = measure_errors(clf, X, y, train_sizes, cv, random_state, n_jobs)
    least, alphas = 0.5 / found.fold.size, found.sizes / d
    model = fit_model(Z, y, teacher, estimator, alphas, found.errors, least)
    common = {"n_classes": k, "estimator": estimator.name, "dimension": d}
    common |= {n: v for n, v in estimator.columns.items() if n == "ridge" and v != "optimal"}
    rows = []
    for n, fold, training in zip(found.sizes, found.folds, found.training, strict=True):
        good = fold[np.isfinite(fold)]
        spread = good.std(ddof=1) / math.sqrt(good.size) if good.size > 1 else math.nan
        row = make_row(
            source="measured",
            alpha=float(n / d),
            **common,
            n_samples=int(n),
            generalisation_error=float(good.mean()),
            uncertainty=float(spread),
            training_error=float(np.nanmean(training)),
            status=Status.OK if good.size == fold.size else Status.TOLERANCE_NOT_MET,
        )
        rows.append(row | {"instances": good.size})
    grid = {*alphas.tolist(), *np.geomspace(alphas[0], alphas[-1], 12 * (k <= 3)).tolist()}
    rows += _theory_rows(model.teacher, estimator, sorted(grid))
    effective = 1 / float(((Z.T @ Z / len(Z)) ** 2).sum()) * d**2
    law = forecast(found.sizes, found.folds, least, len(X))
    sizes = np.array([times * len(X) for times in _MORE])
    low, high = law.band(sizes)
    outlook = pd.DataFrame(
        {"times": _MORE, "n_samples": sizes, "forecast": law(sizes), "low": low, "high": high}
        | {"theory": theory_errors(model.teacher, estimator, sizes / d)}
    )
    text = (
        f"Theory: {d} Gaussian inputs with {model.words}; labels are the argmax of {k} linear "
        f"fields. Correlations leave an effective dimension of {effective:.3g}. "
        f"Misfit {model.misfit:.2g}: theory and measurement differ by a factor of about "
        f"{math.exp(model.misfit):.3g}."
    )
    if model.misfit > _FAR:
        text += " The data are far from this model: do not read its curve as a prediction."
    return PredictedCurve(frame(rows), text, effective, model, law, outlook)
