"""Matrix theory of unequal classes: published values, limits, scalars, and fits at finite d."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from tests.references.known_values import TWO_CLUSTERS

import polyceptron as pc
from polyceptron.checks import difference_basis
from polyceptron.problem import as_loss, make_population
from polyceptron.sides.matrix import graph as matrix_graph
from polyceptron.sides.matrix.proximal import matrix_pull, matrix_stiffness
from polyceptron.sides.scores import FieldsDistribution, TeacherFields, population_scores
from polyceptron.theory import separability

pytestmark = pytest.mark.slow

CE = pc.ERM("cross-entropy", 0.1, intercept=True)


@pytest.fixture(scope="module")
def biased():
    return pc.erm_fixed_point(pc.Teacher(3, biases=(0, -0.5, -1)), CE, 3.0)


def test_biased_teacher_reference(biased):
    """Our own digits; fits of scikit-learn at d = 300, 600 and 1200 tend to the first four."""
    np.testing.assert_allclose(biased.intercepts, [1.212362, -0.067638, -1.144724], atol=2e-6)
    assert biased.test_loss == pytest.approx(0.494541, abs=2e-6)
    assert biased.status == "ok"


def test_confusion_is_an_orthant_of_both_fields(biased):
    law, T = biased.law, difference_basis(3)
    joint = np.block([[law.Q[0], law.M], [law.M.T, law.teacher.covariance]])
    mean = np.concatenate([law.b, T.T @ [0, -0.5, -1]])
    for label, predicted in ((0, 0), (2, 2), (2, 0)):
        ways = np.zeros((4, 4))
        ways[:2, :2] = T[predicted] - np.delete(T, predicted, 0)
        ways[2:, 2:] = T[label] - np.delete(T, label, 0)
        found = multivariate_normal.cdf(
            ways @ mean, cov=ways @ joint @ ways.T, abseps=1e-6, maxpts=200_000
        )
        assert biased.confusion[label, predicted] == pytest.approx(found, abs=5e-6)


def test_mixture_reference():
    """Fits of scikit-learn at d = 800 err by 0.2468 ± 0.0009, 1/d above it; digits are our own."""
    population = pc.Mixture((0.7, 0.2, 0.1), gram=np.eye(3), variances=0.5)
    point = pc.erm_fixed_point(population, CE, 3.0)
    assert point.generalisation_error == pytest.approx(0.2433967, abs=2e-7)


def test_two_clusters_reference():
    """GaussMixtureProject prints them, for the margin h = z₁ − z₀, whose ridge is half of ours."""
    means = np.array([[1.0, -1.0], [-1.0, 1.0]])
    spec = pc.ERM("cross-entropy", 0.02)
    point = pc.erm_fixed_point(pc.Mixture((0.5, 0.5), gram=means, variances=0.5), spec, 3.0)
    assert point.generalisation_error == pytest.approx(TWO_CLUSTERS["error"], abs=5e-8)
    found = [math.sqrt(2) * point.m[0, 0], 2 * point.Q[0, 0, 0], 2 * point.V[0, 0, 0]]
    printed = [TWO_CLUSTERS["m"], TWO_CLUSTERS["q"], TWO_CLUSTERS["V"]]
    np.testing.assert_allclose(found, printed, rtol=3e-7)


def test_two_clusters_hinge_reference():
    """GaussMixtureProject, K2mix/data/theory/hinge_l2_rho=0.8_….csv, at its α = 0.98633.

    The means lie in both eigenspaces as any vector would.
    """
    means = np.array([[1.0, -1.0], [-1.0, 1.0]])
    levels = [(0.8, 0.5, 0.5, 0.8), (0.2, 0.1, 0.1, 0.2)]
    population = pc.Mixture((0.5, 0.5), gram=means, levels=levels)
    for loss in ("hinge", "weston-watkins"):
        point = pc.erm_fixed_point(population, pc.ERM(loss, 0.2), 0.98633)
        assert point.generalisation_error == pytest.approx(0.1291220, abs=3e-7)


def test_three_clusters_square_loss():
    """Least squares at finite d, exactly solved: .5907, .4404, .3837 are published from 20,000
    draws inside the fixed point, of which the error alone is known to ±.0035 (one deviation)."""
    population = pc.Mixture((1 / 3,) * 3, gram=np.eye(3), variances=0.5)
    d, rng = 500, np.random.default_rng(3)
    for alpha, published in ((1.0, 0.5907), (2.0, 0.4404), (3.0, 0.3837)):
        point = pc.erm_fixed_point(population, pc.ERM("square", 0.001), alpha)
        assert point.generalisation_error == pytest.approx(published, abs=0.0035)
        errors, training = [], []
        for seed in range(6):
            X, y, mu = population.sample(int(alpha * d), d, seed=seed)
            X = X / math.sqrt(d)
            W = np.linalg.solve(X.T @ X + 0.001 * np.eye(d), X.T @ np.eye(3)[y])
            root = np.linalg.cholesky(0.5 * W.T @ W / d)
            fields = (mu.T @ W / d)[:, None] + rng.standard_normal((3, 20_000, 3)) @ root.T
            errors.append(np.mean(fields.argmax(2) != np.arange(3)[:, None]))
            training.append(np.mean((X @ W).argmax(1) != y))
        for found, theory in (
            (errors, point.generalisation_error),
            (training, point.training_error),
        ):
            spread = math.hypot(np.std(found, ddof=1) / math.sqrt(6), 1 / d)
            assert abs(np.mean(found) - theory) < 4 * spread


def test_training_errors_of_nodes_and_of_proximal_points():
    """P(mistake) from points that are drawn and trained one by one."""
    spec = pc.ERM("cross-entropy", 0.1, intercept=True)
    rng = np.random.default_rng(5)
    for population in (
        pc.Mixture((0.9, 0.1), separation=2.0),
        pc.Mixture((0.7, 0.2, 0.1), gram=np.eye(3), variances=0.5),
    ):
        point = pc.erm_fixed_point(population, spec, 3.0)
        law, k, wrong, variance = point.law, population.n_classes, 0.0, 0.0
        for c, share in enumerate(population.group_shares):
            omega = rng.multivariate_normal(law.m[c] + law.b, law.Q[c], 40_000)
            label = np.full(len(omega), c)
            u = matrix_pull(as_loss("cross-entropy"), omega, label, law.V[c], np.ones(len(omega)))
            missed = np.mean((u.point @ difference_basis(k).T).argmax(1) != c)
            wrong += share * missed
            variance += share**2 * missed * (1 - missed) / len(omega)
        assert abs(wrong - point.training_error) < 4 * math.sqrt(variance)
        assert point.training_error_uncertainty < 1e-6


def test_bars_hold_against_finer_rules(monkeypatch):
    """Random populations, α and λ: inside the bar of a rule of other orders, or said to be lost."""
    names = ("generalisation_error", "balanced_error", "training_error", "training_loss")
    found, cases = [], []
    for seed in range(6):
        rng = np.random.default_rng([17, seed])
        share = rng.uniform(0.05, 0.95)
        population = pc.Mixture(
            (share, 1 - share),
            separation=rng.uniform(0.5, 3),
            variances=tuple(rng.uniform(0.3, 2, 2)),
        )
        if seed % 2:
            population = pc.Teacher(2, noise="gaussian:0.3", biases=tuple(rng.normal(size=2)))
        loss = ("cross-entropy", "hinge", "squared-hinge")[seed % 3]
        spec = pc.ERM(loss, 10 ** rng.uniform(-4, 0.5), intercept=seed % 4 < 2)
        cases.append((population, spec, 10 ** rng.uniform(-1, 2)))
        found.append(pc.erm_fixed_point(*cases[-1]))
    finer_levels = [
        level._replace(tol=tol, nodes_per_axis=n_nodes)
        for level, tol, n_nodes in zip(
            matrix_graph.BOX_LEVELS, (1e-3, 1e-5, 1e-8, 1e-10), (9, 11, 13, 15), strict=True
        )
    ]
    monkeypatch.setattr(matrix_graph, "BOX_LEVELS", tuple(finer_levels))
    for case, point in zip(cases, found, strict=True):
        if point.status == "not-converged":
            assert math.isnan(point.generalisation_error)
            continue
        finer = pc.erm_fixed_point(*case, 1e-10)
        for name in names:
            bar = f"{name}_uncertainty".removeprefix("generalisation_error_")
            assert abs(getattr(point, name) - getattr(finer, name)) <= getattr(point, bar)
    assert sum(point.status == "ok" for point in found) >= 5


@pytest.mark.parametrize("seed", range(3))
def test_bars_of_many_classes_hold_against_scalars(seed):
    """Random teachers whose classes are alike, by matrices: the scalar theory shares no rule."""
    rng = np.random.default_rng([3, seed])
    k, ridge, alpha = (
        int(rng.integers(4, 6)),
        10 ** rng.uniform(-2, 0.5),
        10 ** rng.uniform(-0.3, 1),
    )
    teacher = pc.Teacher(k, noise=("none", "gaussian:0.3", "softmax:2", "flips:0.1")[seed % 4])
    loss = ("cross-entropy", "hinge", "squared-hinge", "square", "weston-watkins")[seed % 5]
    weight = [1 + 1e-12] + [1.0] * (k - 1)  # asks for matrices
    spec = pc.ERM(loss, ridge, intercept=bool(seed % 2), class_weight=weight)
    plain = pc.erm_fixed_point(teacher, pc.ERM(loss, ridge), alpha, 1e-4)
    point = pc.erm_fixed_point(teacher, spec, alpha, 3e-3)
    assert point.status == "ok"
    for name in ("generalisation_error", "training_error", "training_loss"):
        bar = f"{name}_uncertainty".removeprefix("generalisation_error_")
        off = getattr(point, name) - getattr(plain, name)
        assert not abs(off) > getattr(point, bar) + getattr(plain, bar), name
    for name, value in (("Q", plain.q), ("V", plain.V)):
        matrix, bars = getattr(point, name)[0], getattr(point, f"{name}_uncertainty")[0]
        assert abs(np.trace(matrix) / (k - 1) - value) < np.diag(bars).max() + 1e-3 * value


def test_few_points_know_how_far_they_bend_the_training_loss():
    """Their replicates agree with each other and not with the truth: all have the same moments."""
    teacher, weight = pc.Teacher(6, noise="softmax:2"), [1 + 1e-12, 1, 1, 1, 1, 1]
    plain = pc.erm_fixed_point(teacher, pc.ERM("squared-hinge", 0.7216), 5.721, 1e-3)
    spec = pc.ERM("squared-hinge", 0.7216, class_weight=weight)
    point = pc.erm_fixed_point(teacher, spec, 5.721, 1e-2)
    off = abs(point.training_loss - plain.training_loss)
    assert off < point.training_loss_uncertainty + plain.training_loss_uncertainty


def test_points_without_a_loss_do_not_say_that_there_is_none():
    """Training losses of rare samples: the scalar theory looks for them, points do not."""
    teacher, weight = pc.Teacher(4, noise="gaussian:0.3"), [1 + 1e-12, 1, 1, 1]
    plain = pc.erm_fixed_point(teacher, pc.ERM("hinge", 0.2958), 0.559, 1e-3)
    point = pc.erm_fixed_point(teacher, pc.ERM("hinge", 0.2958, class_weight=weight), 0.559, 3e-2)
    assert plain.training_loss > 3 * plain.training_loss_uncertainty
    off = abs(point.training_loss - plain.training_loss)
    assert off < point.training_loss_uncertainty + plain.training_loss_uncertainty


def test_roots_of_many_classes_are_known_to_their_bars():
    """A large ridge, where few points have next to no spread; many samples, where they mislead."""
    large = pc.Mixture((0.1, 0.2, 0.3, 0.4), gram=2 * np.eye(4)), pc.ERM("cross-entropy", 10.0), 1.0
    biases = tuple(np.linspace(0, -1.5, 5))
    plenty = pc.Teacher(5, biases=biases, noise="gaussian:0.2"), CE, 50.0
    for case in (large, plenty):
        coarse, fine = (pc.erm_fixed_point(*case, tol) for tol in (1e-2, 3e-3))
        assert {coarse.status, fine.status} == {"ok"}
        off = abs(coarse.generalisation_error - fine.generalisation_error)
        assert off <= coarse.uncertainty + fine.uncertainty
        assert coarse.uncertainty > 1e-5


def test_bars_of_many_clusters_hold_against_plain_draws():
    """A random mixture: damped rounds on draws of all k fields, with the mean of every −∂f."""
    k, rng = 5, np.random.default_rng(4)
    shares, s = rng.dirichlet(np.full(k, 3.0)), rng.uniform(0.5, 2, k)
    root = rng.standard_normal((k, k)) / math.sqrt(k) + np.eye(k)
    population = pc.Mixture(shares, gram=root @ root.T, variances=s)
    point = pc.erm_fixed_point(population, pc.ERM("cross-entropy", 0.3), 2.0)
    errors = [plain_rounds(shares, root @ root.T, s, 0.3, 2.0, seed) for seed in range(4)]
    spread = np.std(errors, ddof=1) / 2
    assert abs(np.mean(errors) - point.generalisation_error) < point.uncertainty + 4 * spread


def plain_rounds(p, G, s, ridge, alpha, seed, draws=250):
    """The error of the mixture's equations in k fields at once, at antithetic draws, whose proximal
    points make a step of Newton's in each round."""
    k, rng = len(p), np.random.default_rng([5, seed])
    x = rng.standard_normal((k, draws, k))
    x = np.concatenate([x, -x], 1)
    m, Q, V, z = 0.1 * np.eye(k), np.eye(k), np.eye(k), np.zeros(x.shape)
    for _ in range(25):
        m_hat, Q_hat, V_hat, missed = np.zeros((k, k)), 0.0, 0.0, 0.0
        for c in range(k):
            omega, own = m[c] + math.sqrt(s[c]) * x[c] @ np.linalg.cholesky(Q).T, np.eye(k)[c]
            missed += p[c] * np.mean(omega.argmax(1) != c)
            P = np.exp(z[c] - z[c].max(1, keepdims=True))
            P /= P.sum(1, keepdims=True)
            H = P[:, :, None] * np.eye(k) - P[:, :, None] * P[:, None]
            slope = z[c] - omega + s[c] * (P - own) @ V
            z[c] -= np.linalg.solve(np.eye(k) + s[c] * V @ H, slope[:, :, None])[:, :, 0]
            m_hat[c] = alpha * p[c] * (own - P).mean(0)
            Q_hat = Q_hat + s[c] * alpha * p[c] * (own - P).T @ (own - P) / len(P)
            D = np.linalg.solve(np.eye(k) + s[c] * H @ V, H)
            V_hat = V_hat + s[c] * alpha * p[c] * D.mean(0)
        S = np.linalg.inv(ridge * np.eye(k) + V_hat)
        new = G @ m_hat @ S, S @ (Q_hat + m_hat.T @ G @ m_hat) @ S, S
        m, Q, V = ((a + b) / 2 for a, b in zip((m, Q, V), new, strict=True))
    return missed


