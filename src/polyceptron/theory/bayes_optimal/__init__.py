"""The Bayes-optimal student: the whole set of fixed points as one curve α(q̂), and what follows.

channel_table      the fields side as a function of v; the other is `theory/weights`
solution_curve     the curve α(q̂), its folds and branches, how far its α and Φ can be trusted
fixed_points       where the curve passes a given α, and which branch is optimal there
transitions        α_IT and α_algo
"""
