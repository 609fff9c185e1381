"""Rows in chunks that fit the cache, on as many threads as the linear algebra may use.

numpy and scipy release the interpreter lock inside their loops, so plain threads are enough.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

Work = Callable[[slice], None]


def thread_count() -> int:
    """OMP_NUM_THREADS if it is set, else the processors this process may run on."""
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def for_chunks(work: Work, n_rows: int, chunk: int) -> None:
    """Call `work(rows)` for consecutive slices of 0..n_rows of `chunk` rows at most.

    The slices do not depend on the number of threads, and each writes rows of its own: the result
    is the same for any number of threads.
    """
    slices = [slice(i, min(i + chunk, n_rows)) for i in range(0, n_rows, chunk)]
    threads = min(thread_count(), len(slices))
    if threads <= 1:
        for rows in slices:
            work(rows)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, slices))
