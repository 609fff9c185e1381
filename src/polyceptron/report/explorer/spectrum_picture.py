"""A small picture of the features' spectrum for the page: eigenvalues, the largest first."""

from __future__ import annotations

import base64
import math
from functools import lru_cache

from polyceptron.model import Spectrum, as_spectrum

WIDTH, HEIGHT, MARGIN = 220, 64, 4
_STEPS = 120


@lru_cache(maxsize=64)
def spectrum_picture(name: str) -> tuple[str, str]:
    """A `data:` address of an SVG picture, and the same in words."""
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
    address = "data:image/svg+xml;base64," + base64.b64encode(picture.encode()).decode()
    return address, spectrum_words(spectrum)


def spectrum_words(spectrum: Spectrum) -> str:
    """What the picture shows, for those who cannot see it and as its caption."""
    s = spectrum.eigenvalues
    if spectrum.isotropic:
        return "every eigenvalue is 1"
    rest = "" if spectrum.rank == 1 else f", {1 - spectrum.rank:.2g} of them 0"
    return f"eigenvalues from {s[0]:.3g} down to {s[-1]:.3g} (logarithmic){rest}"
