"""The paper's figures and ours: for each, a table is computed, and a picture is made from it.

Reading order: `figure_spec` (what a figure is, and how large), `bayes_figures`, `erm_figures` and
`noisy_figures` (the figures), `making` (all of them into a folder), `symbol_agreement` (how far the
symbols are from their lines).
"""

from polyceptron.report.figures.figure_spec import PROFILES, FigureSpec, Profile
from polyceptron.report.figures.making import (
    FIGURES,
    choose_figures,
    compute_tables,
    make_figures,
    read_agreement,
    work_ahead,
)
from polyceptron.report.figures.symbol_agreement import agreement, verdict

__all__ = [
    "FIGURES",
    "PROFILES",
    "FigureSpec",
    "Profile",
    "agreement",
    "choose_figures",
    "compute_tables",
    "make_figures",
    "read_agreement",
    "verdict",
    "work_ahead",
]
