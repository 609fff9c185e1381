"""One page about a user's data: what they are, how well they can be classified, what more would do.

`table` reads a file, `measure` turns samples into numbers, `sentences` says what the numbers mean
(every sentence is a template of them), `page` draws and lays out.
"""

from polyceptron.report.data.measure import Measured, measure
from polyceptron.report.data.page import as_html, as_json, as_text
from polyceptron.report.data.table import Table, read_table

__all__ = ["Measured", "Table", "as_html", "as_json", "as_text", "measure", "read_table"]
