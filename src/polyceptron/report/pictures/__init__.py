"""Pictures as data: a tidy table becomes traces, and traces are drawn on paper or on the page.

Reading order: `parts` (what a picture is, and its look), `series` (which rows make a line),
`curves` (from series to a panel), `matplotlib_figure` and `plotly_figure` (the two renderers).
"""
