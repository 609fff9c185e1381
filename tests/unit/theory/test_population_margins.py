"""Margins of classes that are not alike: masses, means, scalars, and fits of drawn data."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import simpson

import polyceptron as pc

RARE = pc.Mixture((0.8, 0.2), separation=2.0, variances=(1.0, 0.5))
THREE = pc.Mixture((0.6, 0.3, 0.1), separation=2.0)
BALANCED = {"intercept": True, "class_weight": "balanced"}


def mass(law, density, low=-math.inf, high=math.inf):
    """The integral between grid points, by Simpson's rule."""
    part = (low <= law.margin) & (law.margin <= high)
    return simpson(density[part], x=law.margin[part])


@pytest.mark.parametrize(
    ("population", "spec", "reach", "near"),
    [
        (RARE, pc.ERM("cross-entropy", 0.1, **BALANCED), 16, 1e-5),
        (RARE, pc.ERM("hinge", 0.5, intercept=True), 16, 1e-5),
        (pc.Teacher(2, biases=(0.5, 0.0), noise="flips:0.1"), pc.ERM("square", 0.5), 16, 1e-5),
        (THREE, pc.ERM("squared-hinge", 0.3, intercept=True), 5, 2e-4),
        (pc.Teacher(3, shares=(0.6, 0.3, 0.1)), pc.ERM("cross-entropy", 0.1), 12, 2e-4),
        (pc.Mixture((0.4, 0.3, 0.2, 0.1), separation=2.0), pc.ERM("cross-entropy", 0.1), 16, 6e-3),
    ],
    ids=["weighted", "hinge", "flips", "squared-hinge", "biased", "four"],
)
def test_masses_are_those_of_the_fixed_point(population, spec, reach, near):
    """All of it 1, and below 0 the errors, which the fixed point has from other rules."""
    k = population.n_classes
    ends = [-reach, 0.0, 1 - 1e-9, 1 + 1e-9, reach]  # mistakes, a jump
    parts = [np.linspace(*pair, 1 + (2000 if k == 2 else 40)) for pair in pairwise(ends)]
    law = pc.margin_law(population, spec, 2.0, np.unique(np.concatenate(parts)))
    point, fresh, training = (
        law.point,
        *(
            [mass(law, density, *pair) for pair in pairwise(ends)]
            for density in (law.fresh, law.training)
        ),
    )
    assert sum(fresh) == pytest.approx(1, abs=near)
    assert sum(training) + law.atom == pytest.approx(1, abs=near)
    assert fresh[0] == pytest.approx(point.generalisation_error, abs=near)
    assert training[0] == pytest.approx(point.training_error, abs=near)
    if k == 2 and spec.loss.name != "square":  # the loss is one of the margin
        fields = np.stack([law.margin / 2, -law.margin / 2], 1)
        value = spec.loss.value(fields, np.zeros(len(fields), dtype=int)) * law.training
        mean = sum(mass(law, value, *pair) for pair in pairwise(ends))
        assert mean == pytest.approx(point.training_loss, abs=near)


def test_hard_margins_are_lifted_to_one():
    law = pc.margin_law(RARE, pc.ERM("max-margin", 0, intercept=True), 1.0)
    assert law.atom_at == 1
    assert law.training[law.margin < 1].max() == 0
    above = law.margin > 1
    np.testing.assert_array_equal(law.training[above], law.fresh[above])
    assert mass(law, law.fresh, high=1.0) == pytest.approx(law.atom, abs=5e-3)


@pytest.mark.parametrize(("k", "loss"), [(2, "cross-entropy"), (2, "hinge"), (3, "cross-entropy")])
def test_equal_classes_have_the_densities_of_scalars(k, loss):
    grid = np.linspace(-4, 6, 24)
    weight = [1 + 1e-12] + [1.0] * (k - 1)  # asks for matrices
    plain, matrices = (
        pc.margin_law(pc.Teacher(k), pc.ERM(loss, 0.3, class_weight=w), 2.0, grid)
        for w in (None, weight)
    )
    np.testing.assert_allclose(matrices.fresh, plain.fresh, atol=2e-6)
    np.testing.assert_allclose(matrices.training, plain.training, atol=2e-6)
    assert matrices.atom == pytest.approx(plain.atom, abs=1e-6)
    for name in ("fresh", "training", "atom"):
        apart = np.abs(getattr(matrices, name) - getattr(plain, name))
        bars = [getattr(law, f"{name}_uncertainty") for law in (matrices, plain)]
        assert (apart <= bars[0] + bars[1]).all()
        assert np.max(bars) < 1e-4


def test_a_rough_fixed_point_has_wide_bars_of_densities():
    """The error to a hundredth: densities move by more than rules, and stay within their bars."""
    spec, grid = pc.ERM("cross-entropy", 0.3, intercept=True), np.linspace(-4, 4, 9)
    rough, fine = (pc.margin_law(THREE, spec, 2.0, grid, tol=tol) for tol in (1e-2, 1e-7))
    for name in ("fresh", "training"):
        apart = np.abs(getattr(rough, name) - getattr(fine, name))
        bars = [getattr(law, f"{name}_uncertainty") for law in (rough, fine)]
        assert apart.max() > bars[1].max()
        assert (apart <= bars[0] + bars[1]).all()


def margins(z, labels):
    own = z[np.arange(len(z)), labels]
    z[np.arange(len(z)), labels] = -np.inf
    return own - z.max(1)


def test_margins_meet_fits_of_drawn_data():
    spec, d, alpha = pc.ERM("cross-entropy", 0.3, **BALANCED), 120, 2.0
    law = pc.margin_law(THREE, spec, alpha, np.linspace(-8, 8, 65))
    edges = law.margin[::8]
    exact = [[mass(law, f, *pair) for pair in pairwise(edges)] for f in (law.fresh, law.training)]
    seen = []
    for seed in range(6):
        X, y, mu = THREE.sample(int(alpha * d), d, seed=seed)
        fit, rng = pc.fit_erm(X, y, "cross-entropy", 0.3, **BALANCED), np.random.default_rng(seed)
        labels = rng.choice(3, 4000, p=THREE.class_shares)
        fresh = mu.T[labels] / math.sqrt(d) + rng.standard_normal((4000, d))
        z = [x @ fit.weights / math.sqrt(d) + fit.intercepts for x in (fresh, X)]
        both = margins(z[0], labels), margins(z[1], y)
        seen.append([np.histogram(each, edges)[0] / len(each) for each in both])
    spread = np.std(seen, axis=0, ddof=1) / math.sqrt(len(seen))
    off = np.mean(seen, axis=0) - exact
    assert (np.abs(off) < 4.5 * spread + 1 / d).all(), off
