"""polyceptron: how well can a linear classifier learn a k-class rule from n = αd examples?

Exact answers in the limit of large d, the algorithms that reach them, and the experiments that
confirm them. Rooms, in reading and import order: `numerics`, `data`, `problem`, `sides`, `theory`,
`message_passing`, `fit`, `students`, `pictures`, `questions`, `lab`, `report`, `cli`. The public
names and their modules are listed in `__init__.pyi`; each is loaded on first use, so that importing
is fast.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from polyceptron.version import VERSION as __version__

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOME = {
    name: home
    for home, name in re.findall(r"from (polyceptron[\w.]+) import \(?\s*(\w+) as", _STUB)
}

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'polyceptron' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
