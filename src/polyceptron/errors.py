"""The two ways a call can end other than with an answer.

The message of `InvalidInput` states what was given and what is allowed; the command line prints it
and exits with code 2. `ComputationFailed` means the input was fine and the result
could not be produced (exit code 1). A result that exists but is less accurate than asked is not an
error: it carries a status (see `polyceptron.rows.Status`).
"""

MOST_CHARACTERS = 1000  # of a message: more than our own words, less than the array that they quote


class InvalidInput(ValueError):
    """The caller's input is outside what is allowed; the message states both, on one line."""

    def __str__(self) -> str:
        """Return the message on one line; of a long one, its begin and its end.

        >>> str(InvalidInput("the ridge must be a number, got [[1 2]\\n [3 4]]"))
        'the ridge must be a number, got [[1 2] [3 4]]'
        """
        return _one_line(super().__str__())


class MistakesInFile(InvalidInput):
    """A file has mistakes; the message has one line for each.

    >>> print(MistakesInFile("spec.toml, line 2: no field 'a'", "spec.toml, line 3: no field 'b'"))
    spec.toml, line 2: no field 'a'
    spec.toml, line 3: no field 'b'
    """

    def __str__(self) -> str:
        """Return the mistakes, each on a line of its own."""
        return "\n".join(_one_line(str(mistake)) for mistake in self.args)


class ComputationFailed(RuntimeError):
    """The input is valid but no result could be computed; the message has the reason and a cure."""


def _one_line(text: str) -> str:
    """Return a text on one line; of a long one, its begin and its end."""
    line = " ".join(text.split())
    if len(line) <= MOST_CHARACTERS:
        return line
    half = MOST_CHARACTERS // 2
    return f"{line[:half]} … {line[-half:]}"
