"""All groups of checks, one check after another: `verify` yields each as it ends."""

import math
from collections.abc import Callable, Iterator

from polyceptron.progress import steps
from polyceptron.report.verify.check import Check
from polyceptron.report.verify.equal_classes import closed_forms, errors, noisy_values, thresholds
from polyceptron.report.verify.identities import entropy_identities, risk_identity
from polyceptron.report.verify.simulations import message_passing, scikit_learn
from polyceptron.report.verify.unequal_classes import published_populations, unequal_values

# A new group of checks: its function, and its line here.
GROUPS: dict[str, Callable[[bool], Iterator[Check]]] = {
    "phase transitions": thresholds,
    "learning curves": errors,
    "closed forms": closed_forms,
    "free-entropy identities": entropy_identities,
    "risk identity": risk_identity,
    "message passing": message_passing,
    "scikit-learn fits": scikit_learn,
    "noisy labels": noisy_values,
    "unequal classes": unequal_values,
    "published populations": published_populations,
}
# CPU seconds of the groups that take more than half a second, of 40 in all: for the time left.
SECONDS_OF_GROUPS = {"message passing": 19.0, "scikit-learn fits": 20.0}
SECONDS_OF_OTHERS = 0.2


def verify(full: bool = False, progress: Callable[[str], object] = bool) -> Iterator[Check]:
    """Yield every check as it ends; a group that fails is a check without a number.

    Parameters
    ----------
    full : bool
        Check more classes, dimensions and runs.
    progress : callable
        It is called with the name of each group before its checks.
    """
    durations = [SECONDS_OF_GROUPS.get(name, SECONDS_OF_OTHERS) for name in GROUPS]
    for name, group in steps(GROUPS.items(), len(GROUPS), durations=durations):
        progress(name)
        try:
            yield from group(full)
        except Exception as error:  # whatever goes wrong on a stranger's machine is the finding
            reason = f"{type(error).__name__}: {error}"
            yield Check(name, math.nan, math.nan, "", 0.0, reason)
