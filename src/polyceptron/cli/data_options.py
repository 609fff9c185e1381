"""What the commands that fit a user's files share: their options, and what they write."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from polyceptron.cli.printing import check_outputs, emit, say
from polyceptron.cli.waiting import waiting
from polyceptron.errors import InvalidInput
from polyceptron.rows import json_ready

Data = Annotated[
    Path | None, typer.Option(help="Samples X (n, d): .npy, .npz (sparse), .zarr or .parquet.")
]
Labels = Annotated[Path | None, typer.Option(help="Labels 0, 1, ... (n,) of the samples: .npy.")]
Out = Annotated[
    Path, typer.Option(help="Weights (d, k), as .npy; the report is a .json beside it.")
]
Standardise = Annotated[
    bool, typer.Option("--standardise", help="Centre and scale features as they are read.")
]
CheckpointFile = Annotated[
    Path | None, typer.Option("--checkpoint", help="Keep the fit here, and go on from it.")
]
Cluster = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler whose workers read .zarr or .parquet."),
]


def run_on_files(
    name: str,
    run: Callable[..., dict[str, Any]],
    data: Path | None,
    labels: Path | None,
    out: Path,
    as_json: bool,
    cluster: str | None,
    **settings: Any,
) -> None:
    """Check where to write, fit with progress shown, write weights and report, print the report."""
    if data is None or labels is None:
        raise InvalidInput("--data and --labels go together: a file of samples, a file of labels")
    if out.suffix != ".npy":
        raise InvalidInput(f"weights are written as .npy, got --out {str(out)!r}")
    beside = out.with_suffix(".json")
    check_outputs(out, beside)
    with _connected(cluster, data), waiting(f"{name}: the first pass over {data.name}") as show:
        report = run(data, labels, callback=lambda now: show(str(now)), **settings)
    _write(out, beside, report)
    shown = {key: value for key, value in report.items() if key not in ("weights", "offset")}
    columns = ("n_samples", "dimension", "n_classes", "n_iter", "passes", "seconds", "status")
    optional = ("n_classes", "passes", "dimension", "n_samples")
    emit([shown], columns, optional=optional, as_json=as_json, title=f"{name} of {data.name}")
    say(f"weights in {out}, report in {beside}")
    if report["status"] == "interrupted":
        sys.exit(130)


def _write(out: Path, beside: Path, report: dict[str, Any]) -> None:
    from polyceptron.experiments.file_fits import save_weights
    from polyceptron.files import write_text

    save_weights(out, report["weights"])
    told = json_ready({key: value for key, value in report.items() if key != "weights"})
    write_text(beside, json.dumps(told, indent=2) + "\n")


@contextmanager
def _connected(cluster: str | None, data: Path) -> Iterator[None]:
    """Dask's work on the cluster, if one is named."""
    if cluster is None:
        yield
        return
    if data.suffix not in (".zarr", ".parquet"):
        raise InvalidInput(
            f"--cluster reads .zarr or .parquet in chunks where its workers are, got {data.name!r}"
        )
    from polyceptron.experiments.cluster import connect

    client = connect(cluster)
    try:
        yield
    finally:
        client.close(timeout=2)
