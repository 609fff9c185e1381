"""Teachers: labels, reproducibility, and that the two binary models differ."""

import numpy as np
import pytest

from polyceptron.errors import InvalidInput
from polyceptron.problem import CHANNELS, GaussianNoise, Perceptron, Teacher, make_teacher


@pytest.mark.parametrize("teacher", [Teacher(2), Teacher(5, "rademacher"), Perceptron()])
def test_labels_are_the_argmax_and_seeds_reproduce(teacher):
    a, b = (teacher.sample(50, 30, seed=7) for _ in range(2))
    assert np.array_equal(a.X, b.X)
    assert np.array_equal(a.y, b.y)
    assert np.array_equal(a.y, (a.X @ a.weights).argmax(1))
    assert a.weights.shape == (30, teacher.n_classes)
    assert not np.array_equal(a.X, teacher.sample(50, 30, seed=8).X)


def test_classes_are_balanced():
    y = Teacher(4).sample(4000, 200, seed=0).y
    assert np.abs(np.bincount(y, minlength=4) / 4000 - 0.25).max() < 0.1


def test_perceptron_differs_from_two_rademacher_classes():
    """The former learns from one ±1 vector, the latter from differences in {−2, 0, 2}."""
    single = Perceptron().sample(1, 999, 0).weights
    double = Teacher(2, "rademacher").sample(1, 999, 0).weights
    assert set(np.round((single[:, 1] - single[:, 0]) / np.sqrt(2), 9)) == {-1.0, 1.0}
    assert set(double[:, 1] - double[:, 0]) == {-2.0, 0.0, 2.0}


def test_noise_changes_labels_only_where_fields_are_close():
    rng = np.random.default_rng(0)
    fields = np.array([[0.0, 100.0], [0.0, 1e-9]] * 500)
    y = GaussianNoise(1.0).sample(fields, rng).reshape(-1, 2)
    assert (y[:, 0] == 1).all()
    assert 0.4 < y[:, 1].mean() < 0.6


@pytest.mark.parametrize("noise", CHANNELS.examples(), ids=lambda noise: noise.name)
def test_inputs_and_weights_do_not_depend_on_the_noise(noise):
    plain, noisy = Teacher(3).sample(60, 20, 5), Teacher(3, noise=noise).sample(60, 20, 5)
    assert np.array_equal(plain.X, noisy.X)
    assert np.array_equal(plain.weights, noisy.weights)
    assert np.array_equal(plain.y, noisy.y) == noise.noiseless


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        ("gaussian:-1", "from 0 to"),
        ("gaussian:nan", "from 0 to"),
        ("gaussian", "must be written"),
        ("softmax:0", "slope"),
        ("softmax:inf", "slope"),
        ("flips:0.7", "below 0.666667"),
        ("flips:x", "with numbers"),
        ("salt:0.1", "unknown noise"),
        (0.25, "unknown noise"),
    ],
)
def test_bad_noise(noise, words):
    with pytest.raises(InvalidInput, match=words):
        Teacher(3, noise=noise)


@pytest.mark.parametrize("k", [1, 0, -3, 2.5, True, "3", None, 10**6])
def test_bad_number_of_classes(k):
    with pytest.raises(InvalidInput, match="number of classes"):
        Teacher(k)


@pytest.mark.parametrize("size", [0, -1, 1.5, None])
def test_bad_sizes(size):
    with pytest.raises(InvalidInput, match="1 or more"):
        Teacher(3).sample(size, 10)


def test_make_teacher_from_columns():
    assert make_teacher("argmax", 3, "rademacher") == Teacher(3, "rademacher")
    assert make_teacher("perceptron", 2, "gaussian") == Perceptron("gaussian")
    with pytest.raises(InvalidInput, match="2 classes"):
        make_teacher("perceptron", 3, "gaussian")
    with pytest.raises(InvalidInput, match="unknown model"):
        make_teacher("committee", 3, "gaussian")


def test_every_population_is_made_from_its_columns_and_shown_on_the_page():
    from polyceptron.problem.populations import POPULATIONS, Mixture, make_population
    from polyceptron.report.explorer.settings import MODELS

    assert set(MODELS) == set(POPULATIONS)
    for one in (
        Teacher(4, noise="flips:0.1"),
        Perceptron("gaussian"),
        Mixture((0.7, 0.3), gram=[[1, 0], [0, 2]]),
    ):
        assert make_population(**one.columns) == one
        with pytest.raises(InvalidInput, match=f"'{one.model}' takes no colour"):
            make_population(**one.columns, colour="red")
    with pytest.raises(InvalidInput, match="allowed are argmax, perceptron, mixture"):
        make_population("committee")
