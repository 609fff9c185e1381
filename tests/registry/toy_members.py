"""A loss and a prior of somebody's own, in one file that registers them.

As a program it is that somebody's `polyceptron`: python toy_members.py curve --help
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax

from polyceptron.problem import LOSSES, PRIORS, Entry, Loss, Prior
from polyceptron.problem.priors import Tilted


class ToyLoss(Loss):
    """Cross-entropy at half the temperature: ℓ(z, y) = ½ ln Σ_h exp(2(z_h − z_y))."""

    name = "toy-loss"

    def value(self, z: Any, y: Any) -> Any:
        z = np.asarray(z, dtype=float)
        return 0.5 * logsumexp(2 * (z - z[np.arange(len(z)), y][:, None]), axis=1)

    def gradient(self, z: Any, y: Any) -> Any:
        z = np.asarray(z, dtype=float)
        return softmax(2 * z, axis=1) - (np.arange(z.shape[1]) == np.asarray(y)[:, None])

    def hessian(self, z: Any, y: Any) -> Any:
        p = softmax(2 * np.asarray(z, dtype=float), axis=1)
        return 2 * (p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None, :])


@dataclass(frozen=True)
class ToyPrior(Prior):
    """w uniform on [−√3, √3], by Gauss–Legendre quadrature."""

    name: str = "toy-prior"
    extent: float = math.sqrt(3)

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Any:
        return rng.uniform(-self.extent, self.extent, size)

    def tilted(self, b: Any, precision: Any) -> Tilted:
        b, precision = np.broadcast_arrays(np.asarray(b, float), np.asarray(precision, float))
        x, weight = np.polynomial.legendre.leggauss(24)
        w = self.extent * x
        log_f = b[..., None] * w - 0.5 * precision[..., None] * w**2 + np.log(weight / 2)
        top = log_f.max(-1)
        p = np.exp(log_f - top[..., None])
        total = p.sum(-1)
        log_g, p = top + np.log(total), p / total[..., None]
        mean = (p * w).sum(-1)
        return Tilted(log_g, mean, (p * (w - mean[..., None]) ** 2).sum(-1))


def register() -> None:
    """The two lines that make them members."""
    LOSSES.add(Entry("toy-loss", "a loss for tests", ToyLoss, label="toy loss"))
    PRIORS.add(Entry("toy-prior", "a prior for tests", ToyPrior, label="toy weights"))


def unregister() -> None:
    LOSSES.remove("toy-loss")
    PRIORS.remove("toy-prior")


if __name__ == "__main__":
    from polyceptron.cli import main

    register()
    main()
