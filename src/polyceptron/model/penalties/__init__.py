"""What the student pays for its weights: penalties of a row, symmetric in the class directions."""

from polyceptron.model.penalties import ridge
from polyceptron.model.penalties.base import PENALTIES, Penalty
from polyceptron.model.penalties.ridge import Ridge

__all__ = ["PENALTIES", "Penalty", "Ridge"]

PENALTIES.add(ridge.ENTRY)
