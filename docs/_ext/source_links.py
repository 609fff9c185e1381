"""The `[docs]` links of source pages lead to where a name is described.

`sphinx.ext.viewcode` keeps one prefix for each module, but here some names of a module are
described as names of the package and others as names of the module itself. Source pages stand in
no menu, so that those of one folder have the same one, which is made once.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

MENUS: dict[tuple[Any, ...], str] = {}  # of source pages, by folder and options
BACK = re.compile(r'(<a class="viewcode-back" href="[^"#]*#)polyceptron\.([\w.]+)"')


def mend(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """On a source page, the anchors of names that are described under their module."""
    if not page.startswith("_modules/polyceptron"):
        return
    menu = context["toctree"]

    def menu_of_folder(**options: Any) -> str:
        asked = (page.rpartition("/")[0], *sorted(options.items()))
        if asked not in MENUS:
            MENUS[asked] = menu(**options)
        return MENUS[asked]

    context["toctree"] = menu_of_folder
    module = page.removeprefix("_modules/").replace("/", ".")
    known: Any = app.env.domains["py"].data["objects"]

    def anchor(link: re.Match[str]) -> str:
        name = link[2] if f"polyceptron.{link[2]}" in known else f"{module}.{link[2]}"
        return f'{link[1]}polyceptron.{name.removeprefix("polyceptron.")}"'

    context["body"] = BACK.sub(anchor, context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", mend)
    return {"version": "1", "parallel_read_safe": True}
