"""Pictures as data: a tidy table becomes traces, and traces are drawn on paper or on the page.

Reading order: `parts` (panels and traces, and their look), `tables` (rows and their words),
`series` (which rows make a line), `curves` (the panel of all of them), `matplotlib_figure` and
`plotly_figure` (the two renderers), `overlay` (several tables on a user's axes).
"""
