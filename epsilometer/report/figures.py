"""The common parts of the report's figures: styles, axes, pictures, and the drawing library. Losses are in nats."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

import altair as alt
import polars as pl
import vl_convert

from epsilometer.core.atomic import whole, write_text

Specification = dict[str, Any]
"""A figure as self-contained Vega-Lite. Browsers draw it, and pictures are made from it."""

_VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])  # the version that this altair writes

# People with red-green or blue-yellow colour blindness can tell these colours apart, and all are dark enough on white
# (after Okabe and Ito 2008 and Tol 2021). Mechanisms also differ in shape, for print without colour.
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#332288",
    "#e69f00",
    "#56b4e9",
    "#882255",
    "#7a7a26",
    "#5f5f5f",
)
SHAPES = (
    "M1,0A1,1,0,1,1,-1,0A1,1,0,1,1,1,0Z",  # circle
    "M-0.9,-0.9H0.9V0.9H-0.9Z",  # square
    "M0,-1.25L1.25,0L0,1.25L-1.25,0Z",  # diamond
    "M-1.1,-0.9H1.1L0,1.1Z",  # triangle
    "M-0.4,-1.1H0.4V-0.4H1.1V0.4H0.4V1.1H-0.4V0.4H-1.1V-0.4H-0.4Z",  # cross
)
DASHES = ((), (6, 2), (2, 2), (8, 2, 2, 2))

INK, MUTED, GRID = "#1d2733", "#5b6773", "#e3e7eb"
CHECKED = False  # tests set True: altair then checks each part of a panel against its schema, which takes seconds
_TOP = ("$schema", "config", "datasets")  # parts of a figure that its panels do not repeat
# Values of the labels on a wide axis.
_NATS = (0, 0.5, 1, 2, 5, *(step * 10**power for power in range(1, 9) for step in (1, 3)))
WIDTH = 1096  # width of the page's figures, in pixels

_FONTS = Path(__file__).with_name("fonts")
# A browser draws with its own fonts. A still picture is drawn with the font of this package, because with the machine's
# fonts its bytes would differ between machines.
_STILL_FONT = "Epsilometer Sans, Liberation Sans, Arial, Helvetica, sans-serif"
CONFIG = {
    "font": "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif",
    "background": "white",
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED,
        "titleColor": INK,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "gridColor": GRID,
        "domainColor": "#9aa4ae",
        "tickColor": "#9aa4ae",
    },
    "title": {"fontSize": 13, "fontWeight": 600, "color": INK, "anchor": "start", "frame": "group", "offset": 6},
    "legend": {"labelFontSize": 12, "labelColor": INK, "titleFontSize": 12, "symbolSize": 70},
}


@dataclass(frozen=True)
class Style:
    """The style of a mechanism in all figures: colour, marker (an SVG path in about -1 to 1) and dashes."""

    colour: str
    shape: str
    dash: tuple[int, ...]


def styles(mechanisms: Iterable[str]) -> dict[str, Style]:
    """Return a style for each mechanism, assigned in the order of their names."""
    rounds = len(COLOURS)
    return {
        name: Style(
            COLOURS[i % rounds],
            SHAPES[(i + i // rounds) % len(SHAPES)],  # so that two mechanisms with one colour differ in shape
            DASHES[i // rounds % len(DASHES)],
        )
        for i, name in enumerate(sorted(set(mechanisms)))
    }


def file_name(kind: str, dataset: str) -> str:
    """Return the file name of a data set's figure, without characters that file names must not contain."""
    return f"{kind}-{re.sub(r'[^A-Za-z0-9_.-]+', '-', dataset)}"


