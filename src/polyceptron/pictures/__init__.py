"""Pictures as data: a tidy table becomes traces, and traces are drawn on paper or on the page.

Reading order: `parts` (what a picture is, and its look), `curves` (which rows make a line, and the
panel of all of them), `matplotlib_figure` and `plotly_figure` (the two renderers).
"""
