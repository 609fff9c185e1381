"""Dask arrays as designs: work is sent to where the rows are, and a few columns travel.

Every chunk of rows is one block. It is worked on by whatever Dask uses at that moment: the cluster
of a `distributed.Client` if there is one, else threads of this process. Chunks that are not kept
in the cluster's memory (`X.persist()`) are read again for each pass, as zarr or Parquet give them.
Dask repeats what a lost worker had; sums are taken here, in the order of the rows, so that the
answer does not depend on who did what.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

from polyceptron.algorithms.design import BLOCK_BYTES, Design
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import AnyArray

_AT_ONCE = 512  # chunks whose results are waited for together: bounds what is held here


class DaskDesign(Design):
    """A Dask array (n, d), or dataframe, in chunks of whole rows."""

    reading_is_dear = True

    def __init__(self, X: Any) -> None:
        if hasattr(X, "to_dask_array"):
            X = X.to_dask_array(lengths=True)
        if getattr(X, "ndim", 0) != 2 or not hasattr(X, "chunks"):
            raise InvalidInput(
                f"X must be a matrix (n_samples, dimension), got a Dask {type(X).__name__} with "
                f"{getattr(X, 'ndim', 'no')} axes"
            )
        if np.isnan(X.chunks[0]).any() or np.isnan(X.chunks[1]).any():
            raise InvalidInput(
                "X is a Dask array with chunks of unknown numbers of rows: call "
                "X.compute_chunk_sizes() first, or to_dask_array(lengths=True) on a dataframe"
            )
        if len(X.chunks[1]) > 1:
            widths = ", ".join(map(str, X.chunks[1][:3]))
            raise InvalidInput(
                f"X is a Dask array with chunks along its columns ({widths}, ... of "
                f"{X.shape[1]}; the first block of rows is 0 to {X.chunks[0][0] - 1}): chunks must "
                "hold whole rows, as X.rechunk({1: -1}) makes them"
            )
        if X.dtype.kind not in "biuf":
            raise InvalidInput(f"X must hold real numbers, got {X.dtype} entries")
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        super().__init__(X.shape, X.dtype)
        self._X = X
        self._chunks = X.to_delayed(optimize_graph=True).ravel()
        ends = np.cumsum(X.chunks[0]).tolist()
        self._rows = [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]

    def read_rows(self, rows: Any) -> AnyArray:
        return np.asarray(self._wait([self._X[rows]])[0])

    def blocks(self, n_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, AnyArray]]:
        for rows, chunk in zip(self._rows, self._chunks, strict=True):
            yield rows, np.asarray(self._wait([chunk])[0])

    def each_block(
        self,
        work: Callable[..., Any],
        shared: tuple[Any, ...] = (),
        parts: Callable[[slice], tuple[Any, ...]] | None = None,
        n_bytes: int = BLOCK_BYTES,
    ) -> Iterator[tuple[slice, Any]]:
        dask: Any = import_module("dask")

        def send(what: Any) -> Any:  # as one key, whatever it is made of
            return dask.delayed(what, pure=False, traverse=False)

        given, do = [send(item) for item in shared], dask.delayed(work, pure=False)
        for begin in range(0, len(self._rows), _AT_ONCE):
            some = range(begin, min(begin + _AT_ONCE, len(self._rows)))
            tasks, places = [], self._places()
            for i in some:
                own = parts(self._rows[i]) if parts is not None else ()
                held = places.get(str(self._chunks[i].key))
                place = {"workers": held, "allow_other_workers": True} if held else {}
                with dask.annotate(**place):
                    tasks.append(do(self._chunks[i], *given, *map(send, own)))
            for i, found in zip(some, self._wait(tasks), strict=True):
                yield self._rows[i], found

    def _places(self) -> dict[str, list[str]]:
        """The workers that hold each persisted chunk: unasked, Dask sends rows to idle ones."""
        cluster = sys.modules.get("distributed")
        futures = [] if cluster is None else cluster.futures_of(self._X)
        if not futures:
            return {}
        try:
            found = futures[0].client.who_has(futures)
        except Exception as error:  # of whatever kind: the work itself will raise it
            logging.getLogger(__name__).debug("asking who holds the blocks: %s", error)
            return {}
        return {str(key): list(held) for key, held in found.items() if held}

    def _wait(self, tasks: list[Any]) -> list[Any]:
        """The results, or an error message for what kept Dask from them."""
        dask: Any = import_module("dask")
        try:
            return list(dask.compute(*tasks))
        except (InvalidInput, ComputationFailed):
            raise
        except Exception as error:
            name = type(error).__name__
            logging.getLogger(__name__).debug("computing on blocks: %s", error)
            if name == "KilledWorker":
                raise ComputationFailed(
                    "several workers of the cluster died while working on one block of X (killed, "
                    "or out of memory?): use smaller chunks of rows"
                ) from None
            if name.endswith("CancelledError") or name in ("CommClosedError", "TimeoutError"):
                raise ComputationFailed(
                    "lost the Dask scheduler; with a checkpoint the same call goes on from there "
                    "when a scheduler is back"
                ) from None
            for rows, chunk in zip(self._rows, self._chunks, strict=True):  # which cannot be read?
                try:
                    dask.compute(dask.delayed(np.shape)(chunk))
                except Exception:
                    raise InvalidInput(
                        f"rows {rows.start} to {rows.stop - 1} of X cannot be read: {name}: {error}"
                    ) from None
            raise
