"""A user's measured learning curve beside the theory for Gaussian inputs.

    measured:  1 − accuracy by cross-validation, at growing numbers n of training samples
    theory:    the exact error of the matching estimator at the same k and α = n/d

The theory knows nothing of the data but k, n and d. It assumes independent Gaussian inputs and
labels without noise; data have neither, so the two curves answer different questions: the distance
between them says how far the data are from that idealisation, not how good the classifier is.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.model import ERM, BayesOptimal, Teacher
from polyceptron.report.curve_words import curve_html, curve_text
from polyceptron.report.pictures.curves import curves_panel
from polyceptron.report.pictures.matplotlib_figure import check_style, draw_panel, notebook_axes
from polyceptron.report.pictures.parts import Legend, Panel, Picture
from polyceptron.report.style import style as house_style
from polyceptron.rows import Status, frame, make_row
from polyceptron.theory import curve_rows

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_THEORY_POINTS = 12
_MANY_CLASSES_TOL = 2e-3  # enough for a plot; the theory of k ≥ 4 samples


@dataclass(frozen=True, repr=False)
class PredictedCurve:
    """Measured and theoretical errors in `frame`, and in `assumption` what the latter presumes.

    `effective_dimension` is (Σλ)²/Σλ² of the features' correlation matrix: d for independent
    features, less for correlated ones.
    """

    frame: pd.DataFrame
    assumption: str
    effective_dimension: float

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Symbols for what was measured, a line for the theory, and its assumption in words.

        Without `ax`, on a new figure of pyplot, which a notebook shows; `style` is matplotlib's.
        """
        check_style(style)
        panel = _panel(self)
        ax = notebook_axes(Picture((panel,))) if ax is None else ax
        with house_style():
            draw_panel(ax, panel, [style])
        return ax

    def __repr__(self) -> str:
        return f"{curve_text(self.frame)}\n{self.assumption}"

    def _repr_html_(self) -> str:
        return f"{curve_html(self.frame)}<p>{self.assumption}</p>"


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
    """Measure the learning curve of `clf` on X (n, d), y (n,) and predict it for Gaussian inputs.

    `clf` is an AMPClassifier, an ERMClassifier, scikit-learn's LogisticRegression or
    RidgeClassifier, or a pipeline that ends in one of them. `train_sizes`, `cv`, `random_state` and
    `n_jobs` are those of `sklearn.model_selection.learning_curve`. Features that are constant do
    not count in d.

    >>> from sklearn.datasets import load_wine
    >>> from polyceptron import ERMClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> curve = predicted_curve(ERMClassifier("square", ridge=1.0), X, y, train_sizes=[0.5, 1.0])
    >>> sorted(set(curve.frame["source"]))
    ['measured', 'theory']
    """
    import pandas as pd

    X, y = np.asarray(X, dtype=float), np.asarray(y)
    if X.ndim != 2 or y.shape != (X.shape[0],):
        raise InvalidInput(
            f"X must be (samples, features) and y (samples,), got {X.shape}, {y.shape}"
        )
    k = np.unique(y).size
    if k < 2:
        raise InvalidInput("a learning curve needs labels of at least two classes")
    varying = X.std(0) > 0
    d = int(varying.sum())
    if d == 0:
        raise InvalidInput("every feature is constant: there is nothing to learn from")
    teacher, estimator = matching_theory(clf, k, d)
    measured = _measure(clf, X, y, train_sizes, cv, random_state, n_jobs)
    folds = [point.pop("folds") for point in measured]
    common = {"n_classes": k, "estimator": estimator.name, "dimension": d}
    # A ridge chosen by the data differs from point to point: the theory's best one stands for it.
    number = estimator.ridge if isinstance(estimator, ERM) else "none"
    ridge = {} if isinstance(number, str) else {"ridge": number}
    rows = [
        make_row(source="measured", alpha=point["n_samples"] / d, **common, **ridge, **point)
        for point in measured
    ]
    alphas = [row["alpha"] for row in rows]
    grid = sorted({*alphas, *np.geomspace(alphas[0], alphas[-1], _THEORY_POINTS)})
    tol = _MANY_CLASSES_TOL if k > 3 else None
    theory = curve_rows(teacher, estimator, grid, tol=tol)
    effective = _effective_dimension(X[:, varying])
    table = frame([*rows, *theory])
    table["instances"] = pd.Series([*folds, *[None] * len(theory)], dtype="Int64")
    return PredictedCurve(table, _assumption(k, d, effective), effective)


