"""What the paper defines: teachers and their priors, the argmax channel, losses."""

from polyceptron.model.estimators import ERM, BayesOptimal, Estimator, make_estimator
from polyceptron.model.losses import CrossEntropy, Loss, MaxMargin, SquareLoss, as_loss
from polyceptron.model.priors import FinitePrior, GaussianPrior, Prior, as_prior, finite_prior
from polyceptron.model.teacher import AnyTeacher, Dataset, Perceptron, Teacher, make_teacher

__all__ = [
    "ERM",
    "AnyTeacher",
    "BayesOptimal",
    "CrossEntropy",
    "Dataset",
    "Estimator",
    "FinitePrior",
    "GaussianPrior",
    "Loss",
    "MaxMargin",
    "Perceptron",
    "Prior",
    "SquareLoss",
    "Teacher",
    "as_loss",
    "as_prior",
    "finite_prior",
    "make_estimator",
    "make_teacher",
]
