"""Spectra: what they are made from, that they are normalised, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.errors import InvalidInput
from polyceptron.problem import FEATURES, as_spectrum
from polyceptron.problem.spectrum import NONLINEARITIES, moments

WRITTEN = [
    "power:1.2:300",
    "power:1:50:2",
    "levels:10x0.2,1x0.8",
    "levels:3x1@2,1x1",
    "marchenko-pastur:0.5",
    "marchenko-pastur:3",
    "random-features:tanh:2",
    "random-features:relu:0.5",
]


@pytest.mark.parametrize("name", WRITTEN)
def test_normalised_and_read_back(name):
    spectrum = as_spectrum(name)
    share = spectrum.fraction
    assert share @ spectrum.eigenvalues == pytest.approx(1, abs=1e-12)
    assert share @ spectrum.power == pytest.approx(1, abs=1e-12)
    assert share.sum() <= 1 + 1e-12
    assert as_spectrum(spectrum.name) == spectrum
    assert hash(as_spectrum(spectrum.name)) == hash(spectrum)
    for d in (7, 300):
        s, theta = spectrum.at(d)
        assert s.mean() == pytest.approx(1)
        assert (s * theta).mean() == pytest.approx(1)


def test_eigenvalues_of_power_laws_and_levels():
    s = as_spectrum("power:1.5:4").eigenvalues
    raw = np.array([1.0, 2.0, 3.0, 4.0]) ** -1.5
    np.testing.assert_allclose(s, raw / raw.mean())
    steep = as_spectrum("power:1.5:4:2.5")
    raw = np.array([1.0, 2.0, 3.0, 4.0]) ** -2.5
    np.testing.assert_allclose(steep.power, raw / raw.mean())
    two = as_spectrum("levels:10x0.2@1,1x0.8@5")
    np.testing.assert_allclose(two.eigenvalues, np.array([10, 1]) / 2.8)
    assert two.signal[1] / two.signal[0] == pytest.approx(5)
    assert "2.8" in two.describe()


def test_equal_eigenvalues_are_one_level():
    many = pc.Spectrum(np.repeat([4.0, 1.0], 500))
    assert len(many.eigenvalues) == 2
    assert pc.Spectrum(np.full(1000, 3.3)).isotropic
    assert pc.Spectrum(np.full(1000, 3.3)).name == "isotropic"
    assert len(pc.Spectrum([1.0, 1.0], [1.0, 2.0]).eigenvalues) == 2  # equal s, another signal


def test_marchenko_pastur_is_the_law_of_a_sample_covariance():
    rng = np.random.default_rng(0)
    for p, n in ((300, 600), (600, 300)):
        G = rng.standard_normal((n, p))
        values = np.linalg.eigvalsh(G.T @ G / n)
        law = as_spectrum(f"marchenko-pastur:{p / n}")
        for x in (0.3, 2.0):  # a bounded function of the eigenvalue; fluctuations are 1/p
            found = float(law.fraction @ (law.eigenvalues / (x + law.eigenvalues)))
            assert found == pytest.approx(float(np.mean(values / (x + values))), abs=0.01)


@pytest.mark.parametrize("kind", ["tanh", "relu"])
def test_random_features_have_the_stated_covariance_and_hide_the_stated_share(kind):
    """Features of drawn Gaussian inputs: their eigenvalues, and how well they explain a teacher."""
    rng = np.random.default_rng(1)
    latent, p, n = 150, 300, 6000
    F = rng.standard_normal((p, latent)) / math.sqrt(latent)
    g = rng.standard_normal((n, latent))
    phi = NONLINEARITIES[kind](g @ F.T)
    phi -= phi.mean(0)
    law = as_spectrum(f"random-features:{kind}:2")
    linear, rest = moments(NONLINEARITIES[kind])
    assert law.mean_eigenvalue == pytest.approx(linear**2 + rest)
    assert float((phi**2).mean()) == pytest.approx(law.mean_eigenvalue, rel=0.02)
    z = g @ rng.standard_normal((latent, 20)) / math.sqrt(latent)
    fit, *_ = np.linalg.lstsq(phi, z, rcond=None)
    left = ((z - phi @ fit) ** 2).sum(0) / (n - p) / z.var(0)  # without the bias of the fit
    assert float(left.mean()) == pytest.approx(law.hidden, abs=0.03)
    large = np.linalg.eigvalsh(phi.T @ phi / n)[-1] / law.mean_eigenvalue
    assert large == pytest.approx(law.eigenvalues[0], rel=0.15)


def test_hidden_share_is_noise_of_the_fields():
    teacher = pc.Teacher(3, noise="gaussian:0.5", features="random-features:tanh:2")
    hidden = teacher.features.hidden
    assert teacher.channel.utility_variance == pytest.approx((0.5 + hidden) / (1 - hidden))
    assert teacher.noise.name == "gaussian:0.5"
    flips = pc.Teacher(3, noise="flips:0.1", features="random-features:tanh:2").channel
    assert flips.utility_variance == pytest.approx(hidden / (1 - hidden))
    assert flips.guess(3) == pytest.approx(0.05)
    softmax = pc.Teacher(3, noise="softmax:2", features="random-features:tanh:2").channel
    assert softmax.slope == pytest.approx(2 * math.sqrt(1 - hidden))
    assert softmax.variance == pytest.approx(hidden / (1 - hidden))


def test_samples_have_the_spectrum():
    teacher = pc.Teacher(3, features="levels:9x0.5@1,1x0.5@4")
    data = teacher.sample(4000, 40, seed=0)
    s, theta = teacher.features.at(40)
    np.testing.assert_allclose(data.X.var(0), s, rtol=0.15)
    rows = np.concatenate([teacher.sample(1, 40, seed=i).weights for i in range(200)], axis=1)
    np.testing.assert_allclose(rows.var(1), theta, rtol=0.35)
    plain, same = pc.Teacher(3), pc.Teacher(3, features="power:0:10")
    np.testing.assert_array_equal(plain.sample(9, 5, 1).X, same.sample(9, 5, 1).X)


def test_a_file(tmp_path):
    path = tmp_path / "spectrum.csv"
    path.write_text("signal,eigenvalue,fraction\n1,10,0.2\n1,1,0.8\n")
    found = as_spectrum(str(path))
    np.testing.assert_allclose(found.eigenvalues, np.array([10, 1]) / 2.8)
    assert as_spectrum(path) == found == as_spectrum(found.name)
    path.write_text("signal,eigenvalue\n1,10\n1,1\n")
    with pytest.raises(InvalidInput, match="not the one that was used before"):
        as_spectrum(found.name)
    # What a spectrum writes, it reads: to rounding, also with directions without variance.
    law = as_spectrum("marchenko-pastur:2")
    path.write_text(law.table())
    np.testing.assert_allclose(as_spectrum(path).eigenvalues, law.eigenvalues)
    assert as_spectrum(path).rank == pytest.approx(0.5)
    # So is the part of the teacher that the features hide.
    nonlinear = as_spectrum("random-features:relu:2")
    assert nonlinear.hidden > 0.1
    path.write_text(nonlinear.table())
    assert as_spectrum(path).hidden == nonlinear.hidden
    assert as_spectrum(path).digest == nonlinear.digest
    path.write_text("eigenvalue,signal,hidden\n1,1,0.1\n1,1,0.2\n")
    with pytest.raises(InvalidInput, match="one number in all lines, got 2"):
        as_spectrum(path)


def test_signal_from_data_is_unbiased_where_the_raw_fit_is_not():
    """200 directions of which the larger half holds the signal; n is only three times d."""
    teacher = pc.Teacher(3, noise="gaussian:2", features="levels:3x0.5@1,1x0.5@0")
    d, n, small, raw = 200, 600, [], []
    for seed in range(6):
        data = teacher.sample(n, d, seed)
        found = pc.Spectrum.from_data(data.X, data.y)
        order = np.argsort(found.eigenvalues)
        half = found.fraction[order].cumsum() <= 0.5
        small.append(float((found.fraction * found.power)[order][half].sum()))
        A = data.X - data.X.mean(0)
        values, vectors = np.linalg.eigh(A.T @ A / n)
        c = (A @ vectors / np.sqrt(values)).T @ (np.eye(3)[data.y] - 1 / 3) / n
        raw.append(float((c**2).sum(1)[: d // 2].sum() / (c**2).sum()))
    assert np.mean(raw) > 0.3  # what estimation alone puts there
    assert abs(np.mean(small)) < 0.12  # the sample's small half mixes a little with the other
    assert "noise of estimation" in found.describe()


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        ([2.0, -1.0], "of 0 or more, got -1.0"),
        ([1.0, math.inf], "got inf"),
        ([1.0, math.nan], "got nan"),
        ([], "at least one eigenvalue"),
        ([0.0, 0.0], "all 0"),
        ([[1.0, 2.0]], "must be a list"),
        ("power:1", "cannot read the features"),
        ("power:1:0", "from 1 to 100000"),
        ("power:99:10", "from 0 to 20"),
        ("levels:1xa", "cannot read"),
        ("marchenko-pastur:-1", "ratio of features"),
        ("random-features:sine:2", "tanh and relu"),
        ("warm", "unknown features 'warm'"),
        ("nowhere.csv", "cannot read the spectrum file"),
        (3.0, "unknown features"),
        ("spectrum#00000000", "another process"),
    ],
)
def test_refused_in_a_sentence(features, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        pc.Teacher(3, features=features)


def test_refused_parts(tmp_path):
    with pytest.raises(InvalidInput, match="2 eigenvalues has 3 values of signal"):
        pc.Spectrum([1.0, 2.0], [1.0, 1.0, 1.0])
    with pytest.raises(InvalidInput, match="there is no rule"):
        pc.Spectrum([1.0, 0.0], [0.0, 1.0])
    for text, sentence in (
        ("a,b\n1,2\n", "no eigenvalue and no signal"),
        ("eigenvalue,signal\n1,x\n", "line 2 .* no number for signal"),
        ("", "needs the columns"),
        ("eigenvalue,signal\n", "at least one"),
    ):
        path = tmp_path / "bad.csv"
        path.write_text(text)
        with pytest.raises(InvalidInput, match=sentence):
            as_spectrum(path)
    X = np.random.default_rng(0).standard_normal((20, 30))
    with pytest.raises(InvalidInput, match="more than 31 samples"):
        pc.Spectrum.from_data(X, np.arange(20) % 2)
    with pytest.raises(InvalidInput, match="two classes"):
        pc.Spectrum.from_data(X.T, np.zeros(30))


def test_the_registry_lists_every_kind():
    assert FEATURES.names[:2] == ("isotropic", "power")
    assert "marchenko-pastur:RATIO" in FEATURES.help
    for spectrum in FEATURES.examples():
        assert spectrum.fraction @ spectrum.eigenvalues == pytest.approx(1)
