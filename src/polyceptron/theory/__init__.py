"""The large-dimension theory: Bayes-optimal, empirical risk minimisation, transitions, tails."""

from polyceptron.theory.asymptotics import Asymptotics, asymptotics
from polyceptron.theory.bayes_optimal import (
    FixedPoint,
    StateEvolution,
    Transitions,
    fixed_points,
    solution_curve,
    state_evolution,
    transitions,
)
from polyceptron.theory.curve import curve_rows
from polyceptron.theory.erm import (
    ErmFixedPoint,
    MarginLaw,
    erm_fixed_point,
    erm_state_evolution,
    margin_law,
    optimal_ridge,
)
from polyceptron.theory.generalisation import generalisation_error
from polyceptron.theory.planner import Plan, plan

__all__ = [
    "Asymptotics",
    "ErmFixedPoint",
    "FixedPoint",
    "MarginLaw",
    "Plan",
    "StateEvolution",
    "Transitions",
    "asymptotics",
    "curve_rows",
    "erm_fixed_point",
    "erm_state_evolution",
    "fixed_points",
    "generalisation_error",
    "margin_law",
    "optimal_ridge",
    "plan",
    "solution_curve",
    "state_evolution",
    "transitions",
]
