"""Two classes: panels along the gap, in the coordinate of the loss."""

from __future__ import annotations

from polyceptron.model.channels import Channel
from polyceptron.model.law import Law
from polyceptron.model.losses import Loss
from polyceptron.numerics.panels import panel_rule
from polyceptron.theory.fields.integrand import (
    Averages,
    Rule,
    average,
    field_scales,
    ordered_density,
)

ORDERS = (6, 9, 12, 16, 22, 30)  # nodes a panel, by level
N_LEVELS = len(ORDERS)


def place(loss: Loss, channel: Channel, n_classes: int, law: Law, level: int) -> Rule:
    """Nodes adapted to `law`; held still they serve any law near it, smoothly."""
    breaks = field_scales(channel, law, 2).gap_breaks()
    nodes, weights = panel_rule(loss.line_breaks(breaks, law.V), ORDERS[level])

    def rule(law: Law) -> Averages:
        gaps, stretch, pull = loss.on_line(nodes, law.V)
        weight = weights * stretch * ordered_density(gaps, law.q)
        return average(channel, law, gaps, weight, pull, n_classes=2)

    return rule
