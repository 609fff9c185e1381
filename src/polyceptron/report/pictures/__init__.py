"""Pictures as data: a tidy table becomes traces, and traces are drawn on paper or on the page.

Reading order: `parts` (what a picture is), `style`, `series` (which rows make a line), `curves`
(from series to a panel), `matplotlib_figure` and `plotly_figure` (the two renderers).
"""

from polyceptron.report.pictures.curves import curves_panel, curves_picture, ridge_picture
from polyceptron.report.pictures.matplotlib_figure import render_matplotlib
from polyceptron.report.pictures.parts import Axis, Legend, Mark, Note, Panel, Picture, Shade, Trace
from polyceptron.report.pictures.plotly_figure import render_plotly

__all__ = [
    "Axis",
    "Legend",
    "Mark",
    "Note",
    "Panel",
    "Picture",
    "Shade",
    "Trace",
    "curves_panel",
    "curves_picture",
    "render_matplotlib",
    "render_plotly",
    "ridge_picture",
]
