"""Pictures that come with the page itself, as `data:` addresses.

The first curves are seen while the browser is still loading the plotting library: drawn as every
learning curve, behind the live figure, which covers them as soon as it can be drawn. The spectrum
of the features is a few lines of SVG, so that a page needs no drawing library to be served.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from polyceptron.model import Spectrum, as_spectrum
from polyceptron.report.pictures import curves_picture
from polyceptron.report.pictures.matplotlib_figure import svg_text
from polyceptron.rows import frame

WIDTH, HEIGHT, MARGIN = 220, 64, 4
_STEPS = 120


def preview(curves: Mapping[str, list[dict[str, Any]]]) -> str:
    """The curves, rows by estimator."""
    rows = [row for some in curves.values() for row in some if row.get("branch") != "informed"]
    picture = replace(curves_picture(frame(rows)), width=9.0, height=4.6)
    return _address(svg_text(picture))


def _address(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


@lru_cache(maxsize=64)
def spectrum_picture(name: str) -> tuple[str, str]:
    """Eigenvalues, the largest first, and the same in words."""
    spectrum = as_spectrum(name)
    s, _ = spectrum.at(_STEPS)
    seen = s[s > 0]
    low, high = math.log(float(seen.min())), math.log(float(seen.max()))
    room = max(high - low, 1e-9)
    points = []
    for i, value in enumerate(seen):
        y = (math.log(float(value)) - low) / room if high > low else 0.5
        height = HEIGHT - MARGIN - y * (HEIGHT - 2 * MARGIN)
        for end in (i, i + 1):
            points.append(f"{MARGIN + end / _STEPS * (WIDTH - 2 * MARGIN):.1f},{height:.1f}")
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}"><polyline points="{" ".join(points)}" fill="none" '
        'stroke="#0072b2" stroke-width="1.5"/></svg>'
    )
    return _address(picture), spectrum_words(spectrum)


def spectrum_words(spectrum: Spectrum) -> str:
    """What the picture shows, for those who cannot see it and as its caption."""
    s = spectrum.eigenvalues
    if spectrum.isotropic:
        return "every eigenvalue is 1"
    rest = "" if spectrum.rank == 1 else f", {1 - spectrum.rank:.2g} of them 0"
    return f"eigenvalues from {s[0]:.3g} down to {s[-1]:.3g} (logarithmic){rest}"
