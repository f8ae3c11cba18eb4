"""The notebook tutorial.ipynb, from tutorial.md; `make docs` writes it to .site/pages.

Text and code stand once, in tutorial.md. Cells have no outputs, so the notebook has the same bytes every time.
"""

from __future__ import annotations

import json
import re
from typing import Any

INSTALL = """import importlib.util

if importlib.util.find_spec("epsilometer") is None:  # on a hosted service: clone the repository here first
    %pip install --quiet './epsilometer[models]'"""


def notebook(page: str) -> str:
    """Returns the notebook of a page: its text, Python as it is, commands as `!command`; outputs are left out."""
    cells: list[dict[str, Any]] = []
    for text, language, code in re.findall(r"(.*?)(?:^```(\w+)\n(.*?)^```\n|\Z)", page, re.DOTALL | re.MULTILINE):
        if text.strip():
            cells.append({"cell_type": "markdown", "metadata": {}, "source": _lines(_unlinked(text.strip()))})
        if source := _source(language, code.rstrip()):
            cells.append(
                {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": _lines(source)}
            )
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _source(language: str, code: str) -> str:
    if language == "python":
        name = re.match(r"# (\w+\.py)\n", code)
        return f"%%writefile {name[1]}\n{code[name.end() :]}" if name else code
    if language == "sh":
        return INSTALL if code.startswith("pip install") else re.sub("^", "!", code, flags=re.MULTILINE)
    return ""


def _unlinked(text: str) -> str:
    """Without links to other pages, which are not beside the notebook on a hosted service."""
    return re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
