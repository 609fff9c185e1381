"""A report on a table of samples: `data_report` measures it, `DataReport` shows and writes it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from polyceptron.files import write_text
from polyceptron.report.data.measuring import Measured, measure
from polyceptron.report.data.page import report_body, report_html, report_json, report_text
from polyceptron.report.data.reading import read_samples
from polyceptron.report.data.sentences import ALARMS, SUMMARY, Sentence, sentences


@dataclass(frozen=True, repr=False)
class DataReport:
    """How well a linear rule classifies a table of samples, and what would do better.

    Printed, it is text of 80 columns; in a notebook it is the page.

    Attributes
    ----------
    measured : Measured
        The numbers and tables that everything else is made of.
    """

    measured: Measured

    @property
    def numbers(self) -> dict[str, Any]:
        """Every number of the report by its name."""
        return self.measured.numbers

    @property
    def sentences(self) -> list[Sentence]:
        """Every sentence with its heading and the names of its numbers."""
        return sentences(self.measured)

    @property
    def headline(self) -> tuple[str, ...]:
        """How good the classifier is, what to do next, and what to distrust."""
        return tuple(s.text for s in self.sentences if s.section == SUMMARY)

    @property
    def alarms(self) -> tuple[str, ...]:
        """What should be explained before any number is believed."""
        return tuple(s.text for s in self.sentences if s.section == ALARMS)

    @property
    def frames(self) -> dict[str, pd.DataFrame]:
        """The tables behind the pictures by name: classes, rivals, ridge, error_curve, …"""
        return {name: pd.DataFrame(rows) for name, rows in self.measured.tables.items()}

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one page that needs nothing else, and write it to `path` if that is given."""
        page = report_html(self.measured)
        if path is not None:
            write_text(Path(path), page)
        return page

    def to_json(self, path: str | Path | None = None) -> str:
        """Return numbers, sentences and tables as JSON, and write it to `path` if given."""
        text = report_json(self.measured)
        if path is not None:
            write_text(Path(path), text)
        return text

    def __str__(self) -> str:
        return report_text(self.measured)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return report_body(self.measured)


def data_report(
    table: str | Path | pd.DataFrame,
    target: str | None = None,
    *,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    missing: str = "refuse",
    twins: bool = False,
    seed: int = 0,
    progress: Callable[[str], None] = lambda text: None,
) -> DataReport:
    """Measure how well a linear rule classifies a table, and what more data would bring.

    Parameters
    ----------
    table : str, Path or pandas.DataFrame
        A data frame, or a file: text (.csv, .tsv, .txt, each also with .gz), .xlsx, .parquet,
        .feather or .npz.
    target : str
        The column of the labels.
    drop, keep : sequence of str
        Columns to leave out, and columns to use although they look like dates or row numbers.
    missing : {'refuse', 'fill', 'drop-rows'}
        What to do with missing values.
    twins : bool
        Whether Gaussian mixtures with the moments of the data are compared too.
    seed : int
        Of the folds and the resampling.
    progress : callable, optional
        It is told of each step.

    Returns
    -------
    DataReport

    Examples
    --------
    >>> import polyceptron as pc
    >>> from sklearn.datasets import load_iris
    >>> report = pc.data_report(load_iris(as_frame=True).frame, "target")
    >>> report.numbers["n"], sorted(report.frames)[:3]
    (150, ['alarms', 'calibration', 'classes'])
    """
    source = table if isinstance(table, pd.DataFrame) else Path(table)
    samples = read_samples(source, target, drop, keep, missing)
    return DataReport(measure(samples, seed=seed, twins=twins, progress=progress))
