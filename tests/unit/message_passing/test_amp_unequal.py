"""Message passing where classes are not alike: intercepts, class weights, a teacher's biases."""

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.checks import difference_basis

SHARES = (0.6, 0.3, 0.1)


@pytest.mark.parametrize("loss", ["cross-entropy", "squared-hinge"])
@pytest.mark.parametrize(
    ("shares", "options", "features"),
    [
        ((0.8, 0.2), {"intercept": True, "class_weight": "balanced"}, "isotropic"),
        (SHARES, {"intercept": True}, "power:1.2:100"),
        (SHARES, {"class_weight": {0: 0.5, 2: 3.0}}, "isotropic"),
    ],
)
def test_it_ends_at_the_minimiser(loss, shares, options, features):
    teacher = pc.Teacher(len(shares), shares=shares, features=features)
    data = teacher.sample(n_samples=400, dimension=100, seed=0)
    fit = pc.fit_erm(data.X, data.y, loss, 0.3, **options)
    found = pc.amp_erm(data.X, data.y, loss, 0.3, features=features, **options)
    assert found.status == fit.status == "ok"
    assert np.linalg.norm(found.weights - fit.weights) < 1e-6 * np.linalg.norm(fit.weights)
    assert np.abs(found.intercepts - fit.intercepts).max() < 1e-6
    if "intercept" in options:
        assert np.abs(found.scores.sum(0)).max() < 1e-5  # the residuals have the mean 0
    else:
        assert not found.intercepts.any()


def test_it_follows_the_theory_of_its_population():
    teacher, d = pc.Teacher(3, shares=SHARES), 600
    options = {"intercept": True, "class_weight": "balanced"}
    theory = pc.erm_fixed_point(teacher, pc.ERM("cross-entropy", 0.1, **options), alpha=2.0)
    data = teacher.sample(n_samples=2 * d, dimension=d, seed=0)
    found = pc.amp_erm(data.X, data.y, "cross-entropy", 0.1, **options)
    T = difference_basis(3)
    W, V = found.weights @ T, T.T @ found.variance @ T
    close = 3 / np.sqrt(d)
    for measured, law in ((V, theory.law.V[0]), (W.T @ W / d, theory.law.Q[0])):
        assert np.abs(measured - law).max() < close * np.abs(law).max()
    overlap = (data.weights @ T).T @ W / d
    assert np.abs(overlap - theory.law.M).max() < 2 * close
    assert np.abs(found.intercepts - theory.intercepts).max() < 2 * close
    assert V[1, 1] > 1.3 * V[0, 0]  # one number would not do


@pytest.mark.parametrize("shares", [(0.8, 0.2), SHARES])
def test_known_biases_make_the_posterior_mean_bayes_optimal(shares):
    d = 300
    data = pc.Teacher(len(shares), shares=shares).sample(3 * d, d, seed=1)
    given = {"teacher_weights": data.weights}
    found = pc.amp(data.X, data.y, shares=shares, **given)
    assert found.status == "ok"
    last = found.trace[-1]
    assert abs(last["m"] - last["q"]) < 2 / np.sqrt(d)  # Nishimori's identity
    assert "generalisation_error" not in last  # that of equal classes does not hold
    without = pc.amp(data.X, data.y, **given).trace[-1]
    assert abs(without["m"] - without["q"]) > 2 / np.sqrt(d) or without["m"] < 0.1
    assert last["m"] ** 2 / last["q"] > without["m"] ** 2 / without["q"] + 0.05


def test_what_is_not_taken_is_said():
    X, y = np.random.default_rng(0).standard_normal((30, 4)), np.arange(30) % 3
    for loss, options in (
        ("square", {"intercept": True}),
        ("hinge", {"intercept": True}),
        ("cross-entropy", {"penalty": "elastic-net:0.1:0.5", "class_weight": "balanced"}),
    ):
        with pytest.raises(pc.InvalidInput, match="takes a ridge and a smooth"):
            pc.amp_erm(X, y, loss, **options)
    with pytest.raises(pc.InvalidInput, match="True or False"):
        pc.amp_erm(X, y, intercept="yes")
    with pytest.raises(pc.InvalidInput, match="takes no shares"):
        pc.amp(X, y % 2, model="perceptron", shares=(0.9, 0.1))
