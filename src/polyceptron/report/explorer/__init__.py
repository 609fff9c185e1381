"""The explorer: a page on this machine that draws learning curves and runs small simulations.

Reading order: `settings` (what the page can show), `page_tasks` (what to ask of theory and
experiments), `page_figures` and `export` (what is drawn, and what leaves the page), `workers` (work
in processes that can be killed), `sessions` (who asked for what), `server` (who may ask). Only the
rest knows of Dash: `layout`, `page_content`, `callbacks`.
"""
