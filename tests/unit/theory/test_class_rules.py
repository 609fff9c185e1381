"""One-vs-rest, discriminant analysis, class means: limits, other forms, and drawn data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import polyceptron as pc
from polyceptron.errors import InvalidInput
from polyceptron.lab.spec import parse_spec
from polyceptron.problem import ESTIMATORS, as_loss, make_estimator
from polyceptron.problem.order import ScalarOrder
from polyceptron.students import student_of
from polyceptron.theory.one_vs_rest import SolutionsOverRidge
from polyceptron.theory.one_vs_rest_equations import BinaryStudents


def row(name: str, population: object, alpha: float, ridge: float | None = None) -> dict:
    (found,) = student_of(make_estimator(name, ridge)).rows(population, [alpha], tol=5e-4)
    return found


def test_one_vs_rest_with_the_square_loss_is_the_square_loss() -> None:
    teacher = pc.Teacher(3, noise="flips:0.1", features="power:1.2:20")
    found = row("one-vs-rest[square]", teacher, 2.0, 0.5)
    plain = pc.erm_fixed_point(teacher, pc.ERM("square", 1.0), 2.0)
    assert found["status"] == "ok"
    assert abs(found["generalisation_error"] - plain.generalisation_error) < found["uncertainty"]
    assert found["uncertainty"] < 5e-4


@pytest.mark.parametrize("loss", ["cross-entropy", "squared-hinge"])
@pytest.mark.parametrize("noise", ["none", "softmax:2"])
def test_two_classes_against_each_other_are_one_fit(noise: str, loss: str) -> None:
    teacher = pc.Teacher(2, noise=noise)
    found = row(f"one-vs-rest[{loss}]", teacher, 3.0, 0.1)
    plain = pc.erm_fixed_point(teacher, pc.ERM(loss, 0.2), 3.0)
    for name in ("generalisation_error", "training_error", "training_loss"):
        times = 2 if name == "training_loss" else 1  # two students have the loss twice
        assert found[name] == pytest.approx(times * getattr(plain, name), abs=2e-6)
    (drawn,) = student_of(make_estimator(f"one-vs-rest[{loss}]", 0.1)).simulate(
        teacher, 3.0, 300, 1
    )
    assert found["q"] == pytest.approx(drawn["q"], rel=0.2)  # of the same scale


def test_the_curvature_of_one_vs_rest_comes_by_parts_too() -> None:
    """C from −∂f, a step function for kinks, and from M and x·f: on points that hold neither."""
    loss = as_loss("squared-hinge")
    students = BinaryStudents(pc.Teacher(4, noise="gaussian:0.2"), loss, 0.1, 2.0)
    theta = np.array([0.2, 1.5, 0.35, 0.4, -1.8])
    nodes, found = students.nodes(theta, 3), []
    for jumps in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(students.loss.coordinates), "jumps", jumps)
            found.append(students.values(theta, nodes)[3])  # ln V less that after a round
    off = found[0] - found[1]
    assert abs(off.mean()) < 4 * off.std(ddof=1) / math.sqrt(len(off))
    assert off.std() < 8e-3  # of sixteen


def test_the_best_ridge_of_one_vs_rest_has_the_least_error() -> None:
    """Where its start at a small ridge is far from the root, and on both sides of the optimum."""
    path = SolutionsOverRidge(BinaryStudents(pc.Teacher(3), as_loss("cross-entropy"), 1.0, 10.0))
    x = math.log(path.best(1e-6).parameter)
    tau = [path.at(x + step)[0][0] for step in (-1.0, 0.0, 1.0)]
    assert max(tau) == tau[1]


def test_what_binary_students_have_in_common_is_that_of_fits() -> None:
    """The mean of their weights, ‖w̄‖² = p d/k, and what is apart, ‖w_l − w̄‖² = q d (1 − 1/k)."""
    k, d, alpha, ridge, found = 3, 200, 3.0, 0.3, []
    students = BinaryStudents(pc.Teacher(k), as_loss("cross-entropy"), ridge, alpha)
    theta = SolutionsOverRidge(students).at(math.log(ridge))[0]
    for seed in range(8):
        X, y, _ = pc.Teacher(k).sample(n_samples=round(alpha * d), dimension=d, seed=seed)
        fits = [
            LogisticRegression(C=1 / ridge, tol=1e-8).fit(X / math.sqrt(d), y == l)
            for l in range(k)
        ]
        W = np.concatenate([fit.coef_ for fit in fits]) / math.sqrt(d)
        common = W.mean(0)
        found.append([k * common @ common, ((W - common) ** 2).sum() / (k - 1)])
    mean, spread = np.mean(found, 0), np.std(found, 0, ddof=1) / math.sqrt(len(found))
    off = mean / [theta[2] ** 2, math.exp(theta[1])] - 1
    assert (abs(off) < 4 * spread / mean + 2 / d).all(), off


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ridge"),
    [
        ("one-vs-rest", 0.1),
        ("one-vs-rest[squared-hinge]", 0.1),
        ("lda", 0.1),
        ("class-means", None),
    ],
)
def test_drawn_data_agree(name: str, ridge: float | None) -> None:
    """Within four standard errors of 5 data sets, and 2/d."""
    teacher, estimator = (
        pc.Teacher(3, features="levels:0.5x0.5,1.5x0.5"),
        make_estimator(name, ridge),
    )
    runs = [student_of(estimator).simulate(teacher, 2.0, 150, seed)[0] for seed in range(5)]
    theory = student_of(estimator).rows(teacher, [2.0], tol=5e-4)[0]
    scores = (lambda r: r["generalisation_error"], lambda r: r["m"] / math.sqrt(r["q"]))
    for score in scores:  # each rule has a scale of its own
        values = np.array([score(run) for run in runs])
        off = values.mean() - score(theory)
        assert abs(off) < 4 * values.std(ddof=1) / math.sqrt(len(values)) + 2 / 150


def test_class_means_of_a_balanced_mixture_are_bayes_optimal() -> None:
    for k in (2, 3):
        mixture = pc.Mixture([1 / k] * k, separation=2.0, variances=0.7)
        found = row("class-means", mixture, 1.5)["generalisation_error"]
        best = student_of(pc.BayesOptimal()).rows(mixture, [1.5])[0]["generalisation_error"]
        assert found == pytest.approx(best, abs=1e-7)


def test_class_means_of_an_unequal_mixture_on_drawn_data() -> None:
    mixture, d, alpha = pc.Mixture((0.8, 0.2), separation=2.0, variances=(0.5, 1.5)), 400, 2.0
    found, wrong = row("class-means", mixture, alpha), []
    for seed in range(6):
        X, y, _ = mixture.sample(round(alpha * d) + 4000, d, seed)
        train, test = slice(0, round(alpha * d)), slice(round(alpha * d), None)
        mu = np.stack([X[train][y[train] == c].mean(0) for c in range(2)])
        fields = X[test] @ mu.T - 0.5 * (mu**2).sum(1)
        wrong.append(np.mean(fields.argmax(1) != y[test]))
    bar = 4 * np.std(wrong, ddof=1) / math.sqrt(6) + 2 / d
    assert abs(np.mean(wrong) - found["generalisation_error"]) < bar


def test_what_they_do_not_take_is_one_message() -> None:
    with pytest.raises(InvalidInput, match="above 0"):
        make_estimator("one-vs-rest", 0)
    with pytest.raises(InvalidInput, match="takes a ridge, got max-margin"):
        pc.OneVsRest(loss="max-margin")
    with pytest.raises(InvalidInput, match="alike"):
        row("one-vs-rest", pc.Mixture((0.5, 0.5), separation=1.0), 1.0)
    with pytest.raises(InvalidInput, match="not the penalty"):
        make_estimator("lda", penalty="elastic-net:0.1:0.1")


def test_names_read_back() -> None:
    for name in ("one-vs-rest", "one-vs-rest[squared-hinge]", "lda", "class-means"):
        made = ESTIMATORS.read(name)
        again = make_estimator(
            **{"name" if n == "estimator" else n: v for n, v in made.columns.items()}
        )
        assert again == made


@pytest.mark.parametrize("noise", ["none", "softmax:2", "flips:0.2"])
def test_the_average_of_the_posterior_answers_as_the_posterior_does(noise: str) -> None:
    """Z_l(ω, V) is ordered as ω_l: one answer, one error, and the vote is the surer of its own."""
    teacher = pc.Teacher(3, noise=noise)
    omega = np.random.default_rng(2).standard_normal((200, 3))
    vote = student_of("bayes").probabilities(teacher, ScalarOrder.bayes(0.3))(omega)
    assert (vote.argsort(1) == omega.argsort(1)).all()
    average, best = row("average", teacher, 2.0), row("bayes", teacher, 2.0)
    assert average == {**best, "estimator": "average"}
    own = student_of("average").probabilities(teacher, ScalarOrder.bayes(0.3))
    if noise == "none":
        assert own is None  # it would be sure of all
    else:
        assert (own(omega).argmax(1) == vote.argmax(1)).all()
        assert (own(omega).max(1) > vote.max(1)).all()
    if noise == "softmax:2":
        score = {name: pc.calibration(teacher, name, 2.0) for name in ("average", "bayes")}
        assert score["average"].test_loss > score["bayes"].test_loss
        assert score["average"].calibration_error > 0.01 > score["bayes"].calibration_error


def test_the_average_of_the_posterior_on_drawn_data() -> None:
    average, best = ESTIMATORS.read("average"), ESTIMATORS.read("bayes")
    rows = student_of(average).simulate(pc.Teacher(3, noise="flips:0.1"), 2.0, 60, 1, also=[best])
    assert [one["estimator"] for one in rows] == ["average", "bayes"]
    assert rows[0] == {**rows[1], "estimator": "average"}
    with pytest.raises(InvalidInput, match="alike"):
        row("average", pc.Mixture((0.5, 0.5), separation=1.0), 1.0)


def test_a_sweep_takes_one_vs_rest_with_two_losses() -> None:
    names = ["one-vs-rest", "one-vs-rest[squared-hinge]"]
    assert [ESTIMATORS.read(name).name for name in names] == names
    text = f"[[grid]]\nclasses = [3]\nsources = ['theory']\nestimators = {names}\nalpha = [1.0]"
    assert len(parse_spec(text).grid[0].estimators) == 2


@pytest.mark.parametrize("name", ["one-vs-rest", "lda", "class-means"])
def test_without_samples_every_rule_guesses(name: str) -> None:
    found = row(name, pc.Teacher(3), 0.0)
    assert found["generalisation_error"] == pytest.approx(2 / 3, abs=1e-15)
    assert (found["estimator"], found["status"]) == (name, "ok")
