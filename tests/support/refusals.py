"""Assertions on refused input: the error's code, and values that its message must contain."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from epsilometer import UserError

SENTENCES = tomllib.loads((Path(__file__).parent / "sentences.toml").read_text(encoding="utf-8"))


@contextmanager
def refused(code: str, *values: str) -> Iterator[pytest.ExceptionInfo[UserError]]:
    """Expect an error of this code. values: names and numbers that its message must contain, in any order.

    If `sentences.toml` has the code, the whole message must equal the one there.
    """
    with pytest.raises(UserError) as raised:
        yield raised
    said = str(raised.value)
    assert raised.value.code == code, f"expected {code}, got {raised.value.code}: {said}"
    assert not (absent := [value for value in values if value not in said]), f"{absent} not in: {said}"
    assert said == SENTENCES.get(code, said)
