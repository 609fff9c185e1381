"""The figures by name, in the order of the gallery."""

from __future__ import annotations

from collections.abc import Sequence

from polyceptron.errors import InvalidInput
from polyceptron.report.figures.amp_errors import FIG2A, FIG2B, FIG3, TRAJECTORY
from polyceptron.report.figures.classes import CLASSES, TRANSITIONS
from polyceptron.report.figures.erm_curves import DOUBLE_DESCENT, FIG4A, FIG4B, FIG4C, FIG4D
from polyceptron.report.figures.figure_spec import FigureSpec
from polyceptron.report.figures.margin_laws import MARGINS
from polyceptron.report.figures.noisy_labels import NOISY_CURVES, NOISY_PHASES
from polyceptron.report.figures.noisy_scores import CALIBRATION, SEPARABILITY

FIGURES: dict[str, FigureSpec] = {
    figure.name: figure
    for figure in (
        FIG2A, FIG2B, FIG3, FIG4A, FIG4B, FIG4C, FIG4D, CLASSES, TRANSITIONS, DOUBLE_DESCENT,
        TRAJECTORY, MARGINS, NOISY_CURVES, SEPARABILITY, CALIBRATION, NOISY_PHASES,
    )
}  # fmt: skip


def choose_figures(names: Sequence[str] = ()) -> list[FigureSpec]:
    """The figures of these names (all for none), in the gallery's order; a sentence otherwise."""
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise InvalidInput(f"unknown figure {unknown[0]!r}: allowed are {', '.join(FIGURES)}")
    return [figure for figure in FIGURES.values() if not names or figure.name in names]
