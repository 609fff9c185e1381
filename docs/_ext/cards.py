"""Two directives for pages of pictures: `cards` holds any number of `card`.

A card has a title, a picture, a link (a page, or an anchor of this page) and a caption.
"""

from __future__ import annotations

from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Cards(SphinxDirective):
    """A grid of cards."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        box = nodes.container(classes=["cards"])
        self.state.nested_parse(self.content, self.content_offset, box)
        return [box]


class Card(SphinxDirective):
    """One card: the picture above, the title as a link, the caption below."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {
        "picture": directives.uri,
        "link": directives.uri,
        "alt": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        box = nodes.container(classes=["card"])
        title = self.arguments[0]
        link = self.options.get("link")
        lines = []
        if "picture" in self.options:
            lines += [f"```{{image}} {self.options['picture']}"]
            lines += [f":alt: {self.options.get('alt', title)}"]
            if link is not None and link != self.options["picture"]:
                lines.append(f':target: "{link}"')
            lines += ["```", ""]
        heading = title
        if link is not None:
            heading = f"[{title}]({link})"
        lines += ["{.card-title}", heading, "", *self.content]
        self.state.nested_parse(
            StringList(lines, self.get_source_info()[0]), self.content_offset, box
        )
        return [box]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("cards", Cards)
    app.add_directive("card", Card)
    return {"version": "1", "parallel_read_safe": True}
