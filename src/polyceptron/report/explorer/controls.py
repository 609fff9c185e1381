"""The controls of the page: native, with labels, so that a keyboard and a screen reader work."""

from __future__ import annotations

import math
from typing import Any

from dash import dcc, html

from polyceptron.report.explorer.choices import (
    CHOICES,
    ESTIMATORS,
    SPECTRA,
    level_range,
    noise_parameter,
    words_for,
)
from polyceptron.report.explorer.page_settings import LIMITS, NAMES, PageSettings
from polyceptron.report.explorer.small_pictures import spectrum_picture

LOGARITHMIC = ("ridge", "level")
RIDGE_RANGE: dict[str, Any] = {
    "min": math.log10(LIMITS["ridge"].low),
    "max": math.log10(LIMITS["ridge"].high),
    "step": 0.01,
}


def control_id(name: str) -> str:
    """The id of the control of a setting."""
    return f"control-{name}"


def named(words: str) -> dict[str, Any]:
    """The name of an element for those who cannot see it."""
    return {"aria-label": words}


def number(settings: PageSettings, name: str, label: str) -> Any:
    """A box for a number within its limits."""
    limit = LIMITS[name]
    return html.Div(
        [
            html.Label(label, htmlFor=control_id(name)),
            dcc.Input(
                id=control_id(name),
                type="number",
                value=shown_values(settings)[name],
                min=limit.low,
                max=limit.high,
                step=1 if limit.whole else "any",
                debounce=0.4,
            ),
        ],
        className="field",
    )


def slider(settings: PageSettings, name: str, label: str) -> Any:
    """A slider with its value beside its label."""
    ranges = {"alpha": alpha_range, "level": noise_range}
    return html.Div(
        [
            html.Div(
                [
                    html.Label(label, htmlFor=control_id(name)),
                    html.Output(id=f"{name}-value", htmlFor=control_id(name)),
                ],
                className="range-label",
            ),
            dcc.Input(
                id=control_id(name),
                type="range",
                value=shown_values(settings)[name],
                debounce=0.15,
                **(ranges[name](settings) if name in ranges else RIDGE_RANGE),
            ),
        ],
        className="field",
    )


def alpha_range(settings: PageSettings) -> dict[str, Any]:
    """The ends and the step of the slider of the chosen α."""
    step = float(f"{(settings.high - settings.low) / 400:.3g}")
    return {"min": settings.low, "max": settings.high, "step": step}


def noise_range(settings: PageSettings) -> dict[str, Any]:
    """The ends and the step of the slider of the noise, which is logarithmic."""
    low, high = level_range(settings.noise, settings.teacher.n_classes)
    return {"min": round(math.log10(low), 2), "max": math.floor(100 * math.log10(high)) / 100,
            "step": 0.01}  # fmt: skip


def level_words(settings: PageSettings) -> str:
    """The level of the noise with its name."""
    name = noise_parameter(settings.noise)
    return f"{name} {settings.level:.3g}" if name else "none"


def radio(settings: PageSettings, name: str, label: str) -> Any:
    """One of the choices of a setting."""
    radios = dcc.RadioItems(
        id=control_id(name),
        options=[{"label": words_for(name, one), "value": one} for one in CHOICES[name]],
        value=shown_values(settings)[name],
        className="choices",
    )
    return _fieldset(label, radios, control_id(name))


def spectrum_figure(settings: PageSettings) -> Any:
    """A small picture of the chosen spectrum with its range in words."""
    address, words = spectrum_picture(SPECTRA[settings.features])
    return html.Figure(
        [
            html.Img(id="spectrum-picture", src=address, alt=words, style={"maxWidth": "100%"}),
            html.Figcaption(words, id="spectrum-words", className="hint"),
        ],
        style={"margin": "0"},
    )


def estimator_boxes(settings: PageSettings) -> Any:
    """Which estimators are drawn."""
    boxes = dcc.Checklist(
        id=control_id("estimators"),
        options=[{"label": words_for("estimators", one), "value": one} for one in ESTIMATORS],
        value=list(settings.estimators),
        className="choices",
    )
    return _fieldset("Draw", boxes, control_id("estimators"))


def _fieldset(legend: str, content: Any, name: str) -> Any:
    return html.Fieldset([html.Legend(legend), content], id=f"{name}-group")


def shown_values(settings: PageSettings) -> dict[str, Any]:
    """The value of each control for these settings; the sliders of LOGARITHMIC are so."""
    values = settings.as_dict()
    values |= {name: round(math.log10(values[name]), 6) for name in LOGARITHMIC}
    return {name: values[name] for name in NAMES}


def settings_of(values: dict[str, Any]) -> dict[str, Any]:
    """The settings that the controls' values mean: the inverse of `shown_values`."""
    settings = dict(values)
    for name in (*LOGARITHMIC, "alpha"):
        try:
            value = float(settings[name])
            settings[name] = float(f"{10**value if name in LOGARITHMIC else value:.6g}")
        except (TypeError, ValueError, OverflowError):
            pass  # `make_settings` has the sentence
    return settings
