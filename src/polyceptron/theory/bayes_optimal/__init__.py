"""The Bayes-optimal student: the whole set of fixed points as one curve α(q̂), and what it says.

The modules:

    channel_table, weights_table    both sides as functions of one variable, computed once
    curve_points                    the curve α(q̂), and how far its α and Φ can be trusted
    curve_shape                     its folds and the stretches between them
    crossings                       where the curve passes a given α
    fixed_points                    the branches there, and which of them is optimal
    transitions, fine_transitions   α_IT and α_algo
    state_evolution                 the plain loop, step by step
    solution_curve                  the curve as a table
"""
