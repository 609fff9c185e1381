"""polyceptron: how well can a linear classifier learn a k-class rule from n = αd examples?

Exact answers in the limit of large d, the algorithms that reach them, and the experiments that
confirm them. Rooms, in reading and import order: `numerics`, `model`, `theory`, `algorithms`,
`experiments`, `report`, `cli`. Names are loaded on first use, so that importing is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from polyceptron.version import VERSION as __version__

_PUBLIC = {
    "model": "Teacher Perceptron Mixture finite_prior Spectrum BayesOptimal ERM OneVsRest "
    "DiscriminantAnalysis Loss Prior Channel",
    "errors": "InvalidInput ComputationFailed",
    "theory.bayes_optimal.transitions": "transitions",
    "theory.separability": "separability",
    "theory.populations.floor": "population_floor linear_floor",
    "theory.populations.decisions": "best_shift best_class_weight",
    "theory.calibration": "calibration",
    "theory.bayes_optimal.solution_curve": "solution_curve",
    "theory.bayes_optimal.fixed_points": "fixed_points",
    "theory.generalisation": "generalisation_error",
    "theory.asymptotics": "asymptotics",
    "theory.erm.fixed_point": "erm_fixed_point optimal_ridge",
    "theory.loop": "state_evolution erm_state_evolution",
    "theory.erm.margin_law": "margin_law",
    "theory.planner": "plan",
    "theory.resampling": "resampling",
    "algorithms.message_passing.posterior_mean": "amp AMPResult amp_erm",
    "algorithms.watching": "FitProgress",
    "algorithms.erm.fit": "fit_erm fit_erm_path",
    "algorithms.separation": "is_separable separation",
    "algorithms.overlaps": "exact_generalisation_error overlap_matrices",
    "algorithms.amp_classifier": "AMPClassifier",
    "algorithms.erm_classifier": "ERMClassifier",
    "experiments.spec": "load_spec parse_spec",
    "experiments.sweep": "run_sweep",
    "experiments.store": "Store",
    "report.comparison": "compare",
    "report.learning_curves": "LearningCurve learning_curve",
    "report.predicted": "predicted_curve",
    "report.twins": "twin_report",
}
_HOME = {name: home for home, names in _PUBLIC.items() for name in names.split()}

__all__ = [*_HOME, "__version__"]

if TYPE_CHECKING:  # `as`: re-exported for type checkers, which cannot read __all__
    from polyceptron.algorithms.amp_classifier import AMPClassifier as AMPClassifier
    from polyceptron.algorithms.erm.fit import fit_erm as fit_erm
    from polyceptron.algorithms.erm.fit import fit_erm_path as fit_erm_path
    from polyceptron.algorithms.erm_classifier import ERMClassifier as ERMClassifier
    from polyceptron.algorithms.message_passing.posterior_mean import AMPResult as AMPResult
    from polyceptron.algorithms.message_passing.posterior_mean import amp as amp
    from polyceptron.algorithms.message_passing.posterior_mean import amp_erm as amp_erm
    from polyceptron.algorithms.overlaps import (
        exact_generalisation_error as exact_generalisation_error,
    )
    from polyceptron.algorithms.overlaps import overlap_matrices as overlap_matrices
    from polyceptron.algorithms.separation import is_separable as is_separable
    from polyceptron.algorithms.separation import separation as separation
    from polyceptron.algorithms.watching import FitProgress as FitProgress
    from polyceptron.errors import ComputationFailed as ComputationFailed
    from polyceptron.errors import InvalidInput as InvalidInput
    from polyceptron.experiments.spec import load_spec as load_spec
    from polyceptron.experiments.spec import parse_spec as parse_spec
    from polyceptron.experiments.store import Store as Store
    from polyceptron.experiments.sweep import run_sweep as run_sweep
    from polyceptron.model import ERM as ERM
    from polyceptron.model import BayesOptimal as BayesOptimal
    from polyceptron.model import Channel as Channel
    from polyceptron.model import DiscriminantAnalysis as DiscriminantAnalysis
    from polyceptron.model import Loss as Loss
    from polyceptron.model import Mixture as Mixture
    from polyceptron.model import OneVsRest as OneVsRest
    from polyceptron.model import Perceptron as Perceptron
    from polyceptron.model import Prior as Prior
    from polyceptron.model import Spectrum as Spectrum
    from polyceptron.model import Teacher as Teacher
    from polyceptron.model import finite_prior as finite_prior
    from polyceptron.report.comparison import compare as compare
    from polyceptron.report.learning_curves import LearningCurve as LearningCurve
    from polyceptron.report.learning_curves import learning_curve as learning_curve
    from polyceptron.report.predicted import predicted_curve as predicted_curve
    from polyceptron.report.twins import twin_report as twin_report
    from polyceptron.theory.asymptotics import asymptotics as asymptotics
    from polyceptron.theory.bayes_optimal.fixed_points import fixed_points as fixed_points
    from polyceptron.theory.bayes_optimal.solution_curve import solution_curve as solution_curve
    from polyceptron.theory.bayes_optimal.transitions import transitions as transitions
    from polyceptron.theory.calibration import calibration as calibration
    from polyceptron.theory.erm.fixed_point import erm_fixed_point as erm_fixed_point
    from polyceptron.theory.erm.fixed_point import optimal_ridge as optimal_ridge
    from polyceptron.theory.erm.margin_law import margin_law as margin_law
    from polyceptron.theory.generalisation import generalisation_error as generalisation_error
    from polyceptron.theory.loop import erm_state_evolution as erm_state_evolution
    from polyceptron.theory.loop import state_evolution as state_evolution
    from polyceptron.theory.planner import plan as plan
    from polyceptron.theory.populations.decisions import best_class_weight as best_class_weight
    from polyceptron.theory.populations.decisions import best_shift as best_shift
    from polyceptron.theory.populations.floor import linear_floor as linear_floor
    from polyceptron.theory.populations.floor import population_floor as population_floor
    from polyceptron.theory.resampling import resampling as resampling
    from polyceptron.theory.separability import separability as separability


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"polyceptron.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'polyceptron' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
