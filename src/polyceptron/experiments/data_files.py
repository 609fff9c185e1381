"""Samples and labels in files: opened, not read, and a sentence for what cannot be.

| ending | X |
| --- | --- |
| .npy | a memory map, read block by block |
| .npz | a sparse matrix, as `scipy.sparse.save_npz` writes it |
| .zarr, .parquet | a Dask array, in chunks of rows |
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.files import check_readable

ENDINGS = (".npy", ".npz", ".zarr", ".parquet")


def open_samples(path: str | Path) -> Any:
    """X (n, d) of a file, as message passing and fits take it."""
    place, ending = Path(path), Path(path).suffix
    if ending not in ENDINGS:
        raise InvalidInput(
            f"cannot tell how to read {str(path)!r}: its name must end in {', '.join(ENDINGS)}"
        )
    if ending == ".npy":
        return _open_array(place, "samples")
    if ending == ".npz":
        check_readable(place, "samples")
        try:
            return import_module("scipy.sparse").load_npz(place)
        except Exception as error:
            raise InvalidInput(
                f"{str(path)!r} is no sparse matrix of scipy, or a damaged one: {error}"
            ) from None
    if not place.exists():
        raise InvalidInput(f"there are no samples {str(path)!r}")
    try:
        if ending == ".zarr":
            return import_module("dask.array").from_zarr(str(place))
        return import_module("dask.dataframe").read_parquet(str(place))
    except ImportError as error:
        needed = f"pip install 'polyceptron[cluster]', and {ending[1:]}'s own package"
        raise InvalidInput(f"reading {ending} needs Dask: {needed} ({error})") from None
    except Exception as error:
        raise InvalidInput(f"cannot read {str(path)!r} as {ending[1:]}: {error}") from None


def read_labels(path: str | Path) -> Any:
    """Labels (n,) of a .npy file."""
    if Path(path).suffix != ".npy":
        raise InvalidInput(f"labels must be in a .npy file, got {str(path)!r}")
    return np.array(_open_array(Path(path), "labels"))


def _open_array(path: Path, what: str) -> Any:
    check_readable(path, what)
    _check_length(path, what)
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InvalidInput(f"{str(path)!r} is no array of numpy: {error}") from None


def _check_length(path: Path, what: str) -> None:
    """A sentence with the missing rows if the file is shorter than its own header says."""
    read = np.lib.format
    try:
        with path.open("rb") as file:
            version = read.read_magic(file)
            header = read.read_array_header_1_0 if version == (1, 0) else read.read_array_header_2_0
            shape, _, dtype = header(file)
            begin = file.tell()
    except (ValueError, OSError, EOFError) as error:
        raise InvalidInput(f"{str(path)!r} is no array of numpy: {error}") from None
    row = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
    rows = shape[0] if shape else 1
    held = (path.stat().st_size - begin) // max(row, 1)
    if held < rows and not dtype.hasobject:
        raise InvalidInput(
            f"the {what} {str(path)!r} are cut short: of {rows} rows, {held} to {rows - 1} are "
            "missing"
        )
