"""One page about a user's data: what they are, how well they can be classified, what more would do.

`table` reads a file, `measure` turns samples into numbers, `page` says what the numbers mean (every
sentence is a template of them), draws and lays out.
"""

from polyceptron.report.data.measure import Measured, measure
from polyceptron.report.data.page import report_html, report_json, report_text
from polyceptron.report.data.table import Table, read_samples

__all__ = [
    "Measured",
    "Table",
    "measure",
    "read_samples",
    "report_html",
    "report_json",
    "report_text",
]
