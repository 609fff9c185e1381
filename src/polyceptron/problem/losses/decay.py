"""How the error of losses that vanish, or decay, with the margin falls at large α."""

import math

from polyceptron.numerics.special import boundary_density
from polyceptron.problem.order import Decay


def pair_decay(
    ridge: float | str, n_classes: int, total: float, squares: float, pull: float
) -> Decay:
    """Return p and C of ε ≈ C α^(−p) without noise: p = 1, or 2/3 at a fixed ridge λ.

    A student of many samples is nearly aligned and trains without moving (V → 0). The margin of two
    classes has the density 1/√(πq) at 0, so that with A = ∫₀^∞ ℓ the mean loss is A/√(πq); with the
    ridge λq/2 that puts the norm at √q = κ(α/λ)^(1/3), κ³ = A/√π. There M → 2f/√π with f the
    label's pull at margin 0, and Q → 2B/√(πq) with B = ∫₀^∞ f², so that 1/τ² = Q/(αM²). More
    classes meet in pairs: C_k = B_k^(1/3) (k − 1)^(2/3) C₂.

    Without a ridge such losses tend to max-margin, and the best ridge is not worse: p = 1.

    Parameters
    ----------
    ridge : float or 'optimal'
        λ.
    n_classes : int
        k.
    total : float
        A, the integral of the loss over margins of two classes from 0 on.
    squares : float
        B, that of the label's squared pull.
    pull : float
        f, the label's pull at margin 0.
    """
    if ridge in (0, "optimal"):
        return Decay(1.0)
    kappa = (total / math.sqrt(math.pi)) ** (1 / 3)
    spread = squares * math.sqrt(math.pi) / (2 * pull**2 * kappa)
    pairs = boundary_density(n_classes) * (n_classes - 1) ** 2
    return Decay(2 / 3, (pairs * math.sqrt(float(ridge))) ** (1 / 3) / math.pi * math.sqrt(spread))
