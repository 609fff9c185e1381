"""The explorer: a page on this machine that draws learning curves and runs small simulations.

Reading order: `settings` (what the page can show), `page_tasks` (what to ask of theory and
experiments), `page_figures` (what is drawn), `exports` (what leaves the page), `work_queue` (work
in processes that can be killed), `sessions` (who asked for what, and what there is to see),
`server` (who may ask). Only the rest knows of Dash: `layout`, `callbacks`.
"""
