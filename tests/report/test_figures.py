"""What all figures share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fontTools.ttLib import TTFont

from epsilometer.report import figures
from tests.support.places import ROOT


def test_every_mechanism_has_a_style_of_its_own() -> None:
    names = [f"m{i:02}" for i in range(40)]
    styles = figures.styles(names)
    assert len({(s.colour, s.shape) for s in styles.values()}) == 40
    assert len({s.colour for s in list(styles.values())[:10]}) == 10
    assert figures.styles(reversed(names)) == styles


DRAW = """
import hashlib, sys, tempfile
from pathlib import Path
import vl_convert
from epsilometer.report import figures
bars = {"values": [{"x": 1, "name": "wwww"}, {"x": 2, "name": "iiii, of \u03b5 \u2265 1"}]}
encoding = {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "name", "type": "nominal"}}
panel = {"data": bars, "mark": "bar", "encoding": encoding, "title": "A title"}
figure = figures.Figure("bars", "", {"$schema": figures.alt.SCHEMA_URL, **panel, "config": figures.CONFIG})
with tempfile.TemporaryDirectory() as folder:
    figure.save(Path(folder))
    pictures = [(Path(folder) / f"bars.{kind}").read_bytes() for kind in ("svg", "png")]
pictures.append(vl_convert.vegalite_to_svg(figure.specification).encode())
print(*(hashlib.sha256(picture).hexdigest() for picture in pictures))
assert b"tEXt" not in pictures[1] and b"tIME" not in pictures[1] and b"<metadata" not in pictures[0]
"""


def test_a_figure_has_the_same_bytes_whatever_fonts_a_machine_has(tmp_path: Path) -> None:
    """With wide fonts of each name that figures list but their own; they do change what the library draws by itself."""
    (tmp_path / "wide/.fonts").mkdir(parents=True)
    font = TTFont(figures._FONTS / "EpsilometerSans-Bold.ttf")
    font["OS/2"].usWeightClass = 400
    for glyph, (width, bearing) in font["hmtx"].metrics.items():
        font["hmtx"].metrics[glyph] = (2 * width, bearing)
    for family in ("Helvetica Neue", "Helvetica", "Arial", "Liberation Sans"):
        for record in font["name"].names:
            record.string = family
        font.save(tmp_path / f"wide/.fonts/{family}.ttf")

    def pictures(home: str) -> list[str]:
        environment = os.environ | {"HOME": str(tmp_path / home), "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", DRAW], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()

    plain, wide = pictures("plain"), pictures("wide")
    assert plain[:2] == wide[:2]
    assert plain[2] != wide[2]
