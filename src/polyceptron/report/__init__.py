"""From tables to pictures: learning curves, the paper's figures, the explorer."""
