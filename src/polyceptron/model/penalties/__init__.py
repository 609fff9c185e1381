"""What the student pays for its weights: penalties of a row, symmetric in the class directions."""

from polyceptron.model.penalties import elastic_net, ridge
from polyceptron.model.penalties.base import PENALTIES, Penalty, as_penalty
from polyceptron.model.penalties.elastic_net import ElasticNet
from polyceptron.model.penalties.ridge import Ridge

__all__ = ["PENALTIES", "ElasticNet", "Penalty", "Ridge", "as_penalty"]

PENALTIES.add(ridge.ENTRY)
PENALTIES.add(elastic_net.ENTRY)
