"""What all figures share."""

from __future__ import annotations

from epsilometer.report import figures


def test_every_mechanism_has_a_style_of_its_own() -> None:
    names = [f"m{i:02}" for i in range(40)]
    styles = figures.styles(names)
    assert len({(s.colour, s.shape) for s in styles.values()}) == 40
    assert len({s.colour for s in list(styles.values())[:10]}) == 10
    assert figures.styles(reversed(names)) == styles
