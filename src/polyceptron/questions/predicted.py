"""A user's measured learning curve beside the theory that knows most of the data.

measured:   1 − accuracy by cross-validation, at growing numbers n of training samples
theory:     the exact error of the matching estimator (`matching`) at the same k and α = n/d, for
            Gaussian inputs with the data's own spectrum and one fitted number (`teacher_of_data`)
forecast:   laws through the measured points (`forecast`)
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from polyceptron.checks import as_numbers
from polyceptron.data.labels import class_labels
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.pictures.curves import curves_panel
from polyceptron.pictures.matplotlib_figure import Axes, plot_panel
from polyceptron.pictures.parts import Legend, Trace, numbers
from polyceptron.problem import Estimator
from polyceptron.questions.curve import curve_text
from polyceptron.questions.forecast import Forecast, forecast
from polyceptron.questions.matching import described_features, matching_theory
from polyceptron.questions.measured_curve import MeasuredErrors, measure_errors
from polyceptron.questions.teacher_of_data import ModelFit, fit_model, theory_errors, theory_rows
from polyceptron.rows import Row, Status, frame, make_row

# Misfit from which theory and data differ by more than a quarter: the curve is not a prediction.
LARGEST_MISFIT_OF_A_PREDICTION = 0.25
TIMES_THE_DATA = (2, 10)  # for which the outlook gives an error
N_POINTS_OF_THE_LINE = 12  # of the theory between the measured sizes, where a point is cheap


@dataclass(frozen=True, repr=False)
class PredictedCurve:
    """Measured and theoretical errors in `frame`; `assumption` says what the theory presumes.

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
        """Return the root mean square of ln(theory/measured) over the measured sizes."""
        return self.model.misfit

    def plot(self, ax: Axes | None = None, **style: object) -> Axes:
        """Draw the measured errors, the theory and the forecast.

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default a new figure of pyplot.
        **style
            Keywords of matplotlib's `plot` for every line.

        Returns
        -------
        matplotlib axes
        """
        # Columns of the teacher hold for the theory alone and would split the measured series.
        of_the_teacher = ["model", "prior", "noise", "features", "ridge"]
        table = self.frame.drop(columns=of_the_teacher, errors="ignore")
        panel = curves_panel(table, log_x=True)
        theory, measured = panel.traces
        theory = replace(theory, label="theory, own spectrum")
        measured = replace(measured, label="measured (cross-validation)", in_legend=True)
        alphas = np.geomspace(measured.x[0], measured.x[-1], 40)
        dimension = float(self.frame["dimension"].dropna().iloc[0])
        going_on = Trace(
            numbers(alphas),
            numbers(self.forecast(alphas * dimension)),
            colour="#737373",
            dash="dot",
            label="forecast",
        )
        title = f"Theory of a linear rule on Gaussian inputs\nmisfit {self.misfit:.2g}"
        if self.misfit > LARGEST_MISFIT_OF_A_PREDICTION:
            title += ": not a prediction of these data"
        panel = replace(panel, traces=(theory, measured, going_on), legend=Legend(), title=title)
        return plot_panel(panel, ax, style)

    def __repr__(self) -> str:
        return f"{curve_text(self._shown())}\n{self.assumption}\n{self.answers()}"

    def _repr_html_(self) -> str:
        answers = self.answers().replace("\n", "<br>")
        table = curve_text(self._shown(), html=True)
        return f"{table}<p>{self.assumption}</p><p>{answers}</p>"

    def _shown(self) -> pd.DataFrame:
        """Return the table without the teacher's long columns, which `assumption` has in words."""
        return self.frame.drop(columns=["noise", "features"], errors="ignore")

    def answers(self) -> str:
        """Return in words what twice and ten times the data would bring."""
        return "\n".join(
            f"{row.times:g} times the data ({row.n_samples} samples): error {row.forecast:.3g} "
            f"by the forecast (90 % band: {row.low:.3g} to {row.high:.3g}), "
            f"{row.theory:.3g} by the theory."
            for row in self.outlook.itertuples()
        )


