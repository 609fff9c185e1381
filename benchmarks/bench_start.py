"""How long a user waits before anything happens: import, --help, a first number."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from typing import Any

IMPORT = "import polyceptron"
HELP = "import sys; sys.argv = ['polyceptron', '--help']; from polyceptron.cli import main; main()"
FIRST = "import polyceptron as pc; pc.learning_curve(pc.Teacher(3), pc.BayesOptimal(), [1, 2, 5])"


def bench() -> list[dict[str, Any]]:
    """Rows name, ours_seconds, rival_seconds, ratio, note: processor seconds of whole processes."""
    bare = seconds("pass")
    rows = []
    for name, ours, other, rival in (
        ("import polyceptron", IMPORT, "import numpy", "import numpy"),
        ("polyceptron --help", HELP, "import typer and rich", "import typer, rich.console"),
        (
            "first learning curve, import and all",
            FIRST,
            "import scipy.stats and pandas",
            "import scipy.stats, pandas",
        ),
    ):
        mine, theirs = seconds(ours), seconds(rival)
        rows.append(
            {
                "name": f"{name}: against {other}",
                "ours_seconds": mine,
                "rival_seconds": theirs,
                "ratio": theirs / mine,
                "note": f"a bare interpreter takes {bare:.2g} s",
            }
        )
    return rows


def seconds(code: str, repeats: int = 5) -> float:
    """Median processor seconds of a Python process that runs `code`."""
    found = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(found)


if __name__ == "__main__":
    for row in bench():
        print(row)
