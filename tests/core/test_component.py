"""How components of users' own files are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from epsilometer.core.component import find
from epsilometer.core.errors import UserError

OWN = "def rewrite(text, epsilon, rng):\n    return {}\n"


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    """They would have one module name, so the second would replace the first wherever the name is looked up."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(OWN.format(repr(folder)))
    first = find("mechanisms", str(tmp_path / "one/mine.py"), "rewrite")
    with pytest.raises(UserError, match=r"two files of one name .*one/mine.py and .*two/mine.py; rename one"):
        find("mechanisms", str(tmp_path / "two/mine.py"), "rewrite")
    assert first("", 1.0, None) == "one"


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    for word in ("before", "after-wards"):
        own.write_text(OWN.format(repr(word)))
        assert find("mechanisms", str(own), "rewrite")("", 1.0, None) == word
