"""Count the files, functions and calls between files of three walks through the package.

    python tools/walks.py

A walk is one call of the public interface. Counted are the files of the package in which a function
runs, these functions, and the pairs of different files of which one calls into the other.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from sklearn.datasets import load_iris

import polyceptron as pc

PACKAGE = str(Path(pc.__file__).parent)
SWEEP = """
[[grid]]
classes = [3]
estimators = ["cross-entropy"]
sources = ["theory", "erm"]
alpha = [1.0, 2.0]
dimension = [50]
instances = 2
"""


class Walk(NamedTuple):
    """How much of the package a call goes through."""

    files: int
    functions: int
    edges: int


def walk(call: Callable[[], Any]) -> Walk:
    """Run a call and count what it goes through."""
    functions: set[CodeType] = set()
    edges: set[tuple[str, str]] = set()

    def follow(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE) or code.co_name[0] == "<":
            return
        functions.add(code)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != code.co_filename:
            edges.add((caller.f_code.co_filename, code.co_filename))

    sys.setprofile(follow)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Walk(len({code.co_filename for code in functions}), len(functions), len(edges))


def curve() -> Any:
    """A learning curve of two points."""
    return pc.learning_curve(pc.Teacher(3), pc.ERM("cross-entropy", 0.1), [1.0, 2.0])


def fit() -> Any:
    """A fit of the iris data."""
    X, y = load_iris(return_X_y=True)
    return pc.fit_erm(X, y, "cross-entropy", 0.1)


def sweep() -> Any:
    """A sweep in this process, and its picture."""
    from polyceptron.lab.tasks import attempt, compute_rows, expand

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.sqlite"
        with pc.Store(path, create=True) as store:
            for task in expand(pc.parse_spec(SWEEP)):
                store.add(attempt(compute_rows, task))
        return pc.LearningCurve.read(path).plot()


if __name__ == "__main__":
    for call in (curve, fit, sweep):
        call()  # what is loaded or tabulated once is not part of the walk
        found = walk(call)
        sys.stdout.write(
            f"{call.__name__}: {found.files} files, {found.functions} functions, "
            f"{found.edges} calls between files\n"
        )
