"""The two ways a call can end other than with an answer.

The message of `InvalidInput` states what was given and what is allowed; the command line prints it
and exits with code 2. `ComputationFailed` means the input was fine and the result
could not be produced (exit code 1). A result that exists but is less accurate than asked is not an
error: it carries a status (see `polyceptron.rows.Status`).
"""


class InvalidInput(ValueError):
    """The caller's input is outside what is allowed; the message states both."""


class ComputationFailed(RuntimeError):
    """The input is valid but no result could be computed; the message has the reason and a cure."""
