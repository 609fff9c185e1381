"""An estimator of somebody's own, in one file that registers it: Hebb's rule.

W ∝ Σ_μ x_μ (e_{y_μ} − 1/k)ᵀ. With c = E[e_y·z]/(k − 1) the channel's signal, n = αd and independent
features, each direction of the class differences has signal αc and noise of variance α/k, so

    m = αc,    q = (αc)² + α/k,    τ = c √(kα),

and the error follows from τ. As a program it is that somebody's `polyceptron`:
python toy_estimator.py curve --help
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from polyceptron.checks import check_alphas
from polyceptron.fit.overlaps import overlaps
from polyceptron.problem import ESTIMATORS, Entry, Estimator
from polyceptron.problem.order import Decay
from polyceptron.rows import Status, make_row
from polyceptron.sides.generalisation import error_on_labels
from polyceptron.students import CustomStudent
from polyceptron.students.measuring import exact_errors


@dataclass(frozen=True)
class Hebb(CustomStudent):
    """The sum of the samples of each class."""

    name: ClassVar[str] = "toy-hebb"  # type: ignore[misc]

    @property
    def explicit(self) -> bool:
        return True

    def rows(
        self, teacher: Any, alpha: Any, *, branch: str = "optimal", tol: float | None = None
    ) -> list[dict[str, Any]]:
        k, rows = teacher.n_classes, []
        for a in check_alphas(alpha):
            m = a * teacher.channel.signal(k)
            q = m * m + a / k
            error = error_on_labels(teacher.channel, m / math.sqrt(a / k) if a else 0.0, k)
            row = make_row(
                source="theory",
                **teacher.columns,
                **self.columns,
                alpha=a,
                m=m,
                q=q,
                V=0.0,
                generalisation_error=float(error),
                uncertainty=1e-12,
                status=Status.OK,
            )
            rows.append(row)
        return rows

    def decay(self, teacher: Any) -> Decay | None:
        return Decay(0.5)

    def simulate(
        self,
        teacher: Any,
        alpha: float,
        dimension: int,
        seed: int,
        *,
        also: Sequence[Estimator] = (),
        **settings: Any,
    ) -> list[dict[str, Any]]:
        n, k = round(alpha * dimension), teacher.n_classes
        X, y, truth = teacher.sample(n, dimension, seed)
        W = X.T @ (np.eye(k)[y] - 1 / k) / math.sqrt(dimension)
        found = overlaps(W, truth, teacher.features)
        wrong = float(np.mean(np.argmax(X @ W, axis=1) != y))
        row = make_row(
            source=self.source,
            **teacher.columns,
            **self.columns,
            alpha=alpha,
            m=found.m,
            q=found.q,
            **exact_errors(W, truth, teacher, seed),
            training_error=wrong,
            status=Status.OK,
            dimension=dimension,
            n_samples=n,
            seed=seed,
        )
        return [row] * (1 + len(also))


def register() -> None:
    """The line that makes it a member."""
    ESTIMATORS.add(Entry("toy-hebb", "Hebb's rule, for tests", Hebb, label="Hebb's rule"))


def unregister() -> None:
    ESTIMATORS.remove("toy-hebb")


if __name__ == "__main__":
    from polyceptron.cli import main

    register()
    main()
