"""The public names, each from its home: read by type checkers, and by `__init__.py`."""

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
from polyceptron.report.learning_curves import LearningCurve as LearningCurve
from polyceptron.report.learning_curves import compare as compare
from polyceptron.report.learning_curves import learning_curve as learning_curve
from polyceptron.report.predicted import predicted_curve as predicted_curve
from polyceptron.report.twins import twin_report as twin_report
from polyceptron.theory.asymptotics import asymptotics as asymptotics
from polyceptron.theory.bayes_optimal.fixed_points import fixed_points as fixed_points
from polyceptron.theory.bayes_optimal.solution_curve import solution_curve as solution_curve
from polyceptron.theory.bayes_optimal.transitions import transitions as transitions
from polyceptron.theory.calibration import calibration as calibration
from polyceptron.theory.curve import landscape as landscape
from polyceptron.theory.erm.fixed_point import erm_fixed_point as erm_fixed_point
from polyceptron.theory.erm.fixed_point import optimal_ridge as optimal_ridge
from polyceptron.theory.erm.margin_law import margin_law as margin_law
from polyceptron.theory.generalisation import generalisation_error as generalisation_error
from polyceptron.theory.loop import erm_state_evolution as erm_state_evolution
from polyceptron.theory.loop import state_evolution as state_evolution
from polyceptron.theory.plan import plan as plan
from polyceptron.theory.populations.best_rules import best_class_weight as best_class_weight
from polyceptron.theory.populations.best_rules import best_shift as best_shift
from polyceptron.theory.populations.best_rules import population_floor as population_floor
from polyceptron.theory.populations.linear_floor import linear_floor as linear_floor
from polyceptron.theory.resampling import resampling as resampling
from polyceptron.theory.separability import separability as separability

__version__: str
