"""Give the ERM equations the teacher's own denoiser and they become the Bayes-optimal ones.

On the Nishimori line m = q, V = 1 − q the three averages of the fields side are one number, the
information of the channel, which the Bayes-optimal theory computes by other integrals.
"""

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.problem import CHANNELS, Loss, ScalarOrder
from polyceptron.questions.curve_rows import curve_rows
from polyceptron.sides.fields.integrand import PanelsThree, PanelsTwo, PosteriorScore
from polyceptron.sides.fields.points import Points
from polyceptron.sides.scalar import FieldsSide
from polyceptron.theory.bayes.channel_table import channel_table

EXAMPLES = CHANNELS.examples()


class TeacherDenoiser(Loss):
    """f = ∇ ln Z_y(ω, V): the posterior's, not a loss at all."""

    name = "teacher"

    def __init__(self, channel):
        self.channel = channel

    def value(self, z, y):
        return np.zeros(len(z))

    def gradient(self, z, y):
        return np.zeros_like(z)

    def hessian(self, z, y):
        return np.zeros((*np.shape(z), np.shape(z)[1]))

    def denoise(self, omega, y, V):
        return self.channel.denoise(omega, y, V)


def averages(k, q, channel):
    """M, Q, C on the Nishimori line."""
    law, student = ScalarOrder.bayes(1 - q), TeacherDenoiser(channel)
    nodes, level = {2: (PanelsTwo(), 2), 3: (PanelsThree(), 0)}.get(k, (Points(), 0))
    found = nodes.place(student, channel, k, law, level)(law)
    return [float(part.mean()) for part in (found.M, found.Q, found.C)]


@pytest.mark.parametrize("channel", EXAMPLES, ids=lambda c: c.name)
@pytest.mark.parametrize(("k", "tolerance"), [(2, 1e-6), (3, 3e-4), (5, 5e-3)])
def test_three_averages_are_the_information(k, tolerance, channel):
    q = 0.6
    found = averages(k, q, channel)
    information = float(channel_table(channel, k)(np.array([1 - q]))[0][0])
    assert found == pytest.approx([information] * 3, rel=tolerance)


@pytest.mark.parametrize("channel", EXAMPLES, ids=lambda c: c.name)
@pytest.mark.parametrize(("k", "tolerance"), [(2, 1e-8), (3, 1e-6), (5, 5e-3)])
def test_the_channel_itself_may_be_the_student(k, tolerance, channel):
    """Its score and its entropy through the rules of the losses."""
    law = ScalarOrder.bayes(0.4)
    found = FieldsSide(channel, PosteriorScore(channel, k), k, 1.0).averages(2, law)(law)
    table = channel_table(channel, k)
    information, entropy = (float(part[0]) for part in table(np.array([law.V])))
    for part in (found.M, found.Q, found.C):
        assert part.mean() == pytest.approx(information, rel=tolerance)
    excess = entropy - table.known_entropy
    assert -found.loss.mean() == pytest.approx(excess, rel=tolerance)


def test_another_channel_is_seen():
    """The student of one channel on labels of another is not on the line."""
    law = ScalarOrder.bayes(0.4)
    channel, other = pc.Teacher(2).noise, pc.Teacher(2, noise="gaussian:0.3").noise
    found = PanelsTwo().place(TeacherDenoiser(other), channel, 2, law, 2)(law)
    assert abs(float(found.M[0]) / float(found.Q[0]) - 1) > 0.05


@pytest.mark.parametrize("noise", ["none", "gaussian:0.25", "flips:0.1"])
@pytest.mark.parametrize(("k", "alpha", "tolerance"), [(2, 1.0, 1e-6), (3, 1.0, 1e-4)])
def test_the_fixed_point_is_bayes_optimal(k, alpha, tolerance, noise):
    teacher = pc.Teacher(k, noise=noise)
    (row,) = curve_rows(teacher, pc.BayesOptimal(), [alpha])
    q = row["q"]
    M, Q, C = averages(k, q, teacher.noise)
    V = 1 / (1 + alpha * C)  # λ = 1: the Gaussian prior
    assert alpha * M * V == pytest.approx(q, rel=tolerance)
    assert ((alpha * M) ** 2 + alpha * Q) * V**2 == pytest.approx(q, rel=tolerance)
    assert pytest.approx(1 - q, rel=tolerance) == V
