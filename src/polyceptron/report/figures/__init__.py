"""The paper's figures and ours: for each, a table is computed, and a picture is drawn from it.

Reading order: `profile` (how large), `jobs` (work beside the sweep), `base` (what a figure is),
`table` and `drawing` (what figures share), one module for each family of figures, `registry` (their
names), `run` (all of them into a folder).
"""

from polyceptron.report.figures.base import FigureSpec
from polyceptron.report.figures.profile import PROFILES, Profile
from polyceptron.report.figures.registry import FIGURES, choose_figures
from polyceptron.report.figures.run import compute_tables, estimate, make_figures

__all__ = [
    "FIGURES",
    "PROFILES",
    "FigureSpec",
    "Profile",
    "choose_figures",
    "compute_tables",
    "estimate",
    "make_figures",
]
