"""A caller who has numpy raise on every underflow gets the same numbers: ours are meant."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import polyceptron as pc

pytestmark = pytest.mark.slow


def _data() -> tuple[np.ndarray, np.ndarray]:
    X, y, _ = pc.Teacher(3).sample(120, 40, 0)
    return X, y


def _curve(*given: object, **more: object) -> float:
    table = pc.learning_curve(*given, **more).frame
    return float(table["generalisation_error"].iloc[-1])


def _classified(model: object) -> float:
    X, y = _data()
    return float(model.fit(X, y).score(X, y))  # type: ignore[attr-defined]


def _probabilities_far_away() -> float:
    X, y = _data()
    return float(pc.ERMClassifier(ridge=0.1).fit(X, y).predict_proba(1e3 * X).max())


def _classified_tiny_entries() -> float:
    X, y = _data()
    model = pc.ERMClassifier(ridge=0.1).fit(1e-300 * X, y)
    return float(model.score(1e-300 * X, y))


ASKED: dict[str, Callable[[], float]] = {
    "Laplace weights": lambda: _curve(pc.Teacher(3, "laplace"), "bayes", [0.5, 3.0]),
    "sparse weights": lambda: _curve(pc.Teacher(3, "sparse-gaussian:0.2"), "bayes", [0.5, 3.0]),
    "Rademacher weights": lambda: _curve(pc.Teacher(2, "rademacher"), "bayes", [0.5, 3.0]),
    "noise": lambda: _curve(pc.Teacher(3, noise="gaussian:0.1"), "bayes", [0.5, 30.0]),
    "flips": lambda: _curve(pc.Teacher(3, noise="flips:0.1"), "cross-entropy", [0.5, 30.0]),
    "softmax labels": lambda: _curve(pc.Teacher(3, noise="softmax:2"), "cross-entropy", [2.0]),
    "hinge": lambda: _curve(pc.Teacher(3), "hinge", [0.5, 3.0]),
    "one-vs-rest": lambda: _curve(pc.Teacher(3), "one-vs-rest", [0.1, 2.0]),
    "one pass": lambda: _curve(pc.Teacher(3), "sgd:0.1", [0.5, 2.0]),
    "max-margin": lambda: _curve(pc.Teacher(3), "max-margin", [0.5, 3.0]),
    "best ridge": lambda: _curve(pc.Teacher(2), pc.ERM("cross-entropy", "optimal"), [2.0]),
    "five classes": lambda: _curve(pc.Teacher(5), "cross-entropy", [2.0], tol=1e-2),
    "clusters": lambda: _curve(pc.Mixture((0.7, 0.3), separation=2.0), "cross-entropy", [2.0]),
    "shares": lambda: _curve(pc.Teacher(2, shares=(0.7, 0.3)), "cross-entropy", [2.0]),
    "spectrum": lambda: _curve(pc.Teacher(3, features="power:1.2:50"), "cross-entropy", [2.0]),
    "elastic net": lambda: _curve(
        pc.Teacher(2), pc.ERM("cross-entropy", penalty="elastic-net:0.1:0.1"), [2.0]
    ),
    "transitions": lambda: float(pc.transitions(pc.Teacher(2, "rademacher")).alpha_it or 0),
    "landscape": lambda: float(
        np.nansum(pc.landscape(pc.Teacher(2, "rademacher"), 2.0)["free_entropy"][:-1])
    ),
    "best shift": lambda: (
        pc.best_shift(pc.Teacher(3, shares=(0.6, 0.3, 0.1)), "cross-entropy", 2.0).cost
    ),
    "separability": lambda: pc.separability(pc.Teacher(3, noise="flips:0.1")).alpha_s,
    "asymptotics": lambda: pc.asymptotics(pc.Teacher(2), "cross-entropy").constant,
    "asymptotics of Bayes": lambda: pc.asymptotics(pc.Teacher(2), "bayes").constant,
    "state evolution from the teacher": lambda: float(
        pc.state_evolution(pc.Teacher(2, "rademacher"), 2.0, 20, "informed").q[-1]
    ),
    "calibration": lambda: (
        pc.calibration(pc.Teacher(2), pc.ERM("cross-entropy", 1e-6), 1.0).test_loss
    ),
    "resampling of clusters": lambda: float(
        pc.resampling(pc.Mixture((0.7, 0.3), separation=2.0), "cross-entropy", 2.0)
        .frame["value"]
        .iloc[0]
    ),
    "message passing": lambda: float(pc.amp(*_data()).weights[0, 0]),
    "message passing, Rademacher": lambda: float(
        pc.amp(*_data(), prior="rademacher").weights[0, 0]
    ),
    "message passing, Laplace": lambda: pc.simulate(pc.Teacher(3, "laplace"), "bayes", 2.0, 200, 1)[
        "generalisation_error"
    ],
    "cross-entropy fit": lambda: float(pc.fit_erm(*_data()).training_loss),
    "hinge fit": lambda: float(pc.fit_erm(*_data(), "hinge").training_loss),
    "max-margin fit": lambda: float(pc.fit_erm(*_data(), "max-margin").weights[0, 0]),
    "fit without a ridge": lambda: float(pc.fit_erm(*_data(), ridge=1e-6).training_loss),
    "classifier": lambda: _classified(pc.ERMClassifier()),
    "classifier of samples far from the boundary": _probabilities_far_away,
    "classifier of tiny entries": _classified_tiny_entries,
    "classifier that finds its ridge": lambda: _classified(pc.ERMClassifier(ridge="auto")),
    "message passing as a classifier": lambda: _classified(pc.AMPClassifier()),
    "simulation": lambda: pc.simulate(pc.Teacher(3), "cross-entropy", 2.0, 40, 0)[
        "generalisation_error"
    ],
    "large entries": lambda: float(
        pc.fit_erm(_data()[0] * 1e100, _data()[1], ridge=0.1).training_loss
    ),
    "small entries": lambda: float(
        pc.fit_erm(_data()[0] * 1e-40, _data()[1], ridge=1e-90).training_loss
    ),
}


@pytest.fixture
def strict() -> Iterator[None]:
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        # Pipes of workers that earlier tests started are freed at any time, also here.
        warnings.simplefilter("ignore", ResourceWarning)
        yield


@pytest.mark.parametrize("name", ASKED)
def test_underflow_that_is_meant_stays_inside(name: str, strict: None) -> None:
    strictly = ASKED[name]()
    with np.errstate(all="warn"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plainly = ASKED[name]()
    assert strictly == pytest.approx(plainly, rel=1e-12)
