"""Panels that follow several scales at once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from polyceptron.numerics.panels import GAUSS_BREAKS, blend_breaks, blend_rows, panel_rule

BOTH = np.append(-GAUSS_BREAKS[:0:-1], GAUSS_BREAKS)


def test_one_set_alone_is_kept() -> None:
    np.testing.assert_allclose(blend_breaks([BOTH], -8.8, 8.8), BOTH, atol=1e-14)


def test_kinks_are_break_points_to_the_last_digit() -> None:
    breaks = blend_breaks([BOTH, 0.01 * BOTH], -8.8, 8.8, keep=(0.3, -1 / 7, 20.0))
    assert {0.3, -1 / 7, -8.8, 8.8} <= set(breaks.tolist())
    assert (np.diff(breaks) > 0).all()


@pytest.mark.parametrize("scale", [1e-60, 1e-3, 0.4, 1.0])
def test_no_panel_is_much_longer_than_those_of_any_set(scale: float) -> None:
    sets = [BOTH, scale * BOTH, np.array([-2.0, 5.0])]
    breaks = blend_breaks(sets, -8.8, 8.8)
    for points in sets:
        crossed = np.diff(np.interp(breaks, points, np.arange(len(points))))
        assert crossed.max() <= 1.2
    assert len(breaks) <= len(np.unique(np.concatenate(sets)))


@pytest.mark.parametrize("scale", [1e-9, 0.02, 0.3, 0.9])
def test_a_product_of_two_scales_is_integrated(scale: float) -> None:
    breaks = blend_breaks([BOTH, scale * BOTH], -8.8, 8.8)
    x, w = panel_rule(breaks, 12)
    both = np.exp(-0.5 * x**2) * (1 + np.exp(-0.5 * (x / scale) ** 2))
    exact = math.sqrt(2 * math.pi) * (1 + scale / math.hypot(1, scale))
    assert w @ both == pytest.approx(exact, rel=1e-9)


def test_rows_are_blended_as_one_row_is() -> None:
    own = np.array([1.0, 0.3, 1e-30])[:, None] * np.array([0.0, 0.5, 1.5, 4.0, 9.0])
    common = np.array([0.0, 0.7, 2.0, 4.5, 20.0])
    rows = blend_rows(own, common, 1.0)
    for row, points in zip(rows, own, strict=True):
        alone = blend_breaks([points, common], 0.0, float(points[-1]))
        np.testing.assert_allclose(row[: len(alone)], alone, rtol=1e-9)
        assert (row[len(alone) - 1 :] == points[-1]).all()
