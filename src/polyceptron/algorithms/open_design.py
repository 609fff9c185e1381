"""Which design holds the X that was given: one for each kind of data, imported when needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyceptron.algorithms.array_design import ArrayDesign
from polyceptron.algorithms.design import Design


def as_design(X: Any) -> Design:
    """The design that holds X, checked, or a sentence.

    >>> as_design([[1.0, 2.0], [3.0, 4.0]]).shape
    (2, 2)
    """
    design = open_design(X)
    design.check_entries()
    return design


def open_design(X: Any) -> Design:
    """The design that holds X; nothing is read yet."""
    if isinstance(X, Design):
        return X
    if isinstance(X, np.memmap):
        from polyceptron.algorithms.file_design import open_map

        return open_map(X)
    if hasattr(X, "__dask_graph__"):
        from polyceptron.algorithms.dask_design import DaskDesign

        return DaskDesign.of(X)
    if hasattr(X, "tocsr"):  # what every sparse matrix of scipy can do
        from polyceptron.algorithms.sparse_design import SparseDesign

        return SparseDesign(X)
    return ArrayDesign.of(X)
