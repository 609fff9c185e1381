"""The explorer: a page on this machine that draws learning curves and runs small simulations.

Reading order: `state` (what the page shows, as a link), `compute` (numbers, no web), `export`
(CSV and Python lines), `traces` and `figures` (plotly dictionaries), `child` and `process` (work in
processes that can be killed), `theory_queue`, `jobs` and `sessions` (who asked for what), `layout`,
`view`, `callbacks`, `scripts`, `server`. Only these last know of Dash.
"""
