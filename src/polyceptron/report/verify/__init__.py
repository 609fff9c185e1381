"""Checks of the package's promises on this machine: `verify` returns one `Check` per line.

Published values and closed forms (`published`), identities of the free entropy and of the risk and
the paper's matrix equations by Monte Carlo (`identities`), message passing and scikit-learn fits
against the theory (`simulated`), stated uncertainties against the truth (`coverage`). Seeds are
fixed, so that a verdict does not depend on luck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from polyceptron.report.verify.check import Check, failed_check
from polyceptron.report.verify.coverage import coverage, error_bars
from polyceptron.report.verify.identities import (
    bayes_matrix,
    entropy_identities,
    erm_matrix,
    risk_identity,
)
from polyceptron.report.verify.published import closed_forms, errors, noisy_values, thresholds
from polyceptron.report.verify.simulated import (
    message_passing,
    monte_carlo_errors,
    noisy_message_passing,
    scikit_learn,
)

__all__ = ["GROUPS", "Check", "verify"]

# A new group of checks: its function, and its line here.
GROUPS: dict[str, Callable[[bool], Iterator[Check]]] = {
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

    Everything is right when every verdict is 'ok'. A group that fails is a line of the table.
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
