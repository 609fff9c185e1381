"""Mathematics that knows no teacher: orthant probabilities, panels, estimates with their error."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
AnyArray = NDArray[Any]
# Stands for 0 where something is divided by it or its logarithm is taken: 1e8/TINY is still finite.
TINY = 1e-300

P = ParamSpec("P")
T = TypeVar("T")
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}  # by process, for one that has forked


def thread_count() -> int:
    """Return OMP_NUM_THREADS if it is set, else the number of processors of this process."""
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def for_chunks(work: Callable[[slice], None], n_rows: int, chunk: int) -> None:
    """Call `work(rows)` for consecutive slices of 0..n_rows of `chunk` rows at most.

    Each writes rows of its own: the result is the same for any number of threads. numpy and scipy
    release the interpreter lock inside their loops, but handing it over costs when the machine is
    busy, so that chunks are large and small work has one.
    """
    slices = [slice(i, min(i + chunk, n_rows)) for i in range(0, n_rows, chunk)]
    threads = thread_count()
    if len(slices) == 1 or threads == 1:
        for rows in slices:
            work(rows)
        return
    key = (os.getpid(), threads)
    if key not in _pools:
        _pools[key] = ThreadPoolExecutor(threads, thread_name_prefix="polyceptron")
    list(_pools[key].map(work, slices))


@lru_cache(maxsize=1)
def _blas() -> Any:
    import scipy.linalg  # noqa: F401  # loads the BLAS that is to be limited
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit linear algebra to one thread, for good or, used as a context, until it is left."""
    limit: AbstractContextManager[Any] = _blas().limit(limits=1)
    return limit


def with_one_blas_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Run a function with one thread of linear algebra: for short products more threads wait.

    Underflow inside it is meant: densities far out and shares of what cannot be are 0.
    """

    @wraps(function)
    def called(*args: P.args, **options: P.kwargs) -> T:
        """Call the function on one BLAS thread, with underflow as meant."""
        with one_blas_thread(), np.errstate(under="ignore"):
            return function(*args, **options)

    return called