@pytest.mark.parametrize(
    ("theta", "mu", "sigma", "intercept"),
    [(0.5, 1.51, 4.84, 0.76), (1, 1.56, 5.16, 1.559), (2, 1.83, 7.01, 3.68), (2.5, 2.31, 10, 5.8)],
)
def test_logistic_likelihood_with_intercept(theta, mu, sigma, intercept):
    """Zhao, Sur and Candès, table 13: P(y = 1) = σ(θ + γz), γ² = 5, d/n = 0.2, printed digits."""
    slope = math.sqrt(5 / 2)  # of a softmax of fields whose gap is √2 z
    shift = theta / (2 * slope)
    teacher = pc.Teacher(2, noise=f"softmax:{slope!r}", biases=(shift, -shift))
    law = pc.erm_fixed_point(teacher, pc.ERM("cross-entropy", 0, intercept=True), 5.0).law
    R = law.teacher.covariance[0, 0]
    along = law.M[0, 0] / R
    across = law.Q[0, 0, 0] - along**2 * R
    assert math.sqrt(2 / 5) * along == pytest.approx(mu, abs=0.007)
    assert math.sqrt(2 * across / 0.2) == pytest.approx(sigma, abs=0.016)
    assert math.sqrt(2) * law.b[0] == pytest.approx(intercept, abs=0.009)


