"""The report on a telephone, on a large screen and in dark mode, as Chromium renders it."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from epsilometer.report.figures import COLOURS
from tests.support.audited import audit, build_page
from tests.support.similarities import similarity_tables
from tests.support.sparing import first
from tests.support.waiting import wait_for

# Elements narrower than 60 pixels with more than 20 characters, which become a column of letters.
SQUEEZED = """return [...document.querySelectorAll("td, th, p, li, dd")].filter(e =>
    e.textContent.trim().length > 20 && e.getBoundingClientRect().width > 0 && e.getBoundingClientRect().width < 60
).map(e => e.textContent.trim().slice(0, 40))"""
# Figures that are displayed smaller than designed, so that their letters are too small.
SHRUNK = """return [...document.querySelectorAll(".figure svg.marks")].map(
    e => e.getBoundingClientRect().width / e.viewBox.baseVal.width).filter(scale => scale < 0.8)"""
# Elements that are wider than their container, and cannot be scrolled.
CUT = """return [...document.querySelectorAll("main table, main .figure")].filter(e => {
    const box = e.closest(".scroll, .overflow, .figure") ?? e.parentElement;
    return e.scrollWidth > box.clientWidth + 1 && !["auto", "scroll"].includes(getComputedStyle(box).overflowX);
}).map(e => e.outerHTML.slice(0, 80))"""


# Points that overlap the title of a panel.
ON_A_TITLE = """return [...document.querySelectorAll("svg.marks")].flatMap(svg => {
    const titles = [...svg.querySelectorAll(".role-title-text text")].map(e => e.getBoundingClientRect());
    return [...svg.querySelectorAll(".mark-symbol.role-mark path")].map(e => e.getBoundingClientRect()).filter(p =>
        p.width && titles.some(t => p.left < t.right && p.right > t.left && p.top < t.bottom && p.bottom > t.top));
}).length ? ["a point"] : []"""
OPEN = "for (const fold of document.querySelectorAll('details')) fold.open = true;"
PLACE = """return [...document.querySelectorAll(".summary dt")].find(
    e => e.textContent == arguments[0]).getBoundingClientRect().bottom"""
OUT_OF_SIGHT = """return [...document.querySelectorAll(".stacked td")].filter(e =>
    e.getBoundingClientRect().right > innerWidth).map(e => e.textContent)"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("screens")
    build_page(audit(**similarity_tables()), folder / "audit.html", folder / "figures")
    return folder / "audit.html"


def shown(
    browser: Any, page: Path, width: int, scheme: str = "light", unfolded: bool = False
) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """[height, width, 3] the whole page on a screen of this width, once all figures are drawn; kept beside it."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(page.as_uri())
    if unfolded:
        browser.execute_script(OPEN)
    wait(browser)
    height = browser.execute_script("return document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    page.with_name(f"{width}-{scheme}.png").write_bytes(base64.b64decode(taken["data"]))
    return _pixels(taken)


def drawn_yet(browser: Any) -> bool:
    """Whether every figure that is not folded gave way to its drawing."""
    return not browser.execute_script(
        "return [...document.querySelectorAll('.figure > img')].filter(e => !e.closest('details:not([open])')).length"
    )


def wait(browser: Any) -> None:
    """Until all figures are drawn."""
    wait_for("the drawing of all figures", lambda: drawn_yet(browser))


@pytest.mark.parametrize(("width", "tallest"), first(1, [(400, 16_000), (1280, 10_800)]))
def test_the_page_fits_the_screen(browser: Any, page: Path, width: int, tallest: int) -> None:
    pixels = shown(browser, page, width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(SQUEEZED) == []
    assert browser.execute_script(SHRUNK) == []
    assert browser.execute_script(CUT) == []
    assert len(pixels) < tallest


def test_what_is_folded_fits_too_and_nothing_lies_on_a_title(browser: Any, page: Path) -> None:
    """Opened as a reader does: figures are drawn then; titles stand clear of what is drawn."""
    shown(browser, page, 400)
    browser.execute_script(OPEN)
    wait(browser)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
    assert browser.execute_script(SQUEEZED) == []
    assert browser.execute_script(SHRUNK) == []
    assert browser.execute_script(CUT) == []
    assert browser.execute_script(ON_A_TITLE) == []


def test_on_a_phone_the_decisions_are_on_the_screen_without_scrolling_aside(browser: Any, page: Path) -> None:
    """What must be there: the answer of each data set on the first screen, and every cell of the matrix."""
    shown(browser, page, 400)
    for topic in ("letters", "queries"):
        top = browser.execute_script(PLACE, topic)
        assert top < 900, topic
    assert browser.execute_script(OUT_OF_SIGHT) == []


@pytest.mark.parametrize("width", first(0, [400, 1280]))
def test_in_the_dark_nothing_is_left_white(browser: Any, page: Path, width: int) -> None:
    assert (
        shown(browser, page, width, unfolded=True).mean(axis=2) > 200
    ).mean() > 0.8  # the same measure is large for the light page
    pixels = shown(browser, page, width, "dark", unfolded=True).mean(axis=2)
    assert (pixels > 200).mean() < 0.05  # letters and lines
    assert (pixels < 60).mean() > 0.8
    boxes = (
        "return [...document.querySelectorAll('.figure')].map(e => e.getBoundingClientRect()).map(r => [r.y, r.height])"
    )
    for top, height in browser.execute_script(boxes):
        figure = pixels[round(top) : round(top + height)]
        assert (figure < 60).mean() > 0.5, "a figure stays white"
        assert (figure > 110).mean() > 0.002, "nothing of a figure can be seen"


def test_every_colour_can_be_told_from_the_dark(browser: Any, page: Path) -> None:
    """WCAG 2.1 asks for a contrast of 3 to 1 between a graphic and what is beside it."""
    shown(browser, page, 1280, "dark")
    squares = "".join(f'<rect y="{20 * i}" width="20" height="20" fill="{c}"/>' for i, c in enumerate(COLOURS))
    svg = f'<div class="figure"><svg width="40" height="{20 * len(COLOURS)}">{squares}</svg></div>'
    browser.execute_script("document.body.insertAdjacentHTML('afterbegin', arguments[0])", svg)
    clip = {"x": 0, "y": 0, "width": 40, "height": 20 * len(COLOURS), "scale": 1}
    pixels = _pixels(browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip}))
    ground, colours = _luminance(pixels[10, 30]), _luminance(pixels[10::20, 10])
    assert ((colours + 0.05) / (ground + 0.05) >= 3).all()


def _pixels(taken: dict[str, str]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """[height, width, 3] of a screenshot."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("RGB"))


def _luminance(rgb: np.ndarray[Any, np.dtype[np.uint8]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """[...] of sRGB colours [..., 3] (WCAG 2.1)."""
    parts = rgb / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return np.asarray(linear @ np.array([0.2126, 0.7152, 0.0722]))
