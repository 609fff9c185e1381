"""What may be the labels of classes: one check for every function and command that takes labels.

Labels are whole numbers (also as floats), text, or True and False, one for each sample. Everything
else (NaN, fractions, complex numbers, dates, bytes, records, None, several labels for a sample) is
refused before any work, with a sentence that says what was given and what is allowed.
"""

from collections.abc import Sequence

import numpy as np

from polyceptron.checks import MAX_CLASSES
from polyceptron.errors import InvalidInput
from polyceptron.numerics import AnyArray

ALLOWED = "labels must be whole numbers, text, or True and False, one for each sample"
_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)
_REFUSED_KINDS = {
    "M": "dates",
    "m": "time differences",
    "S": "bytes",
    "V": "records of several fields",
}


def class_labels(y: object, n_samples: int | None = None, name: str = "y") -> AnyArray:
    """Return labels (n,) of at least two classes, or raise InvalidInput.

    Parameters
    ----------
    y : array_like of shape (n,)
        Labels of any kind that is allowed.
    n_samples : int, default=None
        How many there must be, where that is known.
    name : str, default="y"
        What the error message calls the labels.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> class_labels(["b", "a", "b"]).tolist()
    ['b', 'a', 'b']
    """
    values = label_values(y, n_samples, name)
    classes = np.unique(values)
    if classes.size < 2:
        raise one_class_only(classes, name)
    if classes.size > MAX_CLASSES:
        raise InvalidInput(
            f"{name} has {classes.size} different values for {values.size} samples: at most "
            f"{MAX_CLASSES} classes are allowed"
        )
    return values


def one_class_only(classes: AnyArray, name: str, cure: str = "") -> InvalidInput:
    """Return the error for labels that are all the same, or of no sample at all."""
    if classes.size == 0:
        return InvalidInput(f"{name} is empty: {ALLOWED}")
    found = str(classes[0])
    return InvalidInput(
        f"{name} has one class only, {found!r}: at least two classes are needed{cure}"
    )


def label_values(y: object, n_samples: int | None = None, name: str = "y") -> AnyArray:
    """Return labels (n,) of any number of classes: those of `class_labels`, where one may do."""
    values = label_array(y, name)
    if n_samples is not None:
        check_label_count(values.shape, n_samples, name)
    elif values.ndim != 1:
        raise InvalidInput(f"{name} has the shape {values.shape}: {ALLOWED}")
    if values.dtype.kind == "T":  # numpy's text of any length, where NaN may stand for nothing
        values = values.astype(object)
    if values.dtype.kind == "O":
        values = _from_objects(values, name)
    kind = values.dtype.kind
    if kind == "c":  # in the words that scikit-learn's checks of an estimator look for
        raise InvalidInput(
            f"Complex data not supported: {name} holds {values.dtype} values, and {ALLOWED}"
        )
    if kind in _REFUSED_KINDS:
        raise InvalidInput(f"{name} holds {_REFUSED_KINDS[kind]} ({values.dtype}): {ALLOWED}")
    if kind == "f":
        _check_whole(values, name)
    elif kind not in "biuUO":
        raise InvalidInput(f"{name} holds {values.dtype} values: {ALLOWED}")
    return values


def label_array(y: object, name: str = "y") -> AnyArray:
    """Return the labels as an array of whatever shape and type, or raise InvalidInput."""
    if y is None:
        raise InvalidInput(f"a fit requires {name} to be passed, but the target {name} is None")
    kind = type(y).__name__
    if hasattr(y, "tocsr"):
        raise InvalidInput(f"{name} is a sparse matrix ({kind}): {ALLOWED}")
    if isinstance(y, np.ma.MaskedArray) and np.ma.is_masked(y):
        raise InvalidInput(f"{name} has masked entries: {ALLOWED}")
    try:
        return np.asarray(y)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} is a {kind} that is no array: {ALLOWED}") from None


def check_label_count(shape: tuple[int, ...], n_samples: int, name: str = "y") -> None:
    """Raise unless the shape of the labels is (n,)."""
    if shape == (n_samples,):
        return
    missing = ""
    if len(shape) == 1 and 0 < shape[0] < n_samples:
        missing = f": from row {shape[0]} of X on there is none"
    raise InvalidInput(
        f"{name} must have one label for each of the {n_samples} samples, got shape "
        f"{shape}{missing}"
    )


def _check_whole(values: AnyArray, name: str) -> None:
    """Raise unless floats (n,) are whole numbers."""
    finite = np.isfinite(values)
    if not finite.all():
        row = int(finite.argmin())
        entry = "an infinite value"
        if np.isnan(values[row]):
            entry = "NaN"
        raise InvalidInput(f"{name} has {entry} in row {row}: {ALLOWED}")
    with np.errstate(invalid="ignore"):  # what is too large for an integer becomes another number
        whole = values.astype(np.int64) == values
    if not whole.all():
        row = int(whole.argmin())
        raise InvalidInput(
            f"{name} has continuous values, such as {float(values[row])!r} in row {row}: {ALLOWED}"
        )


def _from_objects(values: AnyArray, name: str) -> AnyArray:
    """Return objects (n,) that are all text as they are, and all numbers as an array of them."""
    entries = values.tolist()
    texts = [isinstance(entry, str) for entry in entries]
    if all(texts):
        return values
    numbers = [isinstance(entry, _NUMBERS) for entry in entries]
    for row, entry in enumerate(entries):
        missing = isinstance(entry, float) and entry != entry
        if missing or not (texts[row] or numbers[row]):
            raise InvalidInput(f"{name} has {_described(entry)} in row {row}: {ALLOWED}")
    if not all(numbers):
        raise InvalidInput(
            f"{name} has text in row {texts.index(True)} and a number in row "
            f"{numbers.index(True)}: {ALLOWED}, and all of one kind"
        )
    return _as_numbers(entries, name)


def _as_numbers(entries: Sequence[object], name: str) -> AnyArray:
    """Return Python's numbers as an array of numpy's, unless they are too large for these."""
    found = np.array(entries)
    if found.dtype.kind == "O":
        raise InvalidInput(f"{name} has whole numbers of more than 64 bits: {ALLOWED}")
    return found


def _described(entry: object) -> str:
    """Return what a label is that is no label, in a word or two."""
    if entry is None:
        return "None"
    if isinstance(entry, float):
        return "NaN"
    return f"a value of the type {type(entry).__name__}"