@pytest.mark.parametrize(
    ("shares", "separation", "alpha"), [((0.8, 0.2), 2.5, 6.0), ((0.5, 0.5), 2.0, 2.9)]
)
def test_max_margin_up_to_where_it_ends(shares, separation, alpha):
    """Near α_s, where weights are large: its own equations in V f, of which V has dropped out."""
    population = pc.Mixture(shares, separation=separation)
    assert alpha < pc.separability(population, intercept=True).alpha_s
    point = pc.erm_fixed_point(population, pc.ERM("max-margin", 0, intercept=True), alpha)
    assert point.status == "ok"
    law, x = point.law, np.linspace(-8, 8, 8001)
    w = np.exp(-0.5 * x * x)
    w /= w.sum()
    pulls, squares = [], []
    for c, sign in ((0, 1), (1, -1)):
        T = difference_basis(2)[:, 0]
        ways = sign * (T[0] - T[1])
        g = ways * (law.m[c, 0] + law.b[0] + math.sqrt(law.Q[c, 0, 0]) * x)
        short = np.maximum(1 - g, 0) / ways  # = Vf
        pulls.append(shares[c] * (w @ short))
        squares.append(shares[c] * (w @ short**2))
    G, m_hat = np.array(population.gram), alpha * np.array(pulls)
    assert abs(sum(pulls)) < 1e-5
    np.testing.assert_allclose(G @ m_hat, law.m[:, 0], rtol=1e-5)
    assert law.Q[0, 0, 0] == pytest.approx(m_hat @ G @ m_hat + alpha * sum(squares), rel=1e-5)


