"""Data chosen by margin: shares, label chances, limits, fits at d = 300, the shell and sweeps."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from typer.testing import CliRunner

import polyceptron as pc
from polyceptron.cli import app
from polyceptron.lab.spec import parse_spec
from polyceptron.lab.tasks import compute_rows, expand
from polyceptron.problem.channels.kept import KeptLabels, margin_of_share, share_above
from polyceptron.problem.channels.kept_by_probe import KeptByProbe
from polyceptron.problem.populations import make_population
from polyceptron.students import student_of

RULE = pc.ERM("cross-entropy", 0.2)


def row_of(teacher: object, rule: object, alpha: float) -> dict[str, object]:
    return student_of(rule).rows(teacher, [alpha])[0]


@pytest.mark.parametrize("k", [2, 3, 10, 100])
def test_share_of_margins(k: int) -> None:
    """P(margin > c) by drawn fields; at k = 2 it is P(|z₁ − z₂| > c) = 2Φ(−c/√2)."""
    fields = np.sort(np.random.default_rng(0).standard_normal((200_000, k)), axis=1)
    margins = fields[:, -1] - fields[:, -2]
    for c in (0.2, 1.0):
        share = (margins > c).mean()
        spread = math.sqrt(share * (1 - share) / len(margins))
        assert abs(share_above(c, k) - share) < 4.5 * spread
    assert share_above(margin_of_share(0.3, k), k) == pytest.approx(0.3, abs=1e-12)
    assert share_above(0.7, 2) == pytest.approx(2 * norm.cdf(-0.7 / math.sqrt(2)), abs=1e-12)


@pytest.mark.parametrize("which", ["hard", "easy"])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_chances_of_kept_labels(k: int, which: str) -> None:
    """Z by drawn fields around given means, its slopes by differences, and the signal."""
    rng = np.random.default_rng(1)
    channel = KeptLabels(k, 0.4, which)
    n = 400_000
    means = np.sort(rng.standard_normal(k))[::-1] * 0.7
    gaps = np.sort(means[0] - means[1:])[:, None]
    v = 0.5

    def kept(z: np.ndarray) -> np.ndarray:
        top = np.sort(z, axis=1)
        above = top[:, -1] - top[:, -2] > channel.margin
        return above if which == "easy" else ~above

    z = means + math.sqrt(v) * rng.standard_normal((n, k))
    inside = kept(z) & (z.argmax(1) == 0)
    spread = inside.std() / math.sqrt(n) / 0.4
    law = channel.label_law(gaps, v, k)
    assert abs(law.z[0] - inside.mean() / 0.4) < 4.5 * spread + 1e-9
    for h in range(k - 1):
        step = 1e-5 * (np.arange(k - 1) == h)[:, None]
        change = channel.label_law(gaps + step, v, k).z - channel.label_law(gaps - step, v, k).z
        assert law.slopes[h, 0] == pytest.approx(change[0] / 2e-5, rel=1e-4, abs=1e-7)
    z = rng.standard_normal((n, k))
    up = z.max(1) * kept(z) / 0.4 / (k - 1)
    assert abs(up.mean() - channel.signal(k)) < 4.5 * up.std() / math.sqrt(n)


@pytest.mark.parametrize("k", [2, 3])
def test_keeping_nearly_all_is_the_teacher(k: int) -> None:
    """keep → 1: hard and easy both tend to all samples, and α_kept to α."""
    plain = row_of(pc.Teacher(k), RULE, 3.0)["generalisation_error"]
    for which in ("hard", "easy"):
        row = row_of(pc.Pruned(pc.Teacher(k), 1 - 1e-6, which), RULE, 3.0)
        assert row["generalisation_error"] == pytest.approx(plain, abs=1e-4)
        assert row["alpha"] == 3.0
    whole = row_of(pc.Pruned(pc.Teacher(k), 1.0), RULE, 3.0)
    assert whole["generalisation_error"] == plain


def test_random_is_fewer_samples() -> None:
    fewer = row_of(pc.Teacher(3), RULE, 1.5)
    row = row_of(pc.Pruned(pc.Teacher(3), 0.5, "random"), RULE, 3.0)
    assert row["generalisation_error"] == fewer["generalisation_error"]
    assert row["alpha_kept"] == 1.5


def test_large_ridge_is_the_hebb_rule_of_kept_samples() -> None:
    """λ → ∞: W ∝ Σ x(e_y − 1/k)ᵀ over kept samples, m = α'c/λ and q − m² from their spread.

    A kept sample's x is Gaussian but along the teacher, which adds nothing to q − m² at large d:
    q − m² = α'/(kλ²), so τ = c√(kα') with c the signal of the kept labels.
    """
    for k in (2, 3):
        for which in ("hard", "easy"):
            population = pc.Pruned(pc.Teacher(k), 0.4, which)
            row = row_of(population, pc.ERM("square", 1e6), 5.0)
            c = population.kept.channel.signal(k)
            rho = row["m"] / math.sqrt(row["q"])
            assert rho / math.sqrt(1 - rho**2) == pytest.approx(c * math.sqrt(k * 2.0), rel=1e-3)


def test_easy_labels_of_two_classes_by_quadrature() -> None:
    """The mean loss of training samples at weights that are given, for k = 2."""
    channel = KeptLabels(2, 0.5, "easy")
    c = margin_of_share(0.5, 2)
    # E z_y over |gap| > c: half the mean of the gap there
    mean_gap = quad(lambda g: 2 * g * norm.pdf(g, scale=math.sqrt(2)), c, 20)[0] / 0.5
    assert channel.signal(2) == pytest.approx(mean_gap / 2, rel=1e-8)


def test_where_hard_beats_random() -> None:
    """Keep one half, ridge 0.2: at k = 2 between α = 4 and 8, at k = 3 beyond 8."""
    for k, before, after in ((2, 4.0, 8.0), (3, 8.0, 16.0)):
        for alpha, hard_wins in ((before, False), (after, True)):
            errors = {
                which: row_of(pc.Pruned(pc.Teacher(k), 0.5, which), RULE, alpha)
                for which in ("hard", "random")
            }
            hard, chance = (errors[w]["generalisation_error"] for w in ("hard", "random"))
            assert (hard < chance) == hard_wins


FITTED = [
    (2, "hard", 0.5, RULE, 1e-5),
    (2, "easy", 0.3, pc.ERM("hinge", 0.5), 1e-5),
    (3, "hard", 0.5, RULE, 1e-4),
    (3, "easy", 0.5, pc.ERM("square", 1.0), 1e-4),
    (3, "random", 0.5, RULE, 1e-4),
]


@pytest.mark.parametrize(("k", "which", "keep", "rule", "bar"), FITTED, ids=str)
def test_fits(k: int, which: str, keep: float, rule: pc.ERM, bar: float) -> None:
    """Means over 20 fits at d = 300 within 4.5 standard errors and 3/d."""
    alpha, d, runs = 5.0, 300, 20
    population = pc.Pruned(pc.Teacher(k), keep, which)
    theory = row_of(population, rule, alpha)
    assert theory["uncertainty"] < bar
    drawn = [student_of(rule).simulate(population, alpha, d, seed)[0] for seed in range(runs)]
    names = ["m", "generalisation_error", "training_error"]
    if rule.name != "square":  # its loss also acts along (1, …, 1), which no theory follows
        names.append("training_loss")
    for name in names:
        values = np.array([row[name] for row in drawn])
        error = values.std(ddof=1) / math.sqrt(runs)
        allowed = 4.5 * error + 3 / d * (1 + abs(theory[name]))
        assert abs(values.mean() - theory[name]) < allowed, (name, values.mean(), theory[name])
    assert drawn[0]["alpha_kept"] == pytest.approx(keep * alpha, abs=1 / d)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["hard", "easy"])
def test_fits_of_ten_classes(which: str) -> None:
    """By random points above three classes."""
    population = pc.Pruned(pc.Teacher(10), 0.5, which)
    theory = row_of(population, RULE, 10.0)
    assert theory["uncertainty"] < 3e-3
    drawn = [student_of(RULE).simulate(population, 10.0, 300, seed)[0] for seed in range(10)]
    errors = np.array([row["generalisation_error"] for row in drawn])
    allowed = 4.5 * errors.std(ddof=1) / math.sqrt(10) + 3 / 300 + theory["uncertainty"]
    assert abs(errors.mean() - theory["generalisation_error"]) < allowed


def test_both_ends_of_alpha() -> None:
    """Without data there is chance; with plenty the noiseless rule is learnt, hard or easy."""
    for which in ("hard", "easy"):
        population = pc.Pruned(pc.Teacher(3), 0.5, which)
        assert row_of(population, RULE, 0.0)["generalisation_error"] == pytest.approx(2 / 3)
        assert row_of(population, RULE, 1e-4)["generalisation_error"] > 0.65
    last = row_of(pc.Pruned(pc.Teacher(2), 0.5, "hard"), RULE, 1e4)
    assert last["generalisation_error"] < 2e-3
    assert last["uncertainty"] < 1e-5


def test_plentiful_hard_samples_of_ten_classes() -> None:
    """The hard half alone tends to what all samples give: wide margins add nothing in the end.

    At α = 1000 the label's chances fall with the gap, over a part of the sampled fields.
    """
    for alpha, excess in ((1e3, 0.08), (1e4, 2e-3)):
        half = row_of(pc.Pruned(pc.Teacher(10), 0.5, "hard"), RULE, alpha)
        whole = row_of(pc.Teacher(10), RULE, alpha)
        assert half["status"] == "ok"
        bars = half["uncertainty"] + whole["uncertainty"]
        lost = half["generalisation_error"] - whole["generalisation_error"]
        assert -bars < lost < excess * whole["generalisation_error"] + bars


def test_sample_keeps_the_smallest_margins() -> None:
    X, y, weights = pc.Pruned(pc.Teacher(3), 0.25, "hard").sample(200, 20, seed=3)
    whole, labels, same = pc.Teacher(3).sample(200, 20, seed=3)
    assert np.array_equal(weights, same)
    fields = np.sort(whole @ weights / math.sqrt(20), axis=1)
    order = np.sort(np.argsort(fields[:, -1] - fields[:, -2])[:50])
    assert np.array_equal(X, whole[order])
    assert np.array_equal(y, labels[order])


def test_columns_are_read_back() -> None:
    for population in (
        pc.Pruned(pc.Teacher(4, features="power:1.2:50"), 0.25, "easy"),
        pc.Pruned(pc.Teacher(2), 0.25, "hard", 0.8),
        pc.Pruned(pc.Teacher(2), 0.25, "hard", 0.0),
    ):
        assert make_population(**population.columns) == population
    for words in ("hard", "hard:", "hard:0.5:x", "hard:0.5:0.8:1"):
        with pytest.raises(pc.InvalidInput, match="must be written hard:SHARE"):
            make_population("argmax", 2, prune=words)


def test_shell_and_sweep(tmp_path: Path) -> None:
    asked = ["curve", "-k", "2", "-e", "cross-entropy", "--ridge", "0.2", "--alpha", "4"]
    found = CliRunner().invoke(
        app, [*asked, "--prune", "hard:0.5", "--csv", str(tmp_path / "c.csv")]
    )
    assert found.exit_code == 0
    assert "hard:0.5" in (tmp_path / "c.csv").read_text(encoding="utf-8")
    spec = parse_spec(
        """
        [population]
        n_classes = 2
        prune = "hard:0.5"
        [[grid]]
        sources = ["theory", "erm"]
        estimators = ["cross-entropy"]
        ridge = [0.2]
        alpha = [4.0]
        dimension = [100]
        """
    )
    rows = [row for task in expand(spec) for row in compute_rows(task)]
    assert {row["source"] for row in rows} == {"theory", "erm"}
    assert all(row["prune"] == "hard:0.5" and row["alpha_kept"] == 2.0 for row in rows)


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("which", ["hard", "easy"])
def test_chances_of_labels_that_a_probe_keeps(which: str, across: bool) -> None:
    """Z by drawn fields, its slopes by differences, and the share that is kept."""
    rng = np.random.default_rng(2)
    keep, probe, angle, v, gap = 0.4, 0.7, 0.3, 0.5, 0.8
    channel = KeptByProbe(keep, which, probe, angle, across)
    n = 1_000_000
    along = gap / math.sqrt(2) + math.sqrt(v) * rng.standard_normal(n)
    off = rng.standard_normal(n)
    of_probe = math.acos(probe) - angle

    def share(shift_along: float, shift_off: float) -> float:
        """P(label 1, kept)/keep with both fields shifted; the same draws for all shifts."""
        x, rest = along + shift_along, off + shift_off
        g = math.cos(angle) * x - math.sin(angle) * rest
        h = math.cos(of_probe) * x + math.sin(of_probe) * rest
        wide = np.abs(h) > channel.margin / math.sqrt(2)
        kept = wide if which == "easy" else ~wide
        return float(((g > 0) & kept).mean() / keep)

    law = channel.label_law(np.array([[gap]]), v)
    spread = 4.5 / keep / math.sqrt(4 * n)
    assert abs(law.z[0] - share(0.0, 0.0)) < spread
    step = 0.05
    shift = (0.0, step) if across else (step, 0.0)
    change = (share(*shift) - share(-shift[0], -shift[1])) / (2 * step)
    assert law.slopes[0, 0] * math.sqrt(2) == pytest.approx(change, abs=0.02)


@pytest.mark.parametrize("which", ["hard", "easy"])
def test_probes_between_the_teacher_and_none(which: str) -> None:
    """A probe of correlation 1 is the teacher; one of 0 knows no labels: it keeps any samples."""
    by_teacher = row_of(pc.Pruned(pc.Teacher(2), 0.5, which), RULE, 4.0)
    nearly = row_of(pc.Pruned(pc.Teacher(2), 0.5, which, probe=1 - 1e-9), RULE, 4.0)
    anything = row_of(pc.Pruned(pc.Teacher(2), 0.5, "random"), RULE, 4.0)
    blind = row_of(pc.Pruned(pc.Teacher(2), 0.5, which, probe=0.0), RULE, 4.0)
    for name in ("generalisation_error", "m", "q", "V", "training_loss"):
        assert nearly[name] == pytest.approx(by_teacher[name], abs=1e-6)
        assert blind[name] == pytest.approx(anything[name], abs=1e-6)
    assert blind["uncertainty"] < 1e-6


def overlaps_by_quadrature(
    overlaps: list[float], probe: float, keep: float, alpha: float, ridge: float
) -> list[float]:
    """m, its part across, q and V after one round of the square loss on hard samples of k = 2.

    Everything is along the class direction: g is the teacher's field, and the loss (x ∓ 1/√2)²/2.
    For each ω the fields (g, h) are summed over a grid.
    """
    m, p, q, V = overlaps
    omega = np.linspace(-7, 7, 41) * math.sqrt(q)
    weight = norm.pdf(omega, scale=math.sqrt(q)) * (omega[1] - omega[0])
    g = np.linspace(0, 7, 421)[:, None]  # label 1; label 2 is its mirror image
    on_edge = np.where(g == 0, 0.5, 1.0)
    c = norm.ppf((1 + keep) / 2)
    h = np.linspace(-c, c, 161)[None]
    inside = np.where(np.abs(h) == c, 0.5, 1.0)
    rest = math.sqrt(1 - probe**2)
    off = (h - probe * g) / rest  # the field across the teacher
    area = (g[1, 0] - g[0, 0]) * (h[0, 1] - h[0, 0]) / rest
    residual = np.eye(2) - np.outer([m, p], [m, p]) / q
    inverse = np.linalg.inv(residual)
    norm_of_density = area / (2 * math.pi * math.sqrt(np.linalg.det(residual)))
    totals = np.zeros(4)
    for x, w in zip(omega, weight, strict=True):
        u, t = g - m / q * x, off - p / q * x
        exponent = inverse[0, 0] * u * u + 2 * inverse[0, 1] * u * t + inverse[1, 1] * t * t
        density = 2 * w * norm_of_density * np.exp(-0.5 * exponent) * on_edge * inside
        f = (1 / math.sqrt(2) - x) / (1 + V)
        pulls = [f * ((inverse[0, 0] * u + inverse[0, 1] * t) * density).sum()]
        pulls.append(f * ((inverse[0, 1] * u + inverse[1, 1] * t) * density).sum())
        totals += [*pulls, f * f * density.sum(), density.sum() / (1 + V)]
    m_hat, p_hat, q_hat, V_hat = alpha * totals
    V = 1 / (ridge + V_hat)
    return [m_hat * V, p_hat * V, (m_hat**2 + p_hat**2 + q_hat) * V * V, V]


def test_the_equations_of_a_probe_by_another_quadrature() -> None:
    """Iterated on a grid of all three fields, the plain equations have the same fixed point."""
    alpha, keep, probe, ridge = 4.0, 0.5, 0.6, 0.5
    row = row_of(pc.Pruned(pc.Teacher(2), keep, "hard", probe), pc.ERM("square", ridge), alpha)
    overlaps = [row["m"], 0.0, row["q"], row["V"]]
    for _ in range(25):
        overlaps = overlaps_by_quadrature(overlaps, probe, keep, alpha, ridge)
    m, p, q, V = overlaps
    assert abs(p) > 0.01  # the student has learned of the probe as well
    assert [row["m"], row["q"], row["V"]] == pytest.approx([m, q, V], rel=1e-4)


@pytest.mark.parametrize(("which", "probe"), [("hard", 0.9), ("easy", 0.6)])
@pytest.mark.parametrize("features", ["isotropic", "levels:3x0.25,0.333x0.75"])
def test_fits_to_samples_that_a_probe_keeps(which: str, probe: float, features: str) -> None:
    alpha, d, runs = 5.0, 300, 20
    population = pc.Pruned(pc.Teacher(2, features=features), 0.5, which, probe)
    theory = row_of(population, RULE, alpha)
    assert theory["uncertainty"] < 1e-5
    assert theory["alpha_kept"] == 2.5
    drawn = [student_of(RULE).simulate(population, alpha, d, seed)[0] for seed in range(runs)]
    for name in ("m", "q", "generalisation_error", "training_error", "training_loss"):
        values = np.array([row[name] for row in drawn])
        error = values.std(ddof=1) / math.sqrt(runs)
        allowed = 4.5 * error + 3 / d * (1 + abs(theory[name]))
        assert abs(values.mean() - theory[name]) < allowed, (name, values.mean(), theory[name])


def test_both_ends_of_alpha_with_a_probe() -> None:
    for which in ("hard", "easy"):
        population = pc.Pruned(pc.Teacher(2), 0.5, which, 0.8)
        assert row_of(population, RULE, 0.0)["generalisation_error"] == pytest.approx(0.5)
        assert row_of(population, RULE, 1e-3)["generalisation_error"] > 0.48
        last = row_of(population, RULE, 1e5)
        assert last["generalisation_error"] < 1e-3
        assert last["status"] == "ok"


def test_scores_with_a_probe() -> None:
    """Test losses of fresh samples are those of the student at the teacher's own angle."""
    nearly = pc.Pruned(pc.Teacher(2), 0.5, "hard", 1 - 1e-9)
    one = student_of(RULE).order_parameters(nearly, 4.0)
    two = student_of(RULE).order_parameters(pc.Pruned(pc.Teacher(2), 0.5, "hard"), 4.0)
    assert one.order.tau == pytest.approx(two.order.tau, rel=1e-5)
    row = row_of(pc.Pruned(pc.Teacher(2), 0.5, "hard", 0.7), RULE, 4.0)
    seen = student_of(RULE).order_parameters(pc.Pruned(pc.Teacher(2), 0.5, "hard", 0.7), 4.0)
    assert seen.order.m == pytest.approx(row["m"], rel=1e-9)
    assert seen.order.q == row["q"]


