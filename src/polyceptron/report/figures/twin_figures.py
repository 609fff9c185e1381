"""The figure of Gaussian twins: scikit-learn's digits beside mixtures with their moments."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from polyceptron.report.figures import figure_spec as spec
from polyceptron.report.pictures import parts as pic
from polyceptron.report.twins import twin_report, twins_panel

SIZES = (0.1, 0.16, 0.25, 0.4, 0.63, 1.0)  # of what may be learnt from


def digits_rows(ridge: float, draws: int, sizes: list[float]) -> list[spec.Row]:
    """Measured errors of cross-entropy, and those of the twins."""
    from sklearn.datasets import load_digits

    from polyceptron.model import ERM

    X, y = load_digits(return_X_y=True)
    found = twin_report(X, y, ERM(ridge=ridge), train_sizes=sizes, draws=draws)
    return [
        spec.figure_row(
            str(row.model), "cross-entropy", model="mixture", n_classes=10, ridge=ridge,
            n_samples=row.n_samples, alpha=row.alpha, dimension=row.dimension,
            generalisation_error=row.error, error_bar=row.error_uncertainty,
            instances=row.instances, status="ok",
        )
        for row in found.frame.itertuples()
    ]  # fmt: skip


@spec.figure(
    "twins",
    "Digits and their Gaussian twins",
    computations=lambda profile: [
        spec.ask(
            digits_rows,
            ridge=0.1,
            draws=2 if profile.symbols < 16 else 10,
            sizes=profile.thin(SIZES),
        )
    ],
)
def twins(table: pd.DataFrame) -> pic.Panel:
    """Error of logistic regression (*λ* = 0.1) on held-out digits, and on Gaussian mixtures with
    the classes' own means and covariances, a pooled covariance or isotropic classes, fitted to as
    many drawn samples; teacher: theory of a linear rule with the data's spectrum, one number of
    which is fitted. Bars hold in 99 of 100 cases.
    """
    names = {"generalisation_error": "error", "error_bar": "error_uncertainty", "source": "model"}
    panel = twins_panel(table.drop(columns="model").rename(columns=names))
    # Of drawn twins: points with bars, and lines for the eye.
    traces = (replace(t, marker=t.marker or "square", size=0.8, width=0.7) for t in panel.traces)
    return replace(panel, traces=tuple(traces), legend=pic.Legend("outside"))
