"""What `traces` and `figures` still import from here."""

from polyceptron.report.explorer.curve_tasks import Row
from polyceptron.report.explorer.simulation_runs import averages

__all__ = ["Row", "averages"]
