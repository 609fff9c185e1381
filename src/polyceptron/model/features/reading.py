"""A spectrum from whatever says what it is: a name, a CSV file, a list of eigenvalues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.files import read_text
from polyceptron.model.features.spectrum import Spectrum, remembered
from polyceptron.model.registry import Registry

FEATURES: Registry[Spectrum] = Registry("features", Spectrum)
_REQUIRED, _OPTIONAL = ("eigenvalue", "signal"), "fraction"


def as_spectrum(features: Any) -> Spectrum:
    """A registered name, the path of a CSV file, a list of eigenvalues, or a `Spectrum`.

    >>> as_spectrum([2.0, 1.0]).name
    'levels:1.3333333333333333x0.5@1.0,0.6666666666666666x0.5@1.0'
    """
    if isinstance(features, Spectrum):
        return features
    if isinstance(features, Path):
        return read_spectrum(str(features))
    if isinstance(features, np.ndarray | list | tuple):
        return Spectrum(features)
    if not isinstance(features, str):
        return FEATURES.read(features)
    if "#" in features or features.lower().endswith(".csv"):
        return read_spectrum(features)
    try:
        return FEATURES.read(features)
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"cannot read the features {features!r}: allowed are {FEATURES.help}, or the path of "
            "a CSV file"
        ) from None


def read_spectrum(text: str) -> Spectrum:
    """From 'path.csv', or 'path.csv#digest', which must still hold the same numbers."""
    path, _, digest = text.partition("#")
    known = remembered(text)
    if known is not None:
        return known
    if path == "spectrum":
        raise InvalidInput(
            f"the features {text!r} were made in another process: write them to a CSV file "
            "(Spectrum.table) and give its path"
        )
    found = parse_table(read_text(path, "spectrum file"), path)
    if digest and digest != found.digest:
        raise InvalidInput(
            f"the spectrum file {path!r} is not the one that was used before ({digest}): its "
            f"numbers now have the digest {found.digest}"
        )
    found.name = f"{path}#{found.digest}"
    return found


def parse_table(text: str, path: str) -> Spectrum:
    """Columns eigenvalue, signal and optionally fraction, in any order."""
    import csv

    lines = [line for line in csv.reader(text.splitlines()) if line]
    head = [name.strip().lower() for name in lines[0]] if lines else []
    missing = [name for name in _REQUIRED if name not in head]
    if missing:
        raise InvalidInput(
            f"the spectrum file {path!r} needs the columns eigenvalue and signal (and may have "
            f"fraction), but has no {' and no '.join(missing)}"
        )
    names = [*_REQUIRED, *([_OPTIONAL] if _OPTIONAL in head else [])]
    columns: dict[str, list[float]] = {name: [] for name in names}
    for number, line in enumerate(lines[1:], 2):
        for name in names:
            try:
                columns[name].append(float(line[head.index(name)]))
            except (ValueError, IndexError):
                raise InvalidInput(
                    f"line {number} of the spectrum file {path!r} has no number for {name}"
                ) from None
    return Spectrum(columns["eigenvalue"], columns["signal"], columns.get(_OPTIONAL))
