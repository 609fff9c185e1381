"""What the student pays for its weights: penalties of a row, symmetric in the class directions."""

from polyceptron.model.penalties import ridge
from polyceptron.model.penalties.base import PENALTIES, Penalty, as_penalty
from polyceptron.model.penalties.ridge import Ridge

__all__ = ["PENALTIES", "Penalty", "Ridge", "as_penalty"]

PENALTIES.add(ridge.ENTRY)
