"""The law of a pull that is linear in the fields (square loss), on a mixture, in closed form.

With H = I on class differences, targets t_c = −Tᵀ∇ℓ(0, c) and class weights w_c, the proximal map
is solved by f = g_c(t_c − b − ω), and V_c, V̂_c are multiples v_c, v̂_c of the identity:

    g_c = 1/(1/w_c + v_c),   v̂_c = αp_c g_c,   S = (λI + Σ_c v̂_cΣ_c)⁻¹,   v_c = tr(Σ_cS)/d

Where samples have random weights, g_c and g_c² are means over them. The map v → v is increasing
and concave: Newton's method descends to its root from above, v_c = tr Σ_c/(λd). The rest is linear:
with K_cc' = μ_c·Sμ_c'/d and J_cc' = tr(Σ_cSΣ_c'S)/d

    m̂ = v̂(t − b − m),   m = Km̂,   Σ_c m̂_c = 0 (the intercept)
    Q̂_c = αp_cg_c²(Q_c + δ_cδ_cᵀ),   δ_c = m̂_c/v̂_c,   Q_c = Σ_c' J_cc'Q̂_c' + (Sm̂μ)ᵀΣ_c(Sm̂μ)/d

S is d × d where covariances share no eigenvectors, a number for each level of eigenvalues else.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from polyceptron.numerics import Array
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import Population
from polyceptron.sides.matrix.fields import MatrixOrder, MatrixProblem

_STEPS = 200
_CLOSE = 1e-13  # of the last step of v, relative


def is_linear(problem: MatrixProblem) -> bool:
    """Whether f is linear in ω with a slope that is a number: a mixture and the square loss."""
    averages = problem.loss.explicit_averages(ScalarOrder(1.0, 1.0, 1.0), 1.0, 3)
    return averages is not None and not problem.taught


def linear_law(problem: MatrixProblem) -> MatrixOrder:
    """The fixed point; a LinAlgError where rounding leaves none."""
    p, population, T = problem, problem.population, problem.basis
    r, shares = p.n_classes - 1, problem.population.group_shares
    labels = np.arange(p.n_classes)
    targets = -p.loss.gradient(np.zeros((p.n_classes, p.n_classes)), labels) @ T
    v = _traces(population, np.zeros(len(shares)), p.ridge)[0]
    copies, chance = np.array(p.copies).T
    for _ in range(_STEPS):
        each = 1 / (1 / (copies[:, None] * p.weight) + v)
        g = chance @ each
        new, J, K, spread = _traces(population, p.alpha * shares * g, p.ridge)
        slope = J * (p.alpha * shares * (chance @ each**2))
        step = np.linalg.solve(np.eye(len(v)) - slope, new - v)
        v = np.maximum(v + step, new / 2)  # a root is above: v → v is increasing
        if np.abs(step).max() <= _CLOSE * v.max():
            break
    else:
        raise np.linalg.LinAlgError("the susceptibilities do not settle")
    pull = p.alpha * shares * g
    answer = np.linalg.solve(np.eye(len(v)) + pull[:, None] * K, np.diag(pull))  # of m̂ to t − b
    b = np.zeros(r)
    if p.intercept:
        b = answer.sum(0) @ targets / answer.sum()
    m_hat = answer @ (targets - b)
    delta = m_hat / pull[:, None]
    known = np.tensordot(slope, delta[:, :, None] * delta[:, None, :], 1)
    made = (known + spread(m_hat)).reshape(len(v), -1)
    Q = np.asarray(np.linalg.solve(np.eye(len(v)) - slope, made), float).reshape(-1, r, r)
    law = MatrixOrder(K @ m_hat, Q, v[:, None, None] * np.eye(r), b, np.zeros((r, r)))
    if not all(np.isfinite(each).all() for each in law) or np.linalg.eigvalsh(Q).min() <= 0:
        raise np.linalg.LinAlgError("the fields have no covariance")
    return law


def _traces(
    population: Population, v_hat: Array, ridge: float
) -> tuple[Array, Array, Array, Callable[[Array], Array]]:
    """tr(Σ_cS)/d (k,), J, K (k, k), and m̂ (k, r) → what means add to Q (k, r, r)."""
    levels = population.levels_of_features
    if levels is not None:
        f, s, gram, _ = levels
        S = 1 / (ridge + s @ v_hat)
        twice, K = S[:, None] ** 2 * s, np.tensordot(S, gram, 1)
        J = (f[:, None] * twice).T @ s
        return (f * S) @ s, J, K, lambda m: np.einsum("lc,lij->cij", twice, m.T @ gram @ m)
    mu, sigma = population.full_features  # type: ignore[misc]
    k, d = mu.shape
    factor = cho_factor(ridge * np.eye(d) + np.tensordot(v_hat, sigma, 1), lower=True)
    both = cho_solve(factor, sigma.swapaxes(0, 1).reshape(d, k * d)).reshape(d, k, d)
    turned = cho_solve(factor, mu.T)  # Sμ (d, k)
    across = both.transpose(1, 0, 2).reshape(k, -1) @ both.transpose(1, 2, 0).reshape(k, -1).T
    seen = turned.T @ sigma @ turned / d
    return np.einsum("aca->c", both) / d, across / d, mu @ turned / d, lambda m: m.T @ seen @ m
