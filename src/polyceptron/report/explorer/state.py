"""The settings under the name that `traces` and `figures` still import."""

from polyceptron.report.explorer.page_settings import PageSettings as State

__all__ = ["State"]
