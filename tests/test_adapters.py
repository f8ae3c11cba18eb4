"""The code in docs/how-to/adapters.md for others' anonymisers runs, and prints what the page shows."""

from __future__ import annotations

import re
import socket
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from epsilometer.corpora.synthetic import generate
from epsilometer.text.identifiers import _without_transformers
from tests.support.places import ROOT

PAGE = (ROOT / "docs/how-to/adapters.md").read_text()
SECTIONS = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
CAPITAL = re.compile(r"\b[A-Z]\w+")


def texts() -> list[str]:
    return generate("reviews", 300, 1)["text"].to_list()


def write_as_nemo_does(path: Path) -> None:
    """The columns of NeMo Anonymizer 0.4.0 after a redaction of capitalised words, without those of its judges."""
    reviews = texts()
    replaced = [CAPITAL.sub("[REDACTED_NAME]", text) for text in reviews]
    tagged = [CAPITAL.sub(lambda match: f"<{match[0]}, name>", text) for text in reviews]
    pl.DataFrame({"review": reviews, "review_replaced": replaced, "review_with_spans": tagged}).write_csv(path)


@pytest.fixture
def scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the page's beginning defines, in a folder with what it reads."""
    monkeypatch.chdir(tmp_path)
    write_as_nemo_does(tmp_path / "reviews_anonymized.csv")
    names: dict[str, Any] = {}
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    exec(compile(code, "page", "exec"), names)
    return names


def _refuse(*_: object, **__: object) -> None:
    raise AssertionError("a host was looked up")


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_prints_what_it_shows(section: str, scope: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    if section == "tau-eval":
        pytest.importorskip(
            "tau_eval.models", reason="tau-eval needs older datasets and transformers than our networks"
        )
    elif section in ("Presidio", "spaCy"):
        pytest.importorskip("presidio_anonymizer", reason="needs the extra anonymisers")
    elif section.startswith("A column pair"):
        pytest.importorskip("datasets", reason="needs the extra models")
    code, shown = (
        "".join(re.findall(rf"^```{kind}\n(.*?)^```", SECTIONS[section], re.MULTILINE | re.DOTALL))
        for kind in ("python", "text")
    )
    if section == "Presidio":
        with _without_transformers():
            import presidio_analyzer  # noqa: F401
        monkeypatch.setattr(socket, "getaddrinfo", _refuse)  # otherwise a list of domains would be fetched
    with redirect_stdout(StringIO()) as out:
        exec(
            compile(
                "import polars as pl\nfrom epsilometer.auditing.external import audit_recorded\n" + code, "page", "exec"
            ),
            scope,
        )
    assert out.getvalue() == shown


def test_nemo_writes_such_a_file(tmp_path: Path) -> None:
    """Its own redaction of entities that stand there as if detected, its own names of columns, its own writer."""
    engine = pytest.importorskip("anonymizer.engine.replace.strategies", reason="needs nemo-anonymizer")
    pandas = pytest.importorskip("pandas")
    from anonymizer import Redact
    from anonymizer.engine import constants
    from anonymizer.engine.io.writer import write_output
    from anonymizer.interface.anonymizer import _build_user_dataframe, _rename_output_columns

    entities = [
        [
            {"value": m[0], "label": "name", "start_position": m.start(), "end_position": m.end()}
            for m in CAPITAL.finditer(text)
        ]
        for text in texts()
    ]
    trace = pandas.DataFrame(
        {constants.COL_TEXT: texts(), constants.COL_FINAL_ENTITIES: [{"entities": some} for some in entities]}
    )
    trace = engine.apply_local_replace_strategy(trace, strategy=Redact())
    named = _rename_output_columns(trace, resolved_text_column="review")
    path = write_output(_build_user_dataframe(named, resolved_text_column="review"), tmp_path / "theirs.csv")
    write_as_nemo_does(tmp_path / "ours.csv")
    columns = ["review", "review_replaced"]
    assert pl.read_csv(path).select(columns).equals(pl.read_csv(tmp_path / "ours.csv").select(columns))
