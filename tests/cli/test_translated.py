"""Calls of earlier versions in today's words."""

from __future__ import annotations

import shlex

import pytest

from epsilometer.cli.translated import translated


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("audit t.txt --trials 5", "audit t.txt --trials 5"),
        ("audit t.txt --units", "ask which_unit t.txt"),
        ("audit --worst t.txt", "ask worst_pair t.txt"),
        ("audit t.txt --units --worst", "ask which_unit t.txt --worst"),
        ("audit t.txt --identifiers all", "ask identifiers t.txt"),
        ("audit t.txt --identifiers a,b", """ask identifiers t.txt --with 'identifiers.kinds=["a", "b"]'"""),
        ("audit t --facts=a --among 5", """ask linking t --with 'linking.facts="a"' --with linking.among=5"""),
        ("audit t --rewrites r --keep b", """ask attribute t --rewrites r --with 'attribute.keep="b"'"""),
        ("audit --endpoint u --probe-failures --identifiers name", "probe --endpoint u --identifiers name"),
        ("gate t.txt --max-loss 1 --count-partly", "gate t.txt --limit which_text=1 --with identifiers.partly=true"),
        ("anonymize t.txt --attribute a --keep b", "anonymize t.txt --attribute a --keep b"),
        ("mechanisms --json", "list --json"),
        ("audit t.csv --facts ''", "audit t.csv --facts ''"),
        ("audit t.csv --facts", "ask linking t.csv --facts"),
    ],
)  # fmt: skip
def test_old_words_become_new_ones(old: str, new: str) -> None:
    assert translated(shlex.split(old)) == shlex.split(new)
