"""The scikit-learn classifiers. Importing this module imports scikit-learn."""

from polyceptron.algorithms.amp_classifier import AMPClassifier
from polyceptron.algorithms.erm_classifier import ERMClassifier

__all__ = ["AMPClassifier", "ERMClassifier"]
