"""Any results as a picture at the shell: plot."""

from __future__ import annotations

import sys
from pathlib import Path

import typer


def plot(
    sources: list[Path] = typer.Argument(
        ..., metavar="STORE_OR_CSV", help="A sweep's store or a table in CSV; several together."
    ),
    out: Path | None = typer.Option(
        None,
        "--out",
        "-o",
        help="A .pdf, .png or .svg file. Default: the first name, as .pdf here.",
    ),
    x: str = typer.Option("alpha", "--x", help="Column across: alpha, ridge, n_classes, …"),
    y: str = typer.Option(
        "generalisation_error", "--y", help="Column up: q, m, V, training_loss, free_entropy, …"
    ),
    where: list[str] = typer.Option(
        [], "--where", metavar="COLUMN=VALUE", help="Only such rows: ridge=1; repeatable."
    ),
    log_x: bool | None = typer.Option(
        None, "--log-x/--linear-x", help="Scale across. Default: as the values ask for."
    ),
    log_y: bool = typer.Option(False, "--log-y", help="A logarithmic scale up."),
) -> None:
    """Draw any store or table: theory as lines, experiments as symbols with standard errors."""
    from polyceptron.report.pictures import curves_picture, render_matplotlib
    from polyceptron.report.pictures.matplotlib_figure import check_figure_path, save_figure
    from polyceptron.report.pictures.sources import read_tables, select_rows

    if out is not None:
        check_figure_path(out)
    table = select_rows(read_tables(sources), where)
    picture = curves_picture(table, x, y, log_x=log_x, log_y=log_y)
    target = Path(sources[0].stem + ".pdf") if out is None else out
    save_figure(render_matplotlib(picture), target)
    sys.stderr.write(f"drawn in {target}\n")
