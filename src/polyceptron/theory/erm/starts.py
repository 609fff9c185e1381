"""Where the search for a fixed point begins: θ = (ln τ, ln q, ln V) of an easier problem.

`two_class_twin` is the same student with two classes, whose equations are cheap. `quadratic_guess`
replaces the loss by its expansion at z = 0, which least squares solves in closed form.
"""

import math

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.special import boundary_density
from polyceptron.sides.scalar import Problem
from polyceptron.theory.erm.square_closed_form import solve_square


def two_class_twin(problem: Problem) -> Problem | None:
    """Return two classes with as many samples per boundary and direction; None if this is no help.

    With plentiful data and clean labels, M, Q, C of k classes are B_k/(k − 1) times those of two,
    where B_k is the density of the boundaries between classes.
    """
    k = problem.n_classes
    if k == 2:
        return None
    if problem.ridge == 0 and not problem.loss.scale_free:
        return None  # two classes may have no minimum
    try:
        problem.channel.guess(2)
    except InvalidInput:  # so many flips leave no rule between two classes
        return None
    return problem.with_classes(2, alpha=problem.alpha * boundary_density(k) / (k - 1))


def quadratic_guess(problem: Problem) -> Array:
    """Return θ (3,) of the loss's expansion at z = 0.

    With −∇ℓ(0) = β(e_y − 1/k) and Hessian h on class differences, the fields are β/h times those of
    the square loss at ridge λ/h.
    """
    if problem.loss.scale_free:
        return _guess_of_hard_margin(problem)
    h, beta = _expansion(problem)
    square = solve_square(
        problem.n_classes,
        _signal(problem),
        problem.alpha,
        problem.ridge / h,
        problem.weights.spectrum,
    ).order
    return np.log([square.tau, square.q * (beta / h) ** 2, square.V / h])


def _expansion(problem: Problem) -> tuple[float, float]:
    """Return the Hessian h and the slope β of the loss at z = 0, on class differences."""
    k = problem.n_classes
    zero = np.zeros((1, k))
    label = np.zeros(1, dtype=np.int64)
    H = problem.loss.hessian(zero, label)[0]
    slope = problem.loss.gradient(zero, label)[0]
    h = (float(np.trace(H)) - float(H.sum()) / k) / (k - 1)
    beta = float(slope[1:].mean() - slope[0])
    if h <= 1e-12:  # a loss that is straight at 0
        h = beta
    return h, beta


def _guess_of_hard_margin(problem: Problem) -> Array:
    """Return θ (3,): the direction is about that of least squares, the fields are of order 1.

    With many data τ and √q grow as α, where τ of least squares grows as √α.
    """
    k = problem.n_classes
    square = solve_square(k, _signal(problem), problem.alpha, 1.0, problem.weights.spectrum).order
    # Fields are at least twice those of least squares: a margin of 1 asks for it.
    scale = max(2.0, math.sqrt(square.tau**3 / (3 * square.q)))
    return np.log([square.tau, square.q * scale**2, square.V])


def _signal(problem: Problem) -> float:
    """Return the channel's signal c, below the bound c² < 1/k that Gaussian fields set.

    Samples that were chosen for their large margins may have a larger one.
    """
    k = problem.n_classes
    return min(problem.channel.signal(k), 0.99 / math.sqrt(k))
