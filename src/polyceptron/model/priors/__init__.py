"""Priors of one teacher weight, of mean 0 and variance 1; one file each."""

from polyceptron.model.priors import finite, gaussian_prior, laplace, sparse_gaussian
from polyceptron.model.priors.base import PRIORS, Prior, Row, Tilted
from polyceptron.model.priors.finite import FinitePrior, finite_prior
from polyceptron.model.priors.gaussian_prior import GaussianPrior
from polyceptron.model.priors.laplace import LaplacePrior
from polyceptron.model.priors.sparse_gaussian import SparseGaussianPrior

__all__ = [
    "PRIORS",
    "FinitePrior",
    "GaussianPrior",
    "LaplacePrior",
    "Prior",
    "Row",
    "SparseGaussianPrior",
    "Tilted",
    "as_prior",
    "finite_prior",
]

# A new prior: its file, and its entry here.
for _entry in (gaussian_prior.ENTRY, *finite.ENTRIES, sparse_gaussian.ENTRY, laplace.ENTRY):
    PRIORS.add(_entry)


def as_prior(prior: object) -> Prior:
    """The prior meant by a name, a pair (values, probabilities), or a prior itself.

    >>> as_prior("rademacher").entropy == float(__import__("numpy").log(2))
    True
    """
    if isinstance(prior, tuple | list) and len(prior) == 2:
        return finite_prior(*prior)
    return PRIORS.read(prior)