def matching_theory(clf: Any, n_classes: int, dimension: int) -> tuple[Teacher, ERM | BayesOptimal]:
    """The teacher and the estimator whose theory describes `clf` on standardised features."""
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.pipeline import Pipeline

    from polyceptron.algorithms.classifiers import AMPClassifier, ERMClassifier

    last = clf.steps[-1][1] if isinstance(clf, Pipeline) else clf
    teacher = Teacher(n_classes)
    if isinstance(last, AMPClassifier):
        return Teacher(n_classes, last.prior), BayesOptimal()
    if isinstance(last, ERMClassifier):
        margin = str(last.loss).replace("_", "-") == "max-margin"
        ridge = "optimal" if last.ridge == "auto" else last.ridge
        return teacher, ERM(last.loss, 0.0 if margin else ridge)  # type: ignore[arg-type]
    if isinstance(last, LogisticRegression):
        # Its penalty ‖w‖²/2C is on weights w = W/√d; two classes share one w: ‖W‖² = d‖w‖²/2.
        half = 2 if n_classes == 2 else 1
        return teacher, ERM("cross-entropy", half / (last.C * dimension))  # type: ignore[arg-type]
    if isinstance(last, RidgeClassifier):
        return teacher, ERM("square", last.alpha / dimension)  # type: ignore[arg-type]
    raise InvalidInput(
        f"no theory matches {type(last).__name__}: allowed are AMPClassifier, ERMClassifier, "
        "LogisticRegression and RidgeClassifier, alone or at the end of a Pipeline"
    )


def _measure(
    clf: Any, X: Any, y: Any, train_sizes: Any, cv: Any, random_state: Any, n_jobs: int | None
) -> list[dict[str, Any]]:
    """Errors at each number of training samples, mean and standard error over the folds."""
    from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
    from sklearn.model_selection import StratifiedKFold, learning_curve

    if isinstance(cv, int):
        cv = StratifiedKFold(cv, shuffle=True, random_state=random_state)
    sizes = np.geomspace(0.1, 1.0, 6) if train_sizes is None else np.asarray(train_sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FitFailedWarning)
        warnings.filterwarnings("ignore", message="Scoring failed")
        counts, train, test = learning_curve(
            clf, X, y, train_sizes=sizes, cv=cv, shuffle=True, random_state=random_state,
            n_jobs=n_jobs, error_score=np.nan,
        )  # fmt: skip
    points = []
    for n, seen, held_out in zip(counts, train, test, strict=True):
        good = np.isfinite(held_out)
        if not good.any():  # as when so few samples hold one class only
            continue
        scores = held_out[good]
        spread = scores.std(ddof=1) / math.sqrt(scores.size) if scores.size > 1 else math.nan
        points.append(
            {
                "n_samples": int(n),
                "generalisation_error": 1 - float(scores.mean()),
                "uncertainty": float(spread),
                "training_error": 1 - float(seen[good].mean()),
                "folds": int(good.sum()),
                "status": Status.OK if good.all() else Status.TOLERANCE_NOT_MET,
            }
        )
    if not points:
        raise InvalidInput("the classifier could not be fitted at any of the training sizes")
    return points


def _effective_dimension(X: Any) -> float:
    """(Σλ)²/Σλ² = d²/‖R‖²_F of the correlation matrix R (from the smaller Gram matrix)."""
    n, d = X.shape
    A = (X - X.mean(0)) / X.std(0)
    gram = A.T @ A if d <= n else A @ A.T
    return float(d**2 / ((gram / n) ** 2).sum())


def _assumption(k: int, d: int, effective: float) -> str:
    return (
        f"Theory: {d} independent Gaussian inputs of unit variance and noiseless labels, the "
        f"argmax of {k} linear fields. The data share only k = {k}, d = {d} and n with it; "
        f"their correlations leave an effective dimension of {effective:.3g}."
    )


def _panel(curve: PredictedCurve) -> Panel:
    """Symbols for what was measured, a line for the theory, its assumption as the title."""
    # The teacher is the theory's alone: it does not tell what was measured from it.
    panel = curves_panel(curve.frame.drop(columns=["model", "prior"]), log_x=True)
    theory, measured = panel.traces
    theory = replace(theory, label=f"theory, {theory.label}, Gaussian inputs")
    measured = replace(measured, label="measured (cross-validation)", in_legend=True)
    title = textwrap.fill(curve.assumption, 72)
    return replace(panel, traces=(theory, measured), legend=Legend(), title=title)
