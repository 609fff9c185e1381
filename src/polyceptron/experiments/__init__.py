"""Finite-size simulations: one task, a sweep of tasks, the store that keeps them, the engine."""
