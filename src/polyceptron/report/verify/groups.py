"""Run every group of checks; a group that fails is a line of the table, not the end of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from polyceptron.report.verify.check import Check, failed_check
from polyceptron.report.verify.coverage import coverage
from polyceptron.report.verify.identities import (
    bayes_matrix,
    entropy_identities,
    erm_matrix,
    risk_identity,
)
from polyceptron.report.verify.published import (
    closed_forms,
    errors,
    noisy_message_passing,
    noisy_values,
    thresholds,
)
from polyceptron.report.verify.simulated import (
    error_bars,
    message_passing,
    monte_carlo_errors,
    scikit_learn,
)

Group = Callable[[bool], Iterator[Check]]

# A new group of checks: its function, and its line here.
GROUPS: dict[str, Group] = {
    "phase transitions": thresholds,
    "learning curves": errors,
    "closed forms": closed_forms,
    "free-entropy identities": entropy_identities,
    "risk identity": risk_identity,
    "Bayes matrix equations": bayes_matrix,
    "ERM matrix equations": erm_matrix,
    "message passing": message_passing,
    "scikit-learn fits": scikit_learn,
    "noisy labels": noisy_values,
    "message passing with noise": noisy_message_passing,
    "error bars": error_bars,
    "coverage": coverage,
    "Monte Carlo errors": monte_carlo_errors,
}


def verify(full: bool = False, progress: Callable[[str], object] | None = None) -> list[Check]:
    """All checks in order; `full` adds classes, dimensions and runs; `progress` gets group names.

    Everything is right when every verdict is 'ok'.
    """
    found: list[Check] = []
    for name, group in GROUPS.items():
        if progress is not None:
            progress(name)
        try:
            found.extend(group(full))
        except Exception as error:  # whatever goes wrong on a stranger's machine is the finding
            found.append(failed_check(name, f"{type(error).__name__}: {error}"))
    return found