WRONG = [
    ({"keep": 0.0}, "above 0"),
    ({"keep": 1.5}, "at most 1"),
    ({"keep": "half"}, "at most 1"),
    ({"which": "odd"}, "'hard', 'easy' or 'random'"),
    ({"probe": 0.5}, "a probe below 1 takes two classes, got probe = 0.5 and 3 classes"),
    ({"probe": 1.5}, "must be a number from 0 to 1, got 1.5"),
    ({"probe": "teacher"}, "must be a number from 0 to 1, got 'teacher'"),
]


@pytest.mark.parametrize(("given", "words"), WRONG, ids=str)
def test_bad_input(given: dict[str, object], words: str) -> None:
    with pytest.raises(pc.InvalidInput, match=words):
        pc.Pruned(pc.Teacher(3), **given)


def test_refused() -> None:
    for teacher in (pc.Teacher(3, noise="flips:0.1"), pc.Teacher(3, biases=(1, 0, 0)), 3):
        with pytest.raises(pc.InvalidInput, match="equal classes"):
            pc.Pruned(teacher)
    population = pc.Pruned(pc.Teacher(3))
    for rule in ("bayes", "class-means", "lda", "one-vs-rest", "sgd:1"):
        with pytest.raises(pc.InvalidInput):
            row_of(population, rule, 1.0)
        with pytest.raises(pc.InvalidInput):
            student_of(rule).simulate(population, 1.0, 20, 0)
    with pytest.raises(pc.InvalidInput, match="intercept"):
        row_of(population, pc.ERM(intercept=True), 1.0)
    by_probe = pc.Pruned(pc.Teacher(2), probe=0.8)
    for rule in (pc.ERM(ridge="optimal"), pc.ERM("square", penalty="elastic-net:0.1:0.1")):
        with pytest.raises(pc.InvalidInput, match="a ridge that is a number"):
            row_of(by_probe, rule, 1.0)
    with pytest.raises(pc.InvalidInput):
        pc.erm_fixed_point(population, RULE, 1.0)
    with pytest.raises(pc.InvalidInput):
        pc.separability(population)
