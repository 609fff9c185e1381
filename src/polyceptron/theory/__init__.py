"""The large-dimension theory: Bayes-optimal, empirical risk minimisation, transitions, tails."""

from polyceptron.theory.bayes_optimal import FixedPoint, fixed_points
from polyceptron.theory.curve import curve_rows
from polyceptron.theory.generalisation import generalisation_error
from polyceptron.theory.state_evolution import StateEvolution, solution_curve, state_evolution
from polyceptron.theory.transitions import Transitions, transitions

__all__ = [
    "FixedPoint",
    "StateEvolution",
    "Transitions",
    "curve_rows",
    "fixed_points",
    "generalisation_error",
    "solution_curve",
    "state_evolution",
    "transitions",
]
