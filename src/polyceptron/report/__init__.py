"""From tables to pictures: learning curves, the paper's figures, the explorer.

Nothing is loaded here, so that the explorer's server starts without the theory.
"""
