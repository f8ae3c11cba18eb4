"""A code record changes with anything that can change a result, and with nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from epsilometer.core.syntax import parsed
from epsilometer.project import code

OWN = '''"""A mechanism."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import polars

import words
from parts import near, sampling
from parts.near import pick, weigh

if TYPE_CHECKING:
    from parts.deep.far import Far

LIMIT = 3  # words
"""Beyond this a text is truncated."""


@near.kept
def rewrite(text: str, epsilon: float, far: Far | None = None, most: int = 5) -> str:
    """Return another text."""
    from parts.deep import far as lazily

    chosen = pick(text, LIMIT + epsilon, most)
    shown = f"{chosen!r:>{most}} of {lazily.much(text)}"
    return sampling.draw(words.every(shown), np.log(2), "low", polars, math, weigh)
'''
FILES = {
    "own.py": OWN,
    "words.py": "def every(text):\n    return text.split()\n",
    "parts/__init__.py": '"""Parts."""\n',
    "parts/near.py": "from parts.other import swap\n\npick = swap\n\ndef weigh(of):\n    return 1\n",
    "parts/other.py": "def swap(of):\n    return of\n\npick = swap\n\ndef weigh(of):\n    return 2\n",
    "parts/sampling.py": "import parts.near as by\nfrom .other import pick as first\n\ndraw = first or by.pick\n",
    "parts/deep/far.py": "from .. import other\n\nclass Far:\n    much = other.swap\n",
}
SECOND, SECOND_TURNED = "import numpy as np\nimport polars\n", "import polars\nimport numpy as np\n"
LAZY = "from parts.deep import far as lazily\n"
Edit = tuple[str, str, str]  # a file, and text to replace there


def written(folder: Path, files: Mapping[str, str]) -> dict[str, object]:
    """The record of own.py in a folder with these files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return code.record([folder / "own.py"], folder)


def edited(files: Mapping[str, str], edits: list[Edit], moves: Mapping[str, str]) -> dict[str, str]:
    after = dict(files)
    for name, old, new in edits:
        assert old in after[name]
        after[name] = after[name].replace(old, new)
    return {moves.get(name, name): text for name, text in after.items()}


EQUAL: dict[str, tuple[list[Edit], dict[str, str]]] = {
    "docstrings": ([("own.py", "A mechanism.", "Other."), ("own.py", '    """Return another text."""\n', "")], {}),
    "a docstring of an attribute": ([("own.py", "Beyond this", "Above")], {}),
    "a comment": ([("own.py", "# words", "# of words")], {}),
    "line breaks and commas": ([("own.py", "LIMIT + epsilon, most)", "\n        (LIMIT + epsilon), most,\n    )")], {}),
    "quotes and joined strings": ([("own.py", '"low"', "'l' \"ow\""), ("own.py", '= f"{', '= "" f"{')], {}),
    "the order of imports": ([("own.py", "near, sampling", "sampling, near"), ("own.py", SECOND, SECOND_TURNED)], {}),
    "types alone": ([("own.py", "parts.deep.far import Far", "parts.deep.other import Far")], {}),
    "a moved module": (
        [
            ("parts/sampling.py", "from .other", "from .deep.other"),
            ("parts/near.py", "parts.other", "parts.deep.other"),
            ("parts/deep/far.py", "from .. import", "from . import"),
        ],
        {"parts/other.py": "parts/deep/other.py"},
    ),
    "a renamed module": (
        [("own.py", "near, sampling", "drawing, near"), ("own.py", "sampling.draw", "drawing.draw")],
        {"parts/sampling.py": "parts/drawing.py"},
    ),
    "a renamed module beside": (
        [("own.py", "import words", "import terms"), ("own.py", "words.every", "terms.every")],
        {"words.py": "terms.py"},
    ),
    "an import at the top": (
        [("own.py", f"    {LAZY}\n", ""), ("own.py", "import words\n", f"import words\n{LAZY}")],
        {},
    ),
}
OTHER: dict[str, tuple[list[Edit], dict[str, str]]] = {
    "a constant": ([("own.py", "LIMIT = 3", "LIMIT = 4")], {}),
    "the type of a constant": ([("own.py", "LIMIT = 3", "LIMIT = 3.0")], {}),
    "an operator": ([("own.py", "LIMIT + epsilon", "LIMIT - epsilon")], {}),
    "a string": ([("own.py", '"low"', '"high"')], {}),
    "a part of an f-string": ([("own.py", "chosen!r", "chosen!s")], {}),
    "a decorator": ([("own.py", "@near.kept\n", "")], {}),
    "a default": ([("own.py", "most: int = 5", "most: int = 6")], {}),
    "the name of a class": ([("parts/deep/far.py", "class Far", "class Near")], {}),
    "an edit further off": ([("parts/other.py", "return of\n", "return of * 2\n")], {}),
    "another module of equal names": (
        [("own.py", "parts.near import pick, weigh", "parts.other import pick, weigh")],
        {},
    ),
    "another name of a module": ([("parts/sampling.py", "pick as first", "weigh as first")], {}),
    "swapped names": ([("own.py", "pick, weigh", "pick as weigh, weigh as pick")], {}),
    "another module under a name": ([("own.py", "from parts.deep import far as", "from parts import near as")], {}),
    "a package under another name": ([("own.py", "import polars", "import numpy as polars")], {}),
    "an import of a package": ([("own.py", "import numpy as np", "import scipy as np")], {}),
}


@pytest.mark.parametrize("kind", EQUAL)
def test_prose_layout_and_places_leave_the_record(kind: str, tmp_path: Path) -> None:
    before = written(tmp_path / "before", FILES)
    assert written(tmp_path / "after", edited(FILES, *EQUAL[kind])) == before


@pytest.mark.parametrize("kind", OTHER)
def test_what_can_change_a_result_changes_the_record(kind: str, tmp_path: Path) -> None:
    before = written(tmp_path / "before", FILES)
    assert written(tmp_path / "after", edited(FILES, *OTHER[kind])) != before


def test_equal_modules_that_import_others_are_told_apart(tmp_path: Path) -> None:
    """Two modules without code of their own. Both are reached before and after."""
    files = {
        "own.py": "from one import run\nfrom two import run as other\n\nprint(run, other)\n",
        "one.py": "from left import run\n",
        "two.py": "from right import run\n",
        "left.py": "def run():\n    return 1\n",
        "right.py": "def run():\n    return 2\n",
    }
    swapped = files | {"own.py": files["own.py"].replace("one", "three").replace("two", "one").replace("three", "two")}
    first, other = written(tmp_path / "a", files), written(tmp_path / "b", swapped)
    assert first["files"] == other["files"]
    assert first["imports"] != other["imports"]


def test_competing_imports_count_with_their_places(tmp_path: Path) -> None:
    """Functions that import the same name from different modules."""
    text = "def f():\n    from one import run\n    return run\n\ndef g():\n    from two import run\n    return run\n"
    files = {"own.py": text, "one.py": "run = 1\n", "two.py": "run = 2\n"}
    swapped = text.replace("one", "three").replace("two", "one").replace("three", "two")
    assert written(tmp_path / "a", files) != written(tmp_path / "b", files | {"own.py": swapped})


@pytest.mark.parametrize("name", ["page.j2", "grammar.yaml"])
def test_templates_and_grammars_count_with_their_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a module of this package; also two whose contents are swapped."""
    monkeypatch.setattr(code, "PACKAGE", tmp_path)
    code._counts.cache_clear()
    files = FILES | {f"parts/{name}": "one", f"parts/other-{name}": "two"}
    before = written(tmp_path, files)
    assert written(tmp_path, {f"parts/{name}": "edited"}) != before
    assert written(tmp_path, {f"parts/{name}": "two", f"parts/other-{name}": "one"}) != before
    assert written(tmp_path, files) == before


def test_data_and_versions_of_packages_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = written(tmp_path, FILES)
    data = tmp_path / "relations.csv"
    records = []
    for text in ("a,b", "a,c!"):
        data.write_text(text)
        records.append(code.Reading(tmp_path).code([tmp_path / "own.py"], [data]).record)
    assert before["files"] != records[0]["files"] != records[1]["files"]
    monkeypatch.setattr(code, "_version", lambda name: "99")
    assert written(tmp_path, {})["packages"] == {"numpy": "99", "polars": "99"} != before["packages"]


SYNTAX = '''import a.b, c as d
from e import *
async def f(x, /, y: int = 1_000, *z, k=0xFF, **w) -> None:
    """Prose."""
    global g
    g = [i async for i in x if not i] + [*z, {**w, 1: 2}, {1, 2}, 1e3, 2j, b"\\xff", ..., None, True, "\\U0001fae8"]
    async with x as (p, q): del p[1:2, ::3]
    match x:
        case {"a": [1, *r], **s} | C(n=None) if (t := r): return lambda: (yield)
    try: assert x, f"{x=} {y!r:>{k:02}}" "tail" f'{x["a"]:%Y}' f"{{}}"
    except* ValueError as error: raise TypeError from error
    else: x @= await y
class C(B, metaclass=M): n: "int" = 1; m = a.b.c < d <= -1 if x else not y
'''
FROZEN = "bc8b9d7cd405371b"


def test_the_hash_is_that_of_any_other_python() -> None:
    """A version whose syntax trees differ would rerun every audit. Compared with the figure of 3.11, 3.12 and 3.13."""
    assert parsed(SYNTAX.encode()).tree[:16] == FROZEN


def test_blocks_for_types_alone_are_left_out_and_no_others() -> None:
    plain = parsed(b"import a\n")
    assert parsed(b"import a\nif TYPE_CHECKING:\n    import b\n") == plain
    assert (
        parsed(b"import typing\nif typing.TYPE_CHECKING:\n    import b\nelse:\n    import a\n").imports[1]
        == plain.imports[0]
    )
    assert len(parsed(b"if not TYPE_CHECKING:\n    import b\n").imports) == 1
