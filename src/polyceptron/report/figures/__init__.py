"""The paper's figures and ours: for each, a table is computed, and a picture is made from it.

Reading order: `profile` (how large), `computations` (work beside the sweep), `figure_spec` (what a
figure is), one module for each family of figures, `registry` (their names), `making` (all of them
into a folder), `symbol_agreement` (how far the symbols are from their lines).
"""

from polyceptron.report.figures.figure_spec import PROFILES, FigureSpec, Profile
from polyceptron.report.figures.making import compute_tables, make_figures, work_ahead
from polyceptron.report.figures.registry import FIGURES, choose_figures
from polyceptron.report.figures.symbol_agreement import agreement, read_agreement, verdict

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
