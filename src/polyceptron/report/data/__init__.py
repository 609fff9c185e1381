"""One page about a user's data: what they are, how well they can be classified, what more would do.

`measure` reads a file and turns its samples into numbers, `page` tells what the numbers mean (every
sentence is a template of them), draws and lays out.
"""

from polyceptron.report.data.measure import Measured, Table, measure, read_samples
from polyceptron.report.data.page import report_html, report_json, report_text

__all__ = [
    "Measured",
    "Table",
    "measure",
    "read_samples",
    "report_html",
    "report_json",
    "report_text",
]
