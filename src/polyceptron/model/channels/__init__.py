"""How a label is drawn from the teacher's fields: the argmax, with each kind of noise."""

from polyceptron.model.channels import flips, gaussian_noise, softmax
from polyceptron.model.channels.base import CHANNELS, Channel
from polyceptron.model.channels.flips import Flips
from polyceptron.model.channels.gaussian_noise import GaussianNoise
from polyceptron.model.channels.softmax import SoftmaxNoise

__all__ = ["CHANNELS", "Channel", "Flips", "GaussianNoise", "SoftmaxNoise", "as_channel"]

# A new noise: its file, and its entry here.
for _entry in (gaussian_noise.NOISELESS, gaussian_noise.ENTRY, softmax.ENTRY, flips.ENTRY):
    CHANNELS.add(_entry)


def as_channel(noise: object) -> Channel:
    """The channel meant by a name such as 'gaussian:0.25', or a channel itself.

    >>> as_channel("none").noiseless
    True
    """
    return CHANNELS.read(noise)
