"""Priors of one teacher weight, of mean 0 and variance 1."""

from polyceptron.problem.priors.distributions import FinitePrior as FinitePrior
from polyceptron.problem.priors.distributions import GaussianPrior as GaussianPrior
from polyceptron.problem.priors.distributions import LaplacePrior as LaplacePrior
from polyceptron.problem.priors.distributions import ScipyPrior as ScipyPrior
from polyceptron.problem.priors.distributions import SparseGaussianPrior as SparseGaussianPrior
from polyceptron.problem.priors.distributions import finite_prior as finite_prior
from polyceptron.problem.priors.distributions import parse_finite, parse_scipy
from polyceptron.problem.priors.prior import PRIORS as PRIORS
from polyceptron.problem.priors.prior import Prior as Prior
from polyceptron.problem.priors.prior import Tilted as Tilted
from polyceptron.problem.priors.prior import WeightsRow as WeightsRow
from polyceptron.problem.registry import Entry

# A new prior: its file, and its entry here.
PRIORS.add(
    Entry(GaussianPrior.name, "standard normal weights", GaussianPrior, label="Gaussian weights"),
    Entry(
        "rademacher",
        "weights ±1",
        lambda: FinitePrior((-1.0, 1.0), (0.5, 0.5), "rademacher"),
        label="Rademacher weights",
    ),
    Entry(
        "ternary",
        "weights −√2, 0, √2 with 0 in half",
        lambda: FinitePrior((-(2**0.5), 0.0, 2**0.5), (0.25, 0.5, 0.25), "ternary"),
        label="ternary weights",
    ),
    Entry(
        "finite",
        "any finite list of values with their probabilities",
        lambda: parse_finite(""),
        read=parse_finite,
        brackets="value:probability;...",
    ),
    Entry(
        "sparse-gaussian",
        "zero but for this fraction of Gaussian weights",
        SparseGaussianPrior,
        ("density",),
        (0.2,),
        label="sparse Gaussian weights",
    ),
    Entry(
        LaplacePrior.name,
        "weights of density exp(−√2|w|)/√2",
        LaplacePrior,
        label="Laplace weights",
    ),
    Entry(
        "scipy",
        "a continuous distribution of scipy.stats, standardised",
        lambda: parse_scipy("[norm]"),
        read=parse_scipy,
        brackets="name:shape:...",
    ),
)


def as_prior(prior: object) -> Prior:
    """The prior meant by a name, a pair (values, probabilities), a law of scipy, or a prior."""
    if isinstance(prior, tuple | list) and len(prior) == 2:
        return finite_prior(*prior)
    if hasattr(prior, "dist") and hasattr(prior, "logpdf"):
        return ScipyPrior(prior)
    return PRIORS.read(prior)
