"""A picture of the first curves, shown while the browser is still loading the plotting library.

It is drawn on the server by the same function as every learning curve, and lies behind the live
figure, which covers it as soon as it can be drawn.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import Any

from polyceptron.report.pictures.curves import curves_picture
from polyceptron.report.pictures.matplotlib_figure import render_matplotlib
from polyceptron.rows import frame


def preview(curves: Mapping[str, list[dict[str, Any]]]) -> str:
    """The curves, rows by estimator, as a `data:` address of an SVG picture."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    rows = [row for some in curves.values() for row in some if row.get("branch") != "informed"]
    figure: Any = render_matplotlib(curves_picture(frame(rows)))
    figure.set_size_inches(9.0, 4.6)
    picture = io.BytesIO()
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(picture, metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(picture.getvalue()).decode()