def test_three_unequal_classes_near_where_margins_end(monkeypatch):
    monkeypatch.setattr(separability, "separable_up_to", lambda *_: 4.413)  # as is found, slowly
    population = pc.Mixture((0.6, 0.3, 0.1), separation=2.0)
    spec = pc.ERM("max-margin", 0, intercept=True)
    assert pc.erm_fixed_point(population, spec, 3.31).status == "ok"


def test_equal_classes_return_the_scalars():
    """Two and three; for more see the bars of many classes."""
    for k in (2, 3):
        plain = pc.erm_fixed_point(pc.Teacher(k), pc.ERM("cross-entropy", 0.1), 2.0, 1e-9)
        weight = [1 + 1e-12] + [1.0] * (k - 1)  # asks for matrices
        spec = pc.ERM("cross-entropy", 0.1, class_weight=weight)
        point = pc.erm_fixed_point(pc.Teacher(k), spec, 2.0)
        off = abs(point.generalisation_error - plain.generalisation_error)
        assert off <= point.uncertainty + plain.uncertainty
        assert np.trace(point.Q[0]) / (k - 1) == pytest.approx(plain.q, rel=1e-7)


def test_sharp_labels_and_plenty_of_data_return_the_scalars_or_nothing():
    """A layer of mistaken labels that is thinner than the distance of nodes."""
    spec = pc.ERM("cross-entropy", 0.2, class_weight=(2, 2))
    point = pc.erm_fixed_point(pc.Teacher(2), spec, 1e4)
    scalar = pc.erm_fixed_point(pc.Teacher(2), pc.ERM("cross-entropy", 0.1), 1e4)
    off = abs(point.generalisation_error - scalar.generalisation_error)
    assert off < point.uncertainty + scalar.uncertainty < 1e-6
    far = pc.erm_fixed_point(pc.Teacher(2, shares=(0.8, 0.2)), CE, 1e8)
    assert far.status != "ok"
    assert not far.generalisation_error > 1e-5  # which is 1e-7 or so, or not known


