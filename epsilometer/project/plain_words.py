"""A mechanism's description in plain words: the paragraph of its file's docstring that begins with `BEGINNING`.

The file is parsed, not imported. Docstrings are not in the record of a result's code, so editing one makes no result
stale.
"""

from __future__ import annotations

import ast
from pathlib import Path

from epsilometer.core.imports import syntax

BEGINNING = "In plain words it "
FILE = Path("data/resources/plain_words.json")  # descriptions by mechanism, written by stage `resources`


def plain_words(file: Path) -> str | None:
    """Return the description of the mechanism in a file (`replaces each word by ...`); None if the file has none.

    Raises UserError if the file is missing or is not Python.
    """
    syntax(file)  # its errors name the file
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    paragraphs = (" ".join(paragraph.split()) for paragraph in docstring.split("\n\n"))
    said = next((each for each in paragraphs if each.startswith(BEGINNING)), None)
    return None if said is None else said.removeprefix(BEGINNING).removesuffix(".")
