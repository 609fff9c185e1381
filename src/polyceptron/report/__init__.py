"""From tables to pictures: learning curves, the paper's figures, the explorer."""

from polyceptron.report.learning_curves import LearningCurve, learning_curve
from polyceptron.report.predicted import PredictedCurve, predicted_curve

__all__ = ["LearningCurve", "PredictedCurve", "learning_curve", "predicted_curve"]