@pytest.mark.parametrize("ridge", [10.0, 1e3, 1e5])
def test_large_ridges_leave_an_intercept_of_the_shares(ridge):
    """Weights vanish as 1/λ: the softmax of the intercepts is the shares."""
    shares = np.array([0.6, 0.3, 0.1])
    for population in (pc.Teacher(3, shares=shares), pc.Mixture(shares, separation=1.0)):
        point = pc.erm_fixed_point(population, pc.ERM("cross-entropy", ridge, intercept=True), 2.0)
        assert point.status == "ok"
        np.testing.assert_allclose(
            point.intercepts, np.log(shares) - np.log(shares).mean(), atol=0.4 / ridge
        )
        assert point.generalisation_error == pytest.approx(0.4, abs=1e-3)


def test_proximal_points_are_optimal():
    rng = np.random.default_rng(0)
    omega, y = rng.normal(size=(50, 3)) * 3, rng.integers(0, 4, 50)
    V = np.diag([0.5, 2.0, 9.0]) + 0.3
    T, weight = difference_basis(4), rng.uniform(0.3, 3, 50)
    loss = as_loss("cross-entropy")
    pull = matrix_pull(loss, omega, y, V, weight)
    np.testing.assert_allclose(pull.point - omega, pull.f @ V, atol=1e-8)
    hard = matrix_pull(as_loss("max-margin"), omega, y, V, weight)
    for name, found in (("cross-entropy", pull), ("max-margin", hard)):
        near = matrix_pull(as_loss(name), omega + 1e-4 * V[0], y, V, weight)
        D = matrix_stiffness(as_loss(name), omega, y, V, weight, found)
        np.testing.assert_allclose((found.f - near.f) / 1e-4, D @ V[0], atol=2e-2)
    for name in ("hinge", "weston-watkins", "squared-hinge"):  # no step near by costs less
        kinked = matrix_pull(as_loss(name), omega, y, V, weight)
        np.testing.assert_allclose(kinked.point - omega, kinked.f @ V, atol=1e-8)

        def cost(u, name=name):
            away = u - omega
            metric = 0.5 * (away * np.linalg.solve(V, away.T).T).sum(1)
            return metric + weight * as_loss(name).value(u @ T.T, y)

        for step in 1e-3 * rng.standard_normal((20, 50, 3)):
            assert (cost(kinked.point + step) > cost(kinked.point) - 1e-9).all()
    gaps = np.take_along_axis(hard.point @ T.T, y[:, None], 1) - hard.point @ T.T
    gaps = gaps[np.arange(4) != y[:, None]].reshape(50, 3)
    assert gaps.min() > 1 - 1e-9
    # Forces push only where a constraint acts, and upwards.
    forces = -(hard.f @ T.T)[np.arange(4) != y[:, None]].reshape(50, 3)
    assert forces.min() > -1e-9
    assert np.abs(forces * (gaps - 1)).max() < 1e-7


