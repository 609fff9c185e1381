"""What the paper defines: teachers and their priors, the argmax channel, losses."""

from polyceptron.model.estimators import BayesOptimal
from polyceptron.model.priors import FinitePrior, GaussianPrior, Prior, as_prior, finite_prior
from polyceptron.model.teacher import AnyTeacher, Dataset, Perceptron, Teacher, make_teacher

__all__ = [
    "AnyTeacher",
    "BayesOptimal",
    "Dataset",
    "FinitePrior",
    "GaussianPrior",
    "Perceptron",
    "Prior",
    "Teacher",
    "as_prior",
    "finite_prior",
    "make_teacher",
]
