"""The explorer: a page on this machine that draws learning curves and runs small simulations.

Reading order: `controls`, `members`, `settings` and `links` (what the page can show), `page_tasks`
(what to ask of theory and experiments), `worker_process`, `work_queue` and `sessions` (work in
processes that can be killed, and who asked for it), `page_figures` (what is drawn), `script` and
`page_content` (what there is to see and to take away), `request_guard` and `server` (who may ask).
Only `layout` and `callbacks` know of Dash.
"""
