"""The explorer: a page on this machine that draws learning curves and runs small simulations.

Reading order: `settings` (what the page can show), `page_tasks` (what to ask of theory and
experiments), `work_queue` (work in processes that can be killed, and who asked for it),
`page_figures` (what is drawn), `page_content` (what there is to see and to take away), `server`
(who may ask). Only the rest knows of Dash: `layout`, `callbacks`.
"""
