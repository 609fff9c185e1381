"""From tables to pictures: learning curves, the paper's figures, the explorer."""

from polyceptron.report.learning_curve import LearningCurve, learning_curve

__all__ = ["LearningCurve", "learning_curve"]
