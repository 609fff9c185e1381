"""What a problem is: teachers, channels, priors, losses, penalties, estimators, laws of fields."""

from polyceptron.model.channels import (
    CHANNELS,
    Channel,
    Flips,
    GaussianNoise,
    SoftmaxNoise,
    as_channel,
)
from polyceptron.model.estimators import (
    ERM,
    ESTIMATORS,
    BayesOptimal,
    Estimator,
    as_estimator,
    estimator_names,
    make_estimator,
    takes_ridge,
)
from polyceptron.model.features import FEATURES, Spectrum, as_spectrum
from polyceptron.model.law import Hats, Law
from polyceptron.model.losses import LOSSES, CrossEntropy, Loss, MaxMargin, SquareLoss, as_loss
from polyceptron.model.penalties import PENALTIES, Penalty, Ridge, as_penalty
from polyceptron.model.priors import (
    PRIORS,
    FinitePrior,
    GaussianPrior,
    LaplacePrior,
    Prior,
    SparseGaussianPrior,
    as_prior,
    finite_prior,
)
from polyceptron.model.registry import Entry, Registry
from polyceptron.model.teacher import AnyTeacher, Dataset, Perceptron, Teacher, make_teacher

__all__ = [
    "CHANNELS",
    "ERM",
    "ESTIMATORS",
    "FEATURES",
    "LOSSES",
    "PENALTIES",
    "PRIORS",
    "AnyTeacher",
    "BayesOptimal",
    "Channel",
    "CrossEntropy",
    "Dataset",
    "Entry",
    "Estimator",
    "FinitePrior",
    "Flips",
    "GaussianNoise",
    "GaussianPrior",
    "Hats",
    "LaplacePrior",
    "Law",
    "Loss",
    "MaxMargin",
    "Penalty",
    "Perceptron",
    "Prior",
    "Registry",
    "Ridge",
    "SoftmaxNoise",
    "SparseGaussianPrior",
    "Spectrum",
    "SquareLoss",
    "Teacher",
    "as_channel",
    "as_estimator",
    "as_loss",
    "as_penalty",
    "as_prior",
    "as_spectrum",
    "estimator_names",
    "finite_prior",
    "make_estimator",
    "make_teacher",
    "takes_ridge",
]
