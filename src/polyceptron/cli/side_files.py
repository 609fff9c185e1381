"""Files whose names a user did not give: reports beside weights or a page, and default names.

Such a file may replace one that polyceptron made before. A user's own file of that name stays: the
command ends before any work, unless --overwrite is given.
"""

import os
import re
from pathlib import Path
from typing import Annotated

from polyceptron.cli.options import RESULT, option
from polyceptron.errors import InvalidInput

DEFAULT_WEIGHTS = Path("weights.npy")
# What a file of each ending has near its begin or its end if polyceptron made it.
MARKS = {
    ".json": b'"made_by": "polyceptron"',
    ".pdf": b"/Creator (polyceptron)",
    ".html": b'<meta name="generator" content="polyceptron">',
}
MARK_BYTES = 4096  # where a mark is looked for: so many at the begin, so many at the end
COMPUTED_FILE = re.compile(r"\w+-[0-9a-f]{16}\.json")  # a computation kept by `figures`

_OVERWRITE = "Also replace files whose names you did not give and that polyceptron did not write."
Overwrite = Annotated[bool, option(_OVERWRITE, "--overwrite", panel=RESULT)]


def report_beside(path: Path) -> Path:
    """Return the name of the report about a file: `t.report.json` for `t.html`."""
    return path.with_suffix(".report.json")


def check_unnamed(path: Path, overwrite: bool, *, ours: bool | None = None) -> None:
    """Raise if a user's own file has this name, which no option gave.

    `ours` says whether polyceptron made what is there; None looks for the mark in the file.
    """
    if overwrite or not os.path.lexists(path):
        return
    if ours is None:
        ours = _has_mark(path)
    if not ours:
        raise InvalidInput(
            f"cannot write {str(path)!r}: it exists and polyceptron did not make it. Move it, "
            "choose another name, or give --overwrite"
        )


def choose_weights_file(out: Path | None, overwrite: bool) -> Path:
    """Return the file of the weights, checking it if --out did not name it, and its report."""
    chosen = DEFAULT_WEIGHTS if out is None else out
    report = report_beside(chosen)
    check_unnamed(report, overwrite)
    if out is None:
        check_unnamed(chosen, overwrite, ours=_has_mark(report))
    return chosen


def check_figure_files(folder: Path, files: list[Path], overwrite: bool) -> None:
    """Raise if one of the files is there, and the folder has nothing that shows it to be ours."""
    computed = folder / "computed"
    ours = _has_mark(folder / "index.html")
    if computed.is_dir():
        ours = ours or any(COMPUTED_FILE.fullmatch(name) for name in os.listdir(computed))
    for file in files:
        check_unnamed(file, overwrite, ours=ours)


def _has_mark(path: Path) -> bool:
    """Return whether the file says that polyceptron made it."""
    mark = MARKS.get(path.suffix)
    if mark is None or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            begin = file.read(MARK_BYTES)
            file.seek(max(0, path.stat().st_size - MARK_BYTES))
            return mark in begin + file.read(MARK_BYTES)
    except OSError:
        return False
