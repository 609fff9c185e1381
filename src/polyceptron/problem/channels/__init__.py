"""How a label is drawn from the teacher's fields: the argmax, with each kind of noise."""

from polyceptron.problem.channels.channel import CHANNELS as CHANNELS
from polyceptron.problem.channels.channel import Channel as Channel
from polyceptron.problem.channels.channel import Flips as Flips
from polyceptron.problem.channels.channel import GaussianNoise as GaussianNoise
from polyceptron.problem.channels.softmax import SoftmaxNoise as SoftmaxNoise
from polyceptron.problem.registry import Entry

# A new noise: its file, and its entry here.
CHANNELS.add(
    Entry("none", "y = argmax z", GaussianNoise, label="no noise"),
    Entry(
        "gaussian",
        "y = argmax(z + noise of this variance in each class)",
        GaussianNoise,
        ("variance",),
        (0.25,),
        label="Gaussian noise",
    ),
    Entry(
        "softmax",
        "P(y = l) proportional to exp(slope z_l)",
        SoftmaxNoise,
        ("slope",),
        (2.0,),
        label="softmax labels",
    ),
    Entry(
        "flips",
        "with this probability another class, uniformly",
        Flips,
        ("rate",),
        (0.1,),
        label="flipped labels",
    ),
)


def as_channel(noise: object) -> Channel:
    """The channel meant by a name such as 'gaussian:0.25', or a channel itself."""
    return CHANNELS.read(noise)
