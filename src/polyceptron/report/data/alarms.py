"""What should alarm the reader of a report before any number: leaks, copies, wild values.

Each alarm is a sentence that names the column or the rows. They are found on all rows of the table.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split
from sklearn.tree import DecisionTreeClassifier

from polyceptron.numerics import AnyArray, Array
from polyceptron.report.data.columns import Column
from polyceptron.report.data.reading import Table

MOST_NAMED = 5  # columns or classes in one sentence
# A column that alone names the class so often is probably made from the label.
LARGEST_ERROR_OF_A_LEAK = 0.005
SAMPLES_FOR_LEAKS = 2000  # drawn of more
FEWEST_SAMPLES_FOR_LEAKS = 50  # below, a column may decide the label by chance
FOLDS_FOR_LEAKS = 3
LEAVES_PER_CLASS = 4  # of the tree that decides by one column
# A value so many times as far from the median as others are is wild.
WILD_DISTANCE = 1e6
FEWEST_PER_CLASS = 5
LARGE_C = 1e6  # on features of variance 1
SHARE_OF_COPIES = 0.01  # of the rows


class Alarm(NamedTuple):
    """A kind of alarm and its sentence."""

    kind: str
    text: str


def find_alarms(table: Table, seed: int = 0) -> list[Alarm]:
    """Return what is alarming about a table, the worst first."""
    return [
        *_leaks(table, seed),
        *_copies(table),
        *_wild_values(table),
        *_rare_classes(table.y),
    ]


def _leaks(table: Table, seed: int) -> list[Alarm]:
    """Name columns that alone decide the label on held-out samples."""
    X, y = _part_of(table, seed)
    counts = np.unique(y, return_counts=True)[1]
    if len(y) < FEWEST_SAMPLES_FOR_LEAKS or counts.min() < FOLDS_FOR_LEAKS:
        return []
    leaks = [name for name in X.columns if _error_of_column(X[name], y, seed) <= _worst_leak(y)]
    if not leaks:
        return []
    names = _listed(leaks)
    verb = "alone decides" if len(leaks) == 1 else "each alone decide"
    return [
        Alarm(
            "leak",
            f"{names} {verb} the label {table.target!r}: if this is known only after the label, "
            "drop it, or every number below is too good.",
        )
    ]


def _worst_leak(y: AnyArray) -> float:
    """Return the error up to which a column decides the label; less where one class is rare."""
    counts = np.unique(y, return_counts=True)[1]
    guess_error = 1 - counts.max() / counts.sum()
    return min(LARGEST_ERROR_OF_A_LEAK, 0.1 * guess_error)


def _part_of(table: Table, seed: int) -> tuple[pd.DataFrame, AnyArray]:
    """Return at most SAMPLES_FOR_LEAKS rows, with every class in its share."""
    if len(table.y) <= SAMPLES_FOR_LEAKS:
        return table.X, table.y
    X, _, y, _ = train_test_split(
        table.X, table.y, train_size=SAMPLES_FOR_LEAKS, stratify=table.y, random_state=seed
    )
    return X, y


def _error_of_column(column: Column, y: AnyArray, seed: int) -> float:
    """Return the held-out error of a small tree that sees one column only."""
    if pd.api.types.is_numeric_dtype(column):
        values = column.fillna(column.median()).to_numpy()
    else:
        values = pd.factorize(column)[0].astype(float)
    n_classes = np.unique(y).size
    tree = DecisionTreeClassifier(max_leaf_nodes=LEAVES_PER_CLASS * n_classes, random_state=seed)
    folds = StratifiedKFold(FOLDS_FOR_LEAKS, shuffle=True, random_state=seed)
    accuracy = cross_val_score(tree, values[:, None], y, cv=folds)
    return float(1 - accuracy.mean())


def _copies(table: Table) -> list[Alarm]:
    """Say how many rows are copies of others, and whether their labels agree."""
    is_copy = table.X.duplicated()
    n_copies = int(is_copy.sum())
    if n_copies <= SHARE_OF_COPIES * len(table.y):
        return []
    with_label = table.X.assign(**{"label of the row": table.y})
    n_agreeing = int(with_label.duplicated().sum())
    text = (
        f"{n_copies} of {len(table.y)} rows have the same features as an earlier row"
        f" ({n_agreeing} of them the same label too): copies stand on both sides of every split, "
        "so that held-out scores are too good."
    )
    return [Alarm("copies", text)]


def _wild_values(table: Table) -> list[Alarm]:
    """Name columns with a value that lies far beyond all others."""
    wild = []
    for name in table.X.columns:
        if name in table.categories:
            continue
        values = table.X[name].to_numpy(dtype=float)
        distance = np.abs(values - np.nanmedian(values))
        farthest = int(np.nanargmax(distance))
        if distance[farthest] > WILD_DISTANCE * _typical_distance(distance):
            wild.append(f"{name} ({values[farthest]:.6g} in data row {farthest + 1})")
    if not wild:
        return []
    text = (
        f"Wild values: {_listed(wild)}; each is a million times as far from the median as other "
        "values are. Check whether they stand for something else."
    )
    return [Alarm("wild", text)]


def _typical_distance(distance: Array) -> float:
    """Return the median distance from the median of a column, never 0.

    Where most values are the median itself it is that of the others without the farthest, and 1
    where there is no other.
    """
    known = distance[np.isfinite(distance)]
    median = float(np.median(known))
    if median > 0:
        return median
    others = np.sort(known[known > 0])[:-1]
    if others.size:
        return float(np.median(others))
    return 1.0


def _rare_classes(y: AnyArray) -> list[Alarm]:
    """Name classes of which too few samples are there to say anything."""
    classes, counts = np.unique(y, return_counts=True)
    rare = [
        f"{name} ({count})"
        for name, count in zip(classes, counts, strict=True)
        if count < FEWEST_PER_CLASS
    ]
    if not rare:
        return []
    text = (
        f"Fewer than {FEWEST_PER_CLASS} samples of {_listed(rare)}: nothing is known of how well "
        "such a class is recognised."
    )
    return [Alarm("rare", text)]


def no_ridge_alarm(C: float) -> list[Alarm]:
    """Say that the ridge that predicts best is next to none, C being that of scikit-learn."""
    if C <= LARGE_C:
        return []
    text = (
        f"Almost no ridge is wanted (C = {C:.1g} in scikit-learn's units): either samples are many "
        "for their features, or the classes are separated so easily that something may give the "
        "label away. Probabilities are then close to 0 and 1."
    )
    return [Alarm("no ridge", text)]


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        shown += f" and {len(names) - MOST_NAMED} more"
    return shown
