"""The explorer: a page on this machine that draws learning curves and runs small simulations.

Reading order: `choices` and `page_settings` (what the page can show), `curve_tasks` and
`simulation_runs` (what to ask of theory and experiments), `settings_link` and `export` (what leaves
the page), `traces` and `figures` (plotly dictionaries), `worker_main` and `worker_process` (work in
processes that can be killed), `theory_queue`, `simulations` and `sessions` (who asked for what),
`request_guard` (who may ask). Only the rest knows of Dash: `controls`, `simulation_card`, `layout`,
`page_content`, `settings_sync`, `callbacks`, `browser_scripts`, `server`.
"""
