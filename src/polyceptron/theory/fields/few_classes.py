"""Two and three classes: panels along the gaps, in the coordinates of the student.

Two classes are a line, the gap to the other one. Three are a plane: the gap to the closer of the
others, and along each row of it the gap between them.
"""

from __future__ import annotations

import numpy as np

from polyceptron.model.channels import Channel
from polyceptron.model.law import Law
from polyceptron.numerics.panels import panel_rule
from polyceptron.theory.fields.integrand import (
    Averages,
    Averaging,
    FieldsStudent,
    Rule,
    average,
    field_scales,
    ordered_density,
)

_NEGLIGIBLE = 42.0  # nodes with a Gaussian exponent beyond this (6e-19) are dropped


class PanelsTwo(Rule):
    """Two classes."""

    orders = (6, 9, 12, 16, 22, 30)  # nodes a panel, by level
    n_levels = len(orders)

    def place(
        self, student: FieldsStudent, channel: Channel, n_classes: int, law: Law, level: int
    ) -> Averaging:
        own = student.coordinates
        breaks = field_scales(channel, law, 2).gap_breaks()
        nodes, weights = panel_rule(own.line_breaks(breaks, law.V), self.orders[level])

        def averages(law: Law) -> Averages:
            gaps, stretch, pull = own.on_line(nodes, law.V)
            weight = weights * stretch * ordered_density(gaps, law.q)
            return average(channel, law, gaps, weight, pull, n_classes=2)

        return averages


class PanelsThree(Rule):
    """Three classes."""

    orders = (4, 6, 8, 11, 15, 20)  # nodes a panel, by level
    n_levels = len(orders)
    left = 0.1

    def place(
        self, student: FieldsStudent, channel: Channel, n_classes: int, law: Law, level: int
    ) -> Averaging:
        order, V = self.orders[level], law.V
        scales = field_scales(channel, law, 3)
        narrow = student.coordinates
        wide = narrow.wide(scales.width, V)
        plane = narrow if wide is None else wide
        row, weight_row = panel_rule(plane.line_breaks(scales.gap_breaks(), V), order)
        columns = plane.plane_breaks(row, scales.second_breaks(), V)
        along, weights = panel_rule(np.ascontiguousarray(columns), order)
        weights = weights * weight_row[:, None]
        rows = np.broadcast_to(row[:, None], along.shape)
        if wide is None:
            first, apart = narrow.on_line(row, V).gaps[0][:, None], along
        else:
            gaps = wide.on_plane(rows.ravel(), along.ravel(), V).gaps.reshape(2, *along.shape)
            first, apart = gaps[0], gaps[1] - gaps[0]
        exponent = (first * (first + apart) + apart * apart) / (3 * law.q)
        used = (weights > 0) & (exponent < _NEGLIGIBLE)
        row, along, weights = rows[used], along[used], weights[used]

        def averages(law: Law) -> Averages:
            gaps, stretch, pull = plane.on_plane(row, along, law.V)
            weight = weights * stretch * ordered_density(gaps, law.q)
            return average(channel, law, gaps, weight, pull, n_classes=3)

        return averages


FEW: dict[int, Rule] = {2: PanelsTwo(), 3: PanelsThree()}
