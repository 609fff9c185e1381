"""Tables from files: a store of results, or a table in CSV or Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from polyceptron.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd

_SQLITE = b"SQLite format 3\x00"


def read_tables(paths: Sequence[str | Path]) -> pd.DataFrame:
    """The rows of several files as one table; its column `table` says which file each is from."""
    import pandas as pd

    tables = [read_table(path).assign(table=i) for i, path in enumerate(paths)]
    return pd.concat(tables, ignore_index=True)


def select_rows(table: pd.DataFrame, conditions: Sequence[str]) -> pd.DataFrame:
    """The rows that meet every condition, each COLUMN=VALUE; a sentence if none does."""
    from pandas.api.types import is_numeric_dtype

    for condition in conditions:
        name, equals, value = condition.partition("=")
        if not equals or name not in table:
            raise InvalidInput(
                f"a condition is COLUMN=VALUE with one of {', '.join(map(str, table.columns))}, "
                f"got {condition!r}"
            )
        try:
            wanted = float(value) if is_numeric_dtype(table[name]) else value
        except ValueError:
            raise InvalidInput(f"{name} is a number, got {condition!r}") from None
        table = table[(table[name] == wanted).fillna(False).astype(bool)]
        if table.empty:
            raise InvalidInput(f"there is nothing to draw: no row has {condition}")
    return table.reset_index(drop=True)


def read_table(path: str | Path) -> pd.DataFrame:
    """The rows of a store (as SQLite's first bytes say) or of a table; a sentence otherwise."""
    import pandas as pd

    source = Path(path)
    if not source.exists():
        raise InvalidInput(f"there is no file {str(source)!r}")
    if not source.is_file():  # a folder, or a device that never ends
        raise InvalidInput(f"{str(source)!r} is not a file: a store or a CSV table is needed")
    try:
        with source.open("rb") as file:
            start = file.read(16)
        if start == _SQLITE:
            from polyceptron.experiments import Store

            with Store(source) as store:
                table = store.frame()
        elif start[:4] == b"PAR1":
            table = pd.read_parquet(source)
        else:
            table = pd.read_csv(source)
    except (OSError, ImportError) as error:
        raise InvalidInput(f"cannot read {str(source)!r}: {error}") from None
    except (ValueError, UnicodeDecodeError):  # pandas' own errors are ValueErrors
        raise InvalidInput(f"{str(source)!r} is neither a store nor a table in CSV") from None
    if table.empty:
        raise InvalidInput(f"there is nothing to draw: {str(source)!r} has no rows")
    return table