def predicted_curve(
    clf: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    train_sizes: Sequence[float] | None = None,
    cv: int | Iterable[tuple[ArrayLike, ArrayLike]] = 5,
    random_state: int | np.random.RandomState | None = 0,
    n_jobs: int | None = None,
) -> PredictedCurve:
    """Measure the learning curve of `clf` and lay theory and a forecast beside it.

    Parameters
    ----------
    clf : classifier
        AMPClassifier, ERMClassifier, scikit-learn's LogisticRegression or RidgeClassifier, a
        Pipeline that ends in one of them, or a GridSearchCV over its ridge. Refused are cases that
        the theory does not describe: a step that changes the number of features, an L1 penalty,
        features that were not standardised.
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
    >>> model = ERMClassifier("square", ridge=1.0)
    >>> curve = predicted_curve(model, X, y, train_sizes=[0.5, 1.0])
    >>> sorted(set(curve.frame["source"])), list(curve.outlook["times"])
    (['measured', 'theory'], [2, 10])
    """
    X = as_numbers(X, "X").astype(float)
    if X.ndim != 2:
        raise InvalidInput(f"X must be (samples, features), got shape {X.shape}")
    y = class_labels(y, len(X))
    k = np.unique(y).size
    matching_theory(clf, k, X.shape[1])  # a classifier without a theory is refused before any work
    Z = described_features(clf, X, y)
    d = Z.shape[1]
    teacher, estimator = matching_theory(clf, k, d)
    measured = measure_errors(clf, X, y, train_sizes, cv, random_state, n_jobs)
    half_a_mistake = 0.5 / measured.fold.size
    alphas = measured.sizes / d
    model = fit_model(Z, y, teacher, estimator, alphas, measured.errors, half_a_mistake)
    law = forecast(measured.sizes, measured.folds, half_a_mistake, len(X))
    rows = _measured_rows(measured, k, d, estimator)
    rows += theory_rows(model.teacher, estimator, _alphas_of_theory(alphas, k))
    effective_dimension = d**2 / float(((Z.T @ Z / len(Z)) ** 2).sum())
    return PredictedCurve(
        frame=frame(rows),
        assumption=_assumption(model, k, d, effective_dimension),
        effective_dimension=effective_dimension,
        model=model,
        forecast=law,
        outlook=_outlook(law, model, estimator, len(X), d),
    )


def _measured_rows(
    measured: MeasuredErrors, n_classes: int, dimension: int, estimator: Estimator
) -> list[Row]:
    """Return one row for each measured size: the mean over the folds and its standard error."""
    ridge = estimator.columns.get("ridge", "optimal")
    columns_of_ridge = {}
    if ridge != "optimal":
        columns_of_ridge["ridge"] = ridge
    rows = []
    per_size = zip(measured.sizes, measured.folds, measured.training, strict=True)
    for n, errors_of_folds, training in per_size:
        errors = errors_of_folds[np.isfinite(errors_of_folds)]
        standard_error = math.nan
        if errors.size > 1:
            standard_error = errors.std(ddof=1) / math.sqrt(errors.size)
        status = Status.OK
        if errors.size < errors_of_folds.size:
            status = Status.TOLERANCE_NOT_MET
        row = make_row(
            source="measured",
            alpha=float(n / dimension),
            n_classes=n_classes,
            estimator=estimator.name,
            dimension=dimension,
            **columns_of_ridge,
            n_samples=int(n),
            generalisation_error=float(errors.mean()),
            generalisation_error_standard_error=float(standard_error),
            training_error=float(np.nanmean(training)),
            status=status,
        )
        row["instances"] = errors.size
        rows.append(row)
    return rows


def _alphas_of_theory(alphas: Array, n_classes: int) -> list[float]:
    """Return where the theory is drawn: at the measured α, and between them if k ≤ 3."""
    places = set(alphas.tolist())
    if n_classes <= 3:
        places.update(np.geomspace(alphas[0], alphas[-1], N_POINTS_OF_THE_LINE).tolist())
    return sorted(places)


def _outlook(
    law: Forecast, model: ModelFit, estimator: Estimator, n_samples: int, dimension: int
) -> pd.DataFrame:
    """Return what forecast and theory predict for several times the data, one row each."""
    sizes = np.array([times * n_samples for times in TIMES_THE_DATA])
    low, high = law.band(sizes)
    return pd.DataFrame(
        {
            "times": TIMES_THE_DATA,
            "n_samples": sizes,
            "forecast": law(sizes),
            "low": low,
            "high": high,
            "theory": theory_errors(model.teacher, estimator, sizes / dimension),
        }
    )


def _assumption(model: ModelFit, n_classes: int, dimension: int, effective: float) -> str:
    """Return in words what the theory presumes and how far it is from the data."""
    text = (
        f"Theory: {dimension} Gaussian inputs with {model.words}; labels are the argmax of "
        f"{n_classes} linear fields. Correlations leave an effective dimension of "
        f"{effective:.3g}. Misfit {model.misfit:.2g}: theory and measurement differ by a factor of "
        f"about {math.exp(model.misfit):.3g}."
    )
    if model.misfit > LARGEST_MISFIT_OF_A_PREDICTION:
        text += " The data are far from this model: do not read its curve as a prediction."
    return text
