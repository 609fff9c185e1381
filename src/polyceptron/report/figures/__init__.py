"""The paper's figures and ours: for each, a table is computed, and a picture is made from it.

Reading order: `figure_spec` (what a figure is, and how large), `bayes_figures`, `erm_figures`,
`noisy_figures`, `mixture_figures` (the figures), `making` (all of them into a folder, and how far
the symbols are from their lines).
"""
