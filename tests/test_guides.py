"""What CONTRIBUTING.md and CHANGELOG.md name exists."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from tests.support.places import ROOT

CHANGELOG = (ROOT / "CHANGELOG.md").read_text()


def moved() -> list[tuple[str, str]]:
    """Each module that the changelog says has moved, and where to; `.name` stands in the package named before it."""
    rows = re.findall(r"^\| (`epsilometer\..*) \| (`epsilometer\..*) \|$", CHANGELOG, re.MULTILINE)
    pairs = []
    for row in rows:
        before, now = (_written_out(re.findall(r"`(.+?)`", names)) for names in row)
        if len(now) < len(before):  # "and the same name"
            now = [now[0] + name.rpartition(".")[2] for name in before]
        pairs += [(a, b) for a, b in zip(before, now, strict=True) if not re.search("[A-Z]", b)]
    return pairs


def _written_out(names: list[str]) -> list[str]:
    package = names[0].rpartition(".")[0]
    return [package + name if name.startswith(".") else name for name in names]


@pytest.mark.parametrize(("before", "now"), moved())
def test_modules_are_where_the_changelog_says(before: str, now: str) -> None:
    assert find_spec(now)
    package = before.rpartition(".")[0]
    assert package == "epsilometer.language" or not find_spec(before)
    assert not find_spec("epsilometer.language")
