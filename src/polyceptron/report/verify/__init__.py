"""Checks of the package's promises on this machine: `verify` returns one `Check` per line.

Published values and closed forms (`published`), identities of the free entropy and of the risk
(`identities`), the paper's matrix equations by Monte Carlo against the scalar ones (`matrix`),
message passing and scikit-learn fits against the theory (`simulated`), noisy labels (`noisy`), and
stated error bars against the truth (`sampled`). `groups` lists them all. Seeds are fixed, so that a
verdict does not depend on luck.
"""

from polyceptron.report.verify.check import Check
from polyceptron.report.verify.groups import GROUPS, verify

__all__ = ["GROUPS", "Check", "verify"]
