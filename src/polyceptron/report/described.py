"""Which classifiers the theory describes, and as what; everything else is a sentence.

    ERMClassifier, LogisticRegression, RidgeClassifier   empirical risk minimisation with its ridge
    AMPClassifier                                        the Bayes-optimal student
    a Pipeline that ends in one of them, a GridSearchCV over its ridge: the best one at each n

Described are linear classifiers with a squared penalty on standardised features, all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.model import ERM, BayesOptimal, Teacher
from polyceptron.numerics import Array

_RIDGES = ("C", "alpha", "ridge")  # what the squared penalty is called
_UNIT = 0.02  # how far from 1 a standard deviation may be


def matching_theory(clf: Any, n_classes: int, dimension: int) -> tuple[Teacher, ERM | BayesOptimal]:
    """The teacher and the estimator whose theory describes `clf` on standardised features."""
    from sklearn.linear_model import LogisticRegression, RidgeClassifier

    from polyceptron.algorithms.amp_classifier import AMPClassifier
    from polyceptron.algorithms.erm_classifier import ERMClassifier

    inner, searched = _unwrapped(clf)
    last = last_step(inner)
    teacher = Teacher(n_classes)
    if isinstance(last, AMPClassifier):
        return Teacher(n_classes, last.prior), BayesOptimal()
    if isinstance(last, ERMClassifier):
        margin = str(last.loss).replace("_", "-") == "max-margin"
        ridge = "optimal" if searched or last.ridge == "auto" else last.ridge
        return teacher, ERM(last.loss, 0.0 if margin else ridge)  # type: ignore[arg-type]
    if isinstance(last, LogisticRegression):
        _check_squared(last)
        # Its penalty ‖w‖²/2C is on weights w = W/√d; two classes share one w: ‖W‖² = d‖w‖²/2.
        half = 2 if n_classes == 2 else 1
        strength = 0.0 if last.penalty is None else half / (last.C * dimension)
        return teacher, ERM("cross-entropy", "optimal" if searched else strength)  # type: ignore[arg-type]
    if isinstance(last, RidgeClassifier):
        strength = "optimal" if searched else last.alpha / dimension
        return teacher, ERM("square", strength)  # type: ignore[arg-type]
    raise InvalidInput(
        f"no theory matches {type(last).__name__}: allowed are AMPClassifier, ERMClassifier, "
        "LogisticRegression and RidgeClassifier, alone, at the end of a Pipeline or in a "
        "GridSearchCV over their ridge"
    )


def described_features(clf: Any, X: Array, y: Any) -> Array:
    """The features (n, d) that the last step sees, varying and standardised, or a sentence."""
    from sklearn.pipeline import Pipeline

    inner, _ = _unwrapped(clf)
    last, seen = last_step(inner), X
    if isinstance(inner, Pipeline):
        for name, step in inner.steps[:-1]:
            if step is None or step == "passthrough":
                continue
            before = seen.shape[1]
            seen = np.asarray(_fresh(step).fit_transform(seen, y), dtype=float)
            if seen.shape[1] != before:
                raise InvalidInput(
                    f"the step {name!r} changes the number of features from {before} to "
                    f"{seen.shape[1]}, which the theory does not follow: apply it to X first"
                )
    deviation = seen.std(0)
    varying = deviation > 1e-9 * max(1.0, float(np.abs(seen).max()))
    if not varying.any():
        raise InvalidInput("every feature is constant: there is nothing to learn from")
    own = getattr(last, "standardise", False)  # our classifiers do it themselves
    if not own and np.abs(deviation[varying] - 1).max() > _UNIT:
        worst = float(deviation[varying][np.abs(np.log(deviation[varying])).argmax()])
        raise InvalidInput(
            f"the features were not standardised (one has a standard deviation of {worst:.3g}), "
            f"and a ridge means another thing for each of them: put a StandardScaler before "
            f"{type(last).__name__}"
        )
    found: Array = (seen[:, varying] - seen[:, varying].mean(0)) / deviation[varying]
    return found


def last_step(clf: Any) -> Any:
    """The classifier at the end of a pipeline, or itself."""
    from sklearn.pipeline import Pipeline

    return clf.steps[-1][1] if isinstance(clf, Pipeline) else clf


def _unwrapped(clf: Any) -> tuple[Any, bool]:
    """The estimator inside a GridSearchCV over its ridge, and whether there was one."""
    from sklearn.model_selection import GridSearchCV

    if not isinstance(clf, GridSearchCV):
        return clf, False
    grids = clf.param_grid if isinstance(clf.param_grid, list) else [clf.param_grid]
    others = sorted({name for grid in grids for name in grid if _last(name) not in _RIDGES})
    if others:
        raise InvalidInput(
            f"the GridSearchCV searches over {others[0]!r}: the theory follows a search over the "
            f"ridge alone ({', '.join(_RIDGES)})"
        )
    return clf.estimator, True


def _last(name: str) -> str:
    return name.split("__")[-1]


def _check_squared(clf: Any) -> None:
    """An L1 part of LogisticRegression's penalty is not described."""
    ratio = getattr(clf, "l1_ratio", None)
    mixed = clf.penalty == "elasticnet" and ratio not in (0, 0.0)
    if clf.penalty == "l1" or mixed or (clf.penalty == "deprecated" and ratio not in (None, 0)):
        raise InvalidInput(
            f"LogisticRegression with an L1 penalty (penalty={clf.penalty!r}, l1_ratio={ratio!r}) "
            "is not described: the theory has a squared one, penalty='l2'"
        )


def _fresh(step: Any) -> Any:
    from sklearn.base import clone

    return clone(step)