def test_full_covariances_and_levels_agree():
    rng = np.random.default_rng(1)
    d, means = 40, rng.normal(size=(2, 40)) / math.sqrt(40) * 1.4
    level = np.repeat([0.5, 1.5], 20)
    full = pc.Mixture((0.7, 0.3), means=means, covariances=[np.diag(level), np.diag(level)])
    point = pc.erm_fixed_point(full, CE, 2.0)
    # A rotation of all features changes nothing.
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    turned = pc.Mixture(
        (0.7, 0.3), means=means @ turn.T, covariances=[turn @ np.diag(level) @ turn.T] * 2
    )
    other = pc.erm_fixed_point(turned, CE, 2.0)
    assert other.generalisation_error == pytest.approx(point.generalisation_error, abs=1e-9)
    flat = pc.Mixture((0.7, 0.3), means=means, covariances=[np.eye(d)] * 2)
    plain = pc.Mixture((0.7, 0.3), means=means)
    errors = [pc.erm_fixed_point(p, CE, 2.0).generalisation_error for p in (flat, plain)]
    assert errors[0] == pytest.approx(errors[1], abs=1e-9)


@pytest.mark.parametrize("weight", ["balanced"])
def test_fits_of_scikit_learn(weight):
    from sklearn.linear_model import LogisticRegression

    population = pc.Mixture((0.7, 0.2, 0.1), separation=2.0, variances=(1, 0.6, 1.5))
    spec = pc.ERM("cross-entropy", 0.1, intercept=True, class_weight=weight)
    theory = pc.erm_fixed_point(population, spec, 3.0)
    recalls, d = [], 200
    for seed in range(6):
        X, y, mu = population.sample(3 * d, d, seed=seed)
        fit = LogisticRegression(C=10.0, class_weight=weight, tol=1e-8, max_iter=2000).fit(
            X / math.sqrt(d), y
        )
        W = fit.coef_ / math.sqrt(d)
        rng = np.random.default_rng(seed)
        found = []
        for c in range(3):  # the fields of fresh samples are Gaussian
            covariance = (W * population.deviations(d)[c] ** 2) @ W.T
            root = np.linalg.cholesky(covariance + 1e-9 * np.eye(3))
            fields = W @ mu.T[c] / math.sqrt(d) + rng.standard_normal((20_000, 3)) @ root.T
            found.append(np.mean((fields + fit.intercept_).argmax(1) == c))
        recalls.append(found)
    spread = np.std(recalls, axis=0, ddof=1) / math.sqrt(len(recalls))
    z = (np.mean(recalls, axis=0) - theory.recall) / np.hypot(spread, 0.005)  # 1/d corrections
    assert np.abs(z).max() < 4


