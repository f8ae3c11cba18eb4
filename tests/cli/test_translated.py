"""Calls of earlier versions in today's words."""

from __future__ import annotations

import shlex

import pytest

from epsilometer.cli.translated import translated
from tests.support.commands import call

CALLS = {
    "audit t.txt --trials 5": "audit t.txt --trials 5",
    "audit t.txt --units": "ask which_unit t.txt",
    "audit --worst t.txt": "ask worst_pair t.txt",
    "audit t.txt --units --worst": "ask which_unit t.txt --worst",
    "audit t.txt --identifiers all": "ask identifiers t.txt",
    "audit t.txt --identifiers a,b": """ask identifiers t.txt --with 'identifiers.kinds=["a", "b"]'""",
    "audit t --facts=a --among 5": """ask linking t --with 'linking.facts="a"' --with linking.among=5""",
    "audit t --rewrites r --keep b": """ask attribute t --rewrites r --with 'attribute.keep="b"'""",
    "audit --endpoint u --probe-failures --identifiers name": "probe --endpoint u --identifiers name",
    "gate t.txt --max-loss 1 --count-partly": "gate t.txt --limit which_text=1 --with identifiers.partly=true",
    "anonymize t.txt --attribute a --keep b": "anonymize t.txt --attribute a --keep b",
    "mechanisms --json": "list --json",
    "audit t.csv --facts": "ask linking t.csv --facts",
    "fetch p.yaml": "check params --fetch p.yaml",
    "check": "check params",
    "check p.yaml --json": "check params p.yaml --json",
    "check --mechanism m.py --epsilon 2": "check mechanism m.py --epsilon 2",
    "check --attack=a.py": "check attack a.py",
    "check metric m.py": "check metric m.py",
    "check --help": "check --help",
    "doctor": "check machine",
    "bench --full": "check estimators --full",
    "schema": "gate --schema",
    "schema dossier": "results dossier --schema",
    "results --out a.md": "results tables --out a.md",
    "results": "results tables",
    "results show": "results show",
    "results --help": "results --help",
    "export --csv --columns all": "results export --format csv --columns all",
    "history --mechanism tem": "results history tem",
    "results diff a b --exact": "results diff a b --table exact",
    "one-run s.csv --key k": "training one-run s.csv --key k",
    "canaries t.csv --separator ;": "training canaries t.csv --layout 'separator=;'",
    "repro rewrite --force": "pipeline repro rewrite --force",
    "audit t --no-header --encoding=cp1252": "audit t --layout header=false --layout encoding=cp1252",
    "audit t --units --no-quotes": "ask which_unit t --layout quotes=false",
    "gate --json g.json --markdown=g.md": "gate --report json=g.json --report markdown=g.md",
    "probe --endpoint u --max-cost 1 --prices .1,.2": "probe --endpoint u --set max_cost=1 --set 'prices=[.1, .2, 0]'",
    "ask tail t --prompt 'a {text}' --stream": """ask tail t --set 'prompt="a {text}"' --set stream=true""",
    "bounds m --text p.txt": "bounds m --texts p.txt",
}


@pytest.mark.parametrize(("old", "new"), CALLS.items())
def test_old_words_become_new_ones(old: str, new: str) -> None:
    call = translated(shlex.split(old))
    assert call.words == shlex.split(new)
    assert (call.notice() is None) == (old == new)


def test_a_notice_names_spellings_and_no_values() -> None:
    assert translated(shlex.split("export --csv --columns secret")).notice() == (
        "`export` is now `results export`, `--csv` is now `--format csv`; the old spelling still works"
    )
    assert translated(["audit", "t", "--facts", "secret"]).changed == {
        "audit": "ask linking",
        "--facts": '--with linking.facts="VALUE"',
    }


def test_an_old_spelling_works_with_one_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    _, today, silent = call(capsys, "gate", "--schema")
    code, out, said = call(capsys, "schema")
    assert (code, out, silent) == (0, today, "")
    assert said == "note: `schema` is now `gate --schema`; the old spelling still works\n"
