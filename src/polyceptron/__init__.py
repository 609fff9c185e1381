"""polyceptron: how well can a linear classifier learn a k-class rule from n = αd examples?

Exact answers in the limit of large d, the algorithms that reach them, and the experiments that
confirm them. Rooms, in reading and import order: `numerics`, `model`, `theory`, `algorithms`,
`experiments`, `report`, `cli`. Names are loaded on first use, so that importing is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from polyceptron.rows import VERSION as __version__

_HOME = {
    "Teacher": "model",
    "Perceptron": "model",
    "finite_prior": "model",
    "Spectrum": "model",
    "BayesOptimal": "model",
    "ERM": "model",
    "Loss": "model",
    "Prior": "model",
    "Channel": "model",
    "InvalidInput": "errors",
    "ComputationFailed": "errors",
    "transitions": "theory",
    "separability": "theory.separability",
    "calibration": "theory.calibration",
    "solution_curve": "theory",
    "state_evolution": "theory",
    "fixed_points": "theory",
    "generalisation_error": "theory",
    "asymptotics": "theory",
    "erm_fixed_point": "theory",
    "erm_state_evolution": "theory",
    "margin_law": "theory",
    "optimal_ridge": "theory",
    "plan": "theory",
    "amp": "algorithms",
    "AMPResult": "algorithms",
    "FitProgress": "algorithms.watching",
    "amp_erm": "algorithms",
    "fit_erm": "algorithms",
    "is_separable": "algorithms.separable",
    "fit_erm_path": "algorithms",
    "exact_generalisation_error": "algorithms",
    "AMPClassifier": "algorithms",
    "ERMClassifier": "algorithms",
    "load_spec": "experiments",
    "run_sweep": "experiments",
    "Store": "experiments",
    "LearningCurve": "report.learning_curves",
    "learning_curve": "report.learning_curves",
    "predicted_curve": "report.predicted",
}

__all__ = [*_HOME, "__version__"]

if TYPE_CHECKING:
    from polyceptron.algorithms import (
        AMPClassifier,
        AMPResult,
        ERMClassifier,
        amp,
        amp_erm,
        exact_generalisation_error,
        fit_erm,
        fit_erm_path,
    )
    from polyceptron.algorithms.separable import is_separable
    from polyceptron.algorithms.watching import FitProgress
    from polyceptron.errors import ComputationFailed, InvalidInput
    from polyceptron.experiments import Store, load_spec, run_sweep
    from polyceptron.model import (
        ERM,
        BayesOptimal,
        Channel,
        Loss,
        Perceptron,
        Prior,
        Spectrum,
        Teacher,
        finite_prior,
    )
    from polyceptron.report.learning_curves import LearningCurve, learning_curve
    from polyceptron.report.predicted import predicted_curve
    from polyceptron.theory import (
        asymptotics,
        erm_fixed_point,
        erm_state_evolution,
        fixed_points,
        generalisation_error,
        margin_law,
        optimal_ridge,
        plan,
        solution_curve,
        state_evolution,
        transitions,
    )
    from polyceptron.theory.calibration import calibration
    from polyceptron.theory.separability import separability


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"polyceptron.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'polyceptron' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