WIDE = pc.Mixture(
    np.full(100, 0.01), means=np.ones((100, 41)), covariances=np.tile(np.eye(41), (100, 1, 1))
)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pc.Mixture((0.5, 0.4), separation=1), "sum to 1"),
        (lambda: pc.Mixture((1.0,), separation=1), "at least 2 classes"),
        (lambda: pc.Mixture((0.5, 0.5), separation="x"), "must be a finite number, got 'x'"),
        (lambda: pc.Mixture((0.5, 0.5), separation=math.nan), "must be a finite number, got nan"),
        (lambda: pc.Mixture((0.5, 0.5), gram=[[1, 2], [2, 1]]), "must be positive"),
        (lambda: pc.Mixture((0.5, 0.5), means=np.ones((2, 15_000)), covariances=1), "k·d²"),
        (lambda: pc.erm_fixed_point(WIDE, CE, 1.0), "up to 4000"),
        (lambda: pc.ERM(class_weight={0: 0.0}), "positive numbers"),
        (lambda: pc.ERM(class_weight=(1, 2, 3)).loss_weights((0.5, 0.5)), "do not go with"),
        (lambda: pc.transitions(pc.Teacher(2, shares=(0.9, 0.1))), "alike"),
        (lambda: pc.erm_fixed_point(pc.Mixture((0.9, 0.1), separation=1), CE, 0), "above 0"),
    ],
)
def test_bad_input(make, words):
    with pytest.raises(pc.InvalidInput, match=words):
        make()


def test_shares_and_columns():
    for k, noise in ((2, "none"), (3, "softmax:2"), (5, "gaussian:0.3")):
        shares = tuple((np.arange(k) + 1.0) / (k * (k + 1) / 2))
        teacher = pc.Teacher(k, noise=noise, shares=shares)
        y = np.concatenate([teacher.sample(4000, 300, seed=s).y for s in range(5)])
        assert np.abs(np.bincount(y, minlength=k) / len(y) - shares).max() < 0.03
        assert make_population(**teacher.columns) == teacher
        again = pc.Teacher(k, noise=noise, biases=teacher.biases)
        np.testing.assert_allclose(again.class_shares, shares, atol=1e-9)


