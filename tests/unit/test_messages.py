"""The message of wrong input is one line of a readable length, whatever it quotes."""

import pickle

import numpy as np
import pytest

import polyceptron as pc

GIVEN = {
    "a matrix": np.arange(12.0).reshape(4, 3),
    "a long list": list(range(100_000)),
    "a long text": "x" * 100_000,
    "a text of several lines": "a\nb\n\n c",
}


@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.parametrize(
    "call", [pc.Teacher, pc.transitions, lambda value: pc.ERM("cross-entropy", value)]
)
def test_a_message_quotes_what_was_given_on_one_line(call, kind):
    with pytest.raises(pc.InvalidInput) as told:
        call(GIVEN[kind])
    message = str(told.value)
    assert "\n" not in message
    assert len(message) < 1100
    assert str(pickle.loads(pickle.dumps(told.value))) == message


def test_begin_and_end_of_a_long_message_are_kept():
    message = str(pc.InvalidInput("k must be 2, got " + "7" * 10_000 + ": give a number"))
    assert message.startswith("k must be 2, got 777")
    assert message.endswith("777: give a number")
    assert " … " in message