@dataclass(frozen=True)
class Figure:
    """A figure of the page. A script draws it; a still picture is shown until then, or without scripts.

    name: the name of its files and the id of its HTML element. words: a description for readers who cannot see it.
    saved: the specification for the files, if it differs from the page's. heading, caption: text above the figure.
    """

    name: str
    words: str
    specification: Specification
    saved: Specification | None = None
    heading: str = ""
    caption: str = ""
    kind: ClassVar[str] = "figure"

    @property
    def json(self) -> str:
        """The specification as JSON, escaped so that "</script>" in a text does not end the script element."""
        return json.dumps(self.specification, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")

    @property
    def picture(self) -> str:
        """The still picture as a data URL."""
        return f"data:image/svg+xml;base64,{base64.b64encode(self.svg.encode()).decode()}"

    def save(self, folder: Path) -> None:
        """Write `name`.svg and `name`.png (twice the size in pixels)."""
        picture = self.svg if self.saved is None else svg(self.saved)
        write_text(picture, folder / f"{self.name}.svg")
        with whole(folder / f"{self.name}.png") as file:
            file.write(vl_convert.svg_to_png(picture, scale=2))  # neither file has a date or a program's name

    @cached_property
    def svg(self) -> str:
        """The still picture as SVG."""
        return svg(self.specification)  # drawing takes a second


def legend_labels(controls: Iterable[str]) -> str:
    """Return a Vega expression for a legend's labels, which marks controls."""
    names = json.dumps(sorted(set(controls)), ensure_ascii=False)
    return f"indexof({names}, datum.label) < 0 ? datum.label : datum.label + ' (control)'"


def by_name(style: dict[str, Style], names: list[str], controls: Sequence[str] = ()) -> tuple[alt.Color, alt.Shape]:
    """Return the encodings of mechanisms by colour and shape, with one legend that marks controls."""
    legend = alt.Legend(
        title=None, symbolOpacity=1, symbolStrokeWidth=0, labelLimit=0, labelExpr=legend_labels(controls)
    )
    return (
        alt.Color("mechanism:N", scale=alt.Scale(domain=names, range=[style[n].colour for n in names]), legend=legend),
        alt.Shape("mechanism:N", scale=alt.Scale(domain=names, range=[style[n].shape for n in names]), legend=legend),
    )


def epsilon_axis(epsilons: pl.Series) -> alt.X:
    """Return the axis of nominal epsilon, on a logarithmic scale."""
    low, high = ends(epsilons)
    return alt.X(
        "epsilon:Q",
        title="nominal ε",
        scale=alt.Scale(type="log", domain=[low / 1.25, high * 1.25], nice=False),
        axis=alt.Axis(values=_ticks(low, high), format=",~f", labelOverlap=True, grid=False),
    )


def wide_axis(top: float) -> tuple[alt.Axis, alt.Scale]:
    """Return axis and scale for losses up to `top` nats: linear below about 1 nat, logarithmic above."""
    return (
        alt.Axis(values=[tick for tick in _NATS if tick <= top], format=",.1~f"),
        alt.Scale(type="symlog", constant=1, domain=[0, top], nice=False),
    )


def ends(values: pl.Series) -> tuple[float, float]:
    """Return the smallest and the largest value, without nulls; 1 and 1 if all are null (no budgets)."""
    ordered = values.drop_nulls().sort()
    if ordered.is_empty():
        return 1.0, 1.0
    return float(ordered[0]), float(ordered[-1])


def _ticks(low: float, high: float) -> list[float]:
    """Return the powers of ten in a range, or 1-2-5 steps in a narrow range; at least one value."""
    steps = (1,) if high / low >= 100 else (1, 2, 5)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [s * 10.0**p for p in powers for s in steps if low / 1.25 <= s * 10.0**p <= high * 1.25] or [low]


def specify(chart: alt.HConcatChart | alt.VConcatChart | alt.ConcatChart, datasets: dict[str, Any]) -> Specification:
    """Return a chart's specification, with the rows of each data set that it names and the common configuration."""
    # The rows are added last, because altair would copy and check them again for every layer.
    return {**chart.to_dict(), "datasets": datasets, "config": CONFIG}


def joined(panels: Iterable[alt.LayerChart | alt.FacetChart], datasets: dict[str, Any], **around: Any) -> Specification:
    """Return the specification of panels side by side. around: further properties of the concatenation.

    The function replaces altair's concatenation, which copies each panel several times and takes seconds.
    """
    parts = [
        {name: part for name, part in panel.to_dict(validate=CHECKED).items() if name not in _TOP} for panel in panels
    ]
    return {"$schema": alt.SCHEMA_URL, **around, "concat": parts, "datasets": datasets, "config": CONFIG}


@cache
def script() -> str:
    """Return the JavaScript that draws specifications in a browser (Vega, Vega-Lite, vegaEmbed), without a network."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=_VEGA_LITE)


def svg(specification: Specification) -> str:
    """Return a still picture of a specification, with the same bytes on every machine."""
    _register_fonts()
    still = specification | {"config": specification.get("config", {}) | {"font": _STILL_FONT}}
    return vl_convert.vegalite_to_svg(still, vl_version=_VEGA_LITE)


def pdf(specification: Specification) -> bytes:
    """Return a picture of a specification as PDF, with the font of this package."""
    return bytes(vl_convert.svg_to_pdf(svg(specification)))


@cache
def _register_fonts() -> None:
    vl_convert.register_font_directory(str(_FONTS))