def test_rows_and_best_ridge():
    rare = pc.Mixture((0.8, 0.2), separation=2.0)
    table = pc.learning_curve(rare, pc.ERM("cross-entropy", "optimal", intercept=True), [2.0]).frame
    best = table["ridge"][0]
    errors = [
        pc.erm_fixed_point(rare, pc.ERM("cross-entropy", best * f, intercept=True), 2.0)
        for f in (0.8, 1.0, 1.25)
    ]
    heights = [e.generalisation_error for e in errors]
    assert heights[1] == min(heights)
    assert table["recall"][0].count(",") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("ridge", "alpha"), [(1e-3, 100.0), (0.1, 400.0)])
def test_noiseless_labels_of_plenty_of_samples_are_learnt(ridge, alpha):
    """Fields are 40 to 60 times as large as what they miss of the teacher's: a sharp boundary.

    The error is that of fields drawn with the teacher's, and falls with more samples.
    """
    biases = (0, -0.5, -1)
    spec = pc.ERM("cross-entropy", ridge, intercept=True)
    point = pc.erm_fixed_point(pc.Teacher(3, biases=biases), spec, alpha)
    assert point.uncertainty < 1e-5
    fewer = pc.erm_fixed_point(pc.Teacher(3, biases=biases), spec, alpha / 2)
    assert point.generalisation_error < fewer.generalisation_error
    rng = np.random.default_rng(0)
    law = point.law
    n = 400_000
    z = rng.standard_normal((n, 2)) @ np.linalg.cholesky(law.teacher.covariance).T
    A = np.linalg.solve(law.teacher.covariance, law.M.T).T
    rest = law.Q[0] - A @ law.M.T
    omega = z @ A.T + rng.standard_normal((n, 2)) @ np.linalg.cholesky(rest).T
    T = difference_basis(3)
    wrong = ((omega + law.b) @ T.T).argmax(1) != ((z + law.teacher.biases) @ T.T).argmax(1)
    assert abs(wrong.mean() - point.generalisation_error) < 4 * wrong.std() / np.sqrt(n)


@pytest.mark.parametrize("alpha", [50.0, 100.0, 200.0])
def test_hard_margins_of_plenty_of_samples_have_their_tail(alpha):
    """ε ~ 0.5/α of two noiseless classes, and biases change the constant by little."""
    spec = pc.ERM("max-margin", 0, intercept=True)
    point = pc.erm_fixed_point(pc.Teacher(2, biases=(0, -0.5)), spec, alpha)
    assert point.status == "ok"
    equal = pc.erm_fixed_point(pc.Teacher(2), pc.ERM("max-margin", 0), alpha)
    ratio = point.generalisation_error / equal.generalisation_error
    assert ratio == pytest.approx(1, abs=1e-3)


def test_fields_much_larger_than_the_teachers_keep_their_error():
    """ω = s z + rest: the error does not depend on the unit of ω, however large s is."""
    teacher = pc.Teacher(2, biases=(0, -0.5))
    T = difference_basis(2)
    biases = T.T @ teacher.offsets
    one = np.ones((1, 1))
    errors = []
    for unit in (1.0, 1e3):
        fields = TeacherFields(unit * 0.999999 * one, one, biases, teacher.channel)
        Q = unit**2 * one[None]
        law = FieldsDistribution(np.ones(1), np.zeros((1, 1)), Q, unit * biases, fields)
        errors.append(float(population_scores(law).error.value))
    assert errors[1] == pytest.approx(errors[0], rel=1e-6)
    # ε = E over the boundary at −b* of two fields of correlation ρ: arccos(ρ)/π e^{−b*²/2} nearly.
    angle = np.arccos(0.999999) / np.pi * np.exp(-0.5 * float(biases[0]) ** 2)
    assert errors[0] == pytest.approx(angle, rel=1e-3)
