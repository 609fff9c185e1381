"""Three classes: panels along the gap to the best loser, and along the gap between the losers."""

from __future__ import annotations

import numpy as np

from polyceptron.model.channels import Channel
from polyceptron.model.law import Law
from polyceptron.model.losses import Loss
from polyceptron.model.losses.coordinates import Plane
from polyceptron.numerics.panels import panel_rule
from polyceptron.theory.fields.integrand import (
    Averages,
    Rule,
    average,
    field_scales,
    ordered_density,
)

ORDERS = (4, 6, 8, 11, 15, 20)  # nodes a panel, by level
N_LEVELS = len(ORDERS)
LEFT = 0.1  # of the change from one level to the next, at most that is left
_NEGLIGIBLE = 42.0  # nodes with a Gaussian exponent beyond this (6e-19) are dropped


def place(loss: Loss, channel: Channel, n_classes: int, law: Law, level: int) -> Rule:
    """Nodes adapted to `law`; held still they serve any law near it, smoothly."""
    order, V = ORDERS[level], law.V
    scales = field_scales(channel, law, 3)
    wide = loss.wide_plane(scales.width, V)
    plane: Plane = loss if wide is None else wide
    row, weight_row = panel_rule(plane.line_breaks(scales.gap_breaks(), V), order)
    columns = plane.plane_breaks(row, scales.loser_breaks(), V)
    along, weights = panel_rule(np.ascontiguousarray(columns), order)
    weights = weights * weight_row[:, None]
    rows = np.broadcast_to(row[:, None], along.shape)
    if wide is None:
        first, apart = loss.on_line(row, V).gaps[0][:, None], along
    else:
        gaps = wide.on_plane(rows.ravel(), along.ravel(), V).gaps.reshape(2, *along.shape)
        first, apart = gaps[0], gaps[1] - gaps[0]
    exponent = (first * (first + apart) + apart * apart) / (3 * law.q)
    used = (weights > 0) & (exponent < _NEGLIGIBLE)
    row, along, weights = rows[used], along[used], weights[used]

    def rule(law: Law) -> Averages:
        gaps, stretch, pull = plane.on_plane(row, along, law.V)
        weight = weights * stretch * ordered_density(gaps, law.q)
        return average(channel, law, gaps, weight, pull, n_classes=3)

    return rule
