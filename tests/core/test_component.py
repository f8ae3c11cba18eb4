"""How components of users' own files are found."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from epsilometer.core import component
from epsilometer.core.component import find, shipped
from tests.support.refusals import refused

OWN = "def rewrite(text, epsilon, rng):\n    return {}\n"


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    """They would have one module name, so the second would replace the first wherever the name is looked up."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(OWN.format(repr(folder)))
    first = find("mechanisms", str(tmp_path / "one/mine.py"), "rewrite")
    with refused("EPS-C009"):
        find("mechanisms", str(tmp_path / "two/mine.py"), "rewrite")
    assert first("", 1.0, None) == "one"


def test_an_edited_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after an edit that leaves its size and its second, by which Python takes a compiled copy for current."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    own = tmp_path / "mine.py"
    for word in ("before", "after-wards", "after-words"):
        own.write_text(OWN.format(repr(word)))
        os.utime(own, (1, 1))
        assert find("mechanisms", str(own), "rewrite")("", 1.0, None) == word


@pytest.mark.parametrize("lazily", [False, True], ids=["at once", "in a function"])
def test_two_helpers_of_one_name_are_refused(tmp_path: Path, lazily: bool) -> None:
    """Python keeps one module of a name, and looks in the first folder first, so the second would get the first's."""
    own = "def rewrite(text, epsilon, rng):\n    import {0}\n    return {0}.WORD\n"
    if not lazily:
        own = "import {0}\ndef rewrite(text, epsilon, rng):\n    return {0}.WORD\n"
    for folder, name in (("one", "mine"), ("two", "yours"), ("three", "theirs")):
        (tmp_path / folder).mkdir()
        helper = "helper" if folder != "three" else "helper_of_three"
        (tmp_path / folder / f"{name}.py").write_text(own.format(helper))
        (tmp_path / folder / f"{helper}.py").write_text(f"WORD = {folder!r}\n")
    (tmp_path / "three/helper.py").write_text("WORD = 'imported by nothing'\n")
    first = find("mechanisms", str(tmp_path / "one/mine.py"), "rewrite")
    with refused("EPS-C011", "one/helper.py", "two/helper.py", "yours.py"):
        find("mechanisms", str(tmp_path / "two/yours.py"), "rewrite")
    third = find("mechanisms", str(tmp_path / "three/theirs.py"), "rewrite")
    assert (first("", 1.0, None), third("", 1.0, None)) == ("one", "three")


def test_a_helper_package_of_one_name_is_refused(tmp_path: Path) -> None:
    """Also one without `__init__.py`, and one that a helper imports."""
    for folder in ("one", "two"):
        (tmp_path / folder / "parts").mkdir(parents=True)
        (tmp_path / folder / "parts/words.py").write_text(f"WORD = {folder!r}\n")
        (tmp_path / folder / f"helper_{folder}.py").write_text("from parts.words import WORD\n")
        (tmp_path / folder / f"own_{folder}.py").write_text(f"from helper_{folder} import WORD\n" + OWN.format("WORD"))
    assert find("mechanisms", str(tmp_path / "one/own_one.py"), "rewrite")("", 1.0, None) == "one"
    with refused("EPS-C011"):
        find("mechanisms", str(tmp_path / "two/own_two.py"), "rewrite")


def test_two_families_with_a_mechanism_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one of them would silently stand for both; what families share may have any name."""
    for place in ("mechanisms/words/tem.py", "mechanisms/words/shared/base.py", "mechanisms/tokens/shared/base.py"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    monkeypatch.setattr(component, "PACKAGE", tmp_path)
    assert list(shipped.__wrapped__("mechanisms")) == ["tem"]
    (tmp_path / "mechanisms/tokens/tem.py").touch()
    with refused("EPS-C007"):
        shipped.__wrapped__("mechanisms")


def test_attacks_of_two_kinds_may_have_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind is a folder, and a component is found in no other; messages call it by the first word alone."""
    for kind in ("membership", "reconstruction"):
        (tmp_path / "attacks" / kind / "shared").mkdir(parents=True)
        (tmp_path / "attacks" / kind / "likelihood.py").touch()
        (tmp_path / "attacks" / kind / "shared/helper.py").touch()
    monkeypatch.setattr(component, "PACKAGE", tmp_path)
    shipped.cache_clear()
    try:
        assert dict(shipped("attacks/membership")) == {"likelihood": tmp_path / "attacks/membership/likelihood.py"}
        with refused("EPS-C022", "likelyhood", "likelihood"):
            component.file("attacks/reconstruction", "likelyhood")
    finally:
        shipped.cache_clear()
