"""Numbers of somebody else, and of independent computations: the only place where they stand.

tests/references asks the same of them. `digits` is the difference that the digits shown allow.
"""

import math
from typing import NamedTuple

from polyceptron.problem import AnyTeacher, Perceptron, Teacher

INDEPENDENT = "independent computation"


class Threshold(NamedTuple):
    """α_IT and α_algo of a teacher, and as the paper prints them.

    The paper has them by Monte Carlo at k = 3, and quotes them from the literature for the
    perceptron.
    """

    name: str
    teacher: AnyTeacher
    values: tuple[float, float]
    printed: tuple[str, ...] = ()


THRESHOLDS = (
    Threshold(
        "classical perceptron",
        Perceptron("rademacher"),
        (1.244684, 1.492632),
        ("1.249", "1.493"),
    ),
    Threshold("argmax, k = 2, Rademacher", Teacher(2, "rademacher"), (2.072997, 2.486583)),
    Threshold(
        "argmax, k = 3, Rademacher",
        Teacher(3, "rademacher"),
        (2.394895, 2.885561),
        ("2.45", "2.89"),
    ),
)
THRESHOLD_DIGITS = 1e-6


class BayesError(NamedTuple):
    """The Bayes-optimal error on labels as drawn, with Gaussian weights."""

    n_classes: int
    noise: str
    alpha: float
    error: float
    digits: float


BAYES = (
    BayesError(2, "none", 1.0, 0.2543730, 1e-7),
    BayesError(2, "none", 5.0, 0.0839352, 1e-7),
    BayesError(3, "none", 1.0, 0.39050958, 1e-8),
    BayesError(3, "none", 5.0, 0.15414960, 1e-8),
    BayesError(3, "none", 100.0, 0.00880421, 1e-8),
    BayesError(2, "gaussian:0.5", 1.0, 0.344287, 1e-6),
    BayesError(2, "gaussian:0.5", 5.0, 0.247024, 1e-6),
    BayesError(2, "gaussian:1", 1.0, 0.383151, 1e-6),
    BayesError(2, "gaussian:1", 10.0, 0.279867, 1e-6),
)


class TrainedError(NamedTuple):
    """The error of a loss at a ridge, k = 3."""

    loss: str
    alpha: float
    ridge: float
    error: float
    digits: float


ERM_ERRORS = (
    TrainedError("cross-entropy", 2.0, 0.1, 0.290197, 1e-6),
    TrainedError("cross-entropy", 3.0, 1.0, 0.259532, 1e-6),
    TrainedError("square", 2.0, 1.0, 0.30546, 1e-5),
    TrainedError("max-margin", 3.0, 0.0, 0.2447, 1e-4),
)


class Separable(NamedTuple):
    """1/α_s of two classes."""

    noise: str
    one_over_alpha: float
    digits: float


SEPARABLE = (
    Separable(f"softmax:{1 / math.sqrt(2)!r}", 0.438939, 1e-6),
    Separable(f"softmax:{math.sqrt(2)!r}", 0.34493, 1e-6),
    Separable(f"softmax:{5 / math.sqrt(2)!r}", 0.185052, 1e-6),
    Separable("gaussian:0.1", 0.16473, 1e-6),
    Separable("gaussian:1", 0.37101, 1e-6),
    Separable("flips:0.05", 0.262489, 1e-6),
)


class LabelsOfChance(NamedTuple):
    """α_s where labels do not depend on the features: 2 for two classes, 12/5 for three."""

    n_classes: int
    alpha_s: float


LABELS_OF_CHANCE = (LabelsOfChance(2, 2.0), LabelsOfChance(3, 2.4))
TAILS_OF_BAYES = {2: 0.4417, 3: 0.8834}  # αε at large α, by the number of classes


class BiasedLikelihood(NamedTuple):
    """The maximum-likelihood fit of P(y = 1) = σ(θ + γz), γ² = 5, at d/n = 0.2.

    Zhao, Sur and Candès, table 13: the slope μ in units of γ, the spread σ, and the intercept.
    """

    theta: float
    slope: float
    spread: float
    intercept: float


LIKELIHOOD_SOURCE = "Zhao, Sur and Candès, table 13"
LIKELIHOOD = (
    BiasedLikelihood(0.0, 1.5, 4.75, 0.0),
    BiasedLikelihood(0.5, 1.51, 4.84, 0.76),
    BiasedLikelihood(1.0, 1.56, 5.16, 1.559),
    BiasedLikelihood(2.0, 1.83, 7.01, 3.68),
    BiasedLikelihood(2.5, 2.31, 10.0, 5.8),
)
# Half a unit of the digits that the table prints, and what its averages leave open.
LIKELIHOOD_ALLOWED = BiasedLikelihood(0.0, 0.007, 0.016, 0.009)

# Three clusters of equal shares, variance 0.5, square loss, ridge 0.001: errors by α. The public
# notebook of GaussMixtureProject draws 20,000 samples.
CLUSTERS_SOURCE = "GaussMixtureProject"
THREE_CLUSTERS = {1.0: 0.5907, 2.0: 0.4404, 3.0: 0.3837}
THREE_CLUSTERS_ALLOWED = 0.0035
# Two clusters, logistic loss, α = 3; m, q and V are those of the gap of the two fields.
TWO_CLUSTERS = {"error": 0.1310234, "m": 4.199649, "q": 14.020895, "V": 13.33539}
# Three clusters of shares 0.7, 0.2, 0.1, cross-entropy with intercept, λ = 0.1, α = 3.
UNEQUAL_CLUSTERS_ERROR = 0.24340
# A teacher of biases 0, −0.5, −1, cross-entropy with intercept, λ = 0.1, α = 3: value, allowed.
BIASED_TEACHER = {
    "error": (0.21169, 1e-5),
    "test loss": (0.49454, 1e-5),
    "recall 0": (0.8975, 1e-4),
    "recall 1": (0.7423, 1e-4),
    "recall 2": (0.4821, 2.5e-4),
    "intercept 0": (1.2124, 1e-4),
    "intercept 1": (-0.0676, 1e-4),
    "intercept 2": (-1.1447, 1e-4),
}
