"""Every error that a user can cause has a unique code."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from epsilometer import UserError
from epsilometer.runtime.withholding import in_one_line
from tests.support.places import ROOT
from tests.support.refusals import SENTENCES

CODE = re.compile(r"EPS-[A-Z]\d{3}")


def _arguments() -> Iterator[tuple[str, list[ast.expr]]]:
    """Yield file and line, and the arguments of each error that the package makes."""
    for path in sorted((ROOT / "epsilometer").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in {"UserError", "LawError"}:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.args


def _codes() -> Counter[str]:
    return Counter(args[1].value for _, args in _arguments() if len(args) > 1 and isinstance(args[1], ast.Constant))


def test_every_error_has_a_code() -> None:
    assert [place for place, args in _arguments() if len(args) < 2] == []
    assert [code for code in _codes() if not CODE.fullmatch(code)] == []


def test_no_code_is_given_twice() -> None:
    taken = _codes()
    following = {
        letter: 1 + max(int(code[-3:]) for code in taken if code[4] == letter) for letter in {c[4] for c in taken}
    }
    assert [code for code, count in taken.items() if count > 1] == [], f"the next free numbers: {following}"


def test_written_sentences_belong_to_codes() -> None:
    assert set(SENTENCES) <= set(_codes())


def test_the_line_of_an_error_ends_with_its_code() -> None:
    assert in_one_line(UserError("k must be >= 2, got 1", "EPS-C012")) == "k must be >= 2, got 1 [EPS-C012]"
    assert in_one_line(UserError("k must be >= 2, got 1")) == "k must be >= 2, got 1"


def test_an_error_keeps_its_code_where_a_place_is_added() -> None:
    error = UserError("k must be >= 2, got 1", "EPS-C012").at("attacks.coin")
    assert (str(error), error.code) == ("attacks.coin: k must be >= 2, got 1", "EPS-C012")
