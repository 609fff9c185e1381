"""Make sides/fields/argmax_entropy.json: I and Ψ = E Σ_l Z_l ln Z_l of the argmax channel, any k.

    python tools/argmax_entropy.py > src/polyceptron/sides/fields/argmax_entropy.json    (minutes)

Two and three classes: I and Ψ from the panels of the theory. More: Ψ alone, from the theory's rule
with more nodes than it has at run time (`sides/fields/information.py`).
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np

from polyceptron.numerics import AnyArray
from polyceptron.problem.channels import GaussianNoise
from polyceptron.sides.fields.information import InformationNodes, many_excess
from polyceptron.theory.bayes.channel_table import few_pair

CLASSES = (2, 3, 4, 5, 7, 10, 15, 24, 42, 80, 160, 320, 580, 840, 1000)
N_ANGLES = 14


def angles(n: int = N_ANGLES) -> AnyArray:
    """The n angles at which Ψ is needed for n even Chebyshev coefficients."""
    x = np.cos((2 * np.arange(n) + 1) * math.pi / (4 * n))
    return 0.5 * math.pi * (1 - x)


def coefficients(values: AnyArray) -> AnyArray:
    """Even Chebyshev coefficients (n,) of G from its values at `angles(n)`."""
    n = len(values)
    phase = (2 * np.arange(n) + 1) * math.pi / (4 * n)
    table = np.cos(2 * np.arange(n)[:, None] * phase) * (2 / n)
    table[0] /= 2
    result: AnyArray = table @ values
    return result


def direct(n_classes: int, theta: float) -> float:
    """G = Ψ/sin θ at one angle, computed anew; small angles have narrow layers and more nodes."""
    nodes = InformationNodes(best=2, gaps=30 if theta < 0.1 else 20, step=0.6, bath=32, pairs=14)
    return many_excess(GaussianNoise(), math.sin(theta) ** 2, n_classes, nodes) / math.sin(theta)


def make() -> dict[str, Any]:
    """All coefficients, computed anew."""
    rows = [
        coefficients(np.array([direct(k, float(theta)) for theta in angles()])).tolist()
        for k in CLASSES
    ]
    few = {str(k): few_pair(GaussianNoise(), k).coefficients.tolist() for k in (2, 3)}
    return {"classes": list(CLASSES), "coefficients": rows, "few": few}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(make(), indent=1) + "\n")
