"""The registry of losses; its members are added in the package's `__init__`."""

from polyceptron.problem.losses.base import Loss
from polyceptron.problem.registry import Registry

LOSSES: Registry[Loss] = Registry("loss", Loss)
