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
def refused(
    code: str, *values: str, kind: type[UserError] = UserError, whole: bool = True
) -> Iterator[pytest.ExceptionInfo[UserError]]:
    """Expect an error of this code, which is OWN-1 for errors of components that tests write.

    values: names and numbers that the message must contain, in any order.
    kind: the class that the error must have.
    whole: if `sentences.toml` has the code, the whole message must equal the one there. False for a test with other
    values.
    """
    with pytest.raises(kind) as raised:
        yield raised
    said = str(raised.value)
    assert raised.value.code == code, f"expected {code}, got {raised.value.code}: {said}"
    assert not (absent := [value for value in values if value not in said]), f"{absent} not in: {said}"
    assert not whole or said == SENTENCES.get(code, said)
