"""Checks of the package's promises on this machine: `verify` returns one `Check` per line.

`references`: published values and closed forms.
`consistency`: identities of the theory, message passing and scikit-learn fits against the theory.
Seeds are fixed, so that a verdict does not depend on luck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from polyceptron.report.verify import consistency, references
from polyceptron.report.verify.references import Check, failed_check

__all__ = ["GROUPS", "Check", "verify"]

# A new group of checks: its function, and its line here.
GROUPS: dict[str, Callable[[bool], Iterator[Check]]] = {
    "phase transitions": references.thresholds,
    "learning curves": references.errors,
    "closed forms": references.closed_forms,
    "free-entropy identities": consistency.entropy_identities,
    "risk identity": consistency.risk_identity,
    "message passing": consistency.message_passing,
    "scikit-learn fits": consistency.scikit_learn,
    "noisy labels": references.noisy_values,
    "unequal classes": references.unequal_values,
    "published populations": references.published_populations,
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
