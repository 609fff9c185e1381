"""One thread for small data: products with a few columns are too short to share.

Threads of the linear algebra wait for each other by spinning: on scikit-learn's digits two of them
took five times as long as one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_SMALL = 1_000_000  # numbers in X


@lru_cache(maxsize=1)
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  # loads the BLAS that is to be limited
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


def threads_for(X: Any) -> AbstractContextManager[Any]:
    """A limit of one thread while X (n, d) is small."""
    shape: tuple[Any, ...] = getattr(X, "shape", ())  # what has none is a list, and small
    rows, columns = shape if len(shape) == 2 else (0, 0)
    return _controller().limit(limits=1) if rows * columns <= _SMALL else nullcontext()


def short_products(fit: Callable[P, T]) -> Callable[P, T]:
    """A method `fit(self, X, ...)` that uses as many threads as X is worth."""

    @wraps(fit)
    def fitted(*args: P.args, **options: P.kwargs) -> T:
        with threads_for(args[1] if len(args) > 1 else options.get("X")):
            return fit(*args, **options)

    return fitted
