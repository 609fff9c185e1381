"""Simulations: one instance, a sweep over a grid of them, and the store that keeps every row.

Names are loaded on first use: a worker or the command line needs few of them.
"""
