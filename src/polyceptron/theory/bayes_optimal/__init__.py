"""The Bayes-optimal student: the whole set of fixed points as one curve α(q̂), and what it says.

tables.py           both sides as functions of one variable, computed once
curve.py            the curve α(q̂), its folds, and how far its α and Φ can be trusted
crossings.py        where the curve passes a given α
fixed_points.py     the branches there, and which of them is optimal
transitions.py      α_IT and α_algo
trajectory.py       state evolution step by step, and the curve as a table
"""

from polyceptron.theory.bayes_optimal.fixed_points import FixedPoint, bayes_rows, fixed_points
from polyceptron.theory.bayes_optimal.solution_curve import solution_curve
from polyceptron.theory.bayes_optimal.state_evolution import StateEvolution, state_evolution
from polyceptron.theory.bayes_optimal.transitions import Transitions, transitions

__all__ = [
    "FixedPoint",
    "StateEvolution",
    "Transitions",
    "bayes_rows",
    "fixed_points",
    "solution_curve",
    "state_evolution",
    "transitions",
]
