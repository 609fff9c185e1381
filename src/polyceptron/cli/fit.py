"""Certified fits to a user's files at the shell: fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyceptron.cli import data_options, options


def fit(
    data: data_options.Data = None,
    labels: data_options.Labels = None,
    estimator: options.OneLoss = "cross-entropy",
    ridge: Annotated[float, typer.Option(help="λ, 0 or more.")] = 0.1,
    standardise: data_options.Standardise = False,
    tol: Annotated[float, typer.Option(help="Relative distance to the minimiser.")] = 1e-8,
    checkpoint: data_options.CheckpointFile = None,
    cluster: data_options.Cluster = None,
    out: data_options.Out = Path("weights.npy"),
    as_json: options.Json = False,
) -> None:
    """Fit a loss with a ridge to samples in files, which may be larger than memory.

    Example: polyceptron fit --data X.npy --labels y.npy --ridge 1 --out weights.npy
    """
    from polyceptron.experiments.file_fits import fit_of_files

    data_options.run_on_files(
        estimator, fit_of_files, data, labels, out, as_json, cluster, standardise=standardise,
        loss=estimator, ridge=ridge, tol=tol, checkpoint=checkpoint,
    )  # fmt: skip
