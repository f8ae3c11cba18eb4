"""A deployed service as a mechanism, tested with a local service."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

import epsilometer
from epsilometer.core.mechanism import build_mechanism, has_budget
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.endpoint import Endpoint
from epsilometer.models import endpoint as endpoints
from epsilometer.models.spending import Dry
from tests.support.deployed import Deployed, deployed, masked
from tests.support.refusals import refused
from tests.support.waiting import LAST_RESORT

SECRET, PLANTED = "sk-planted-0c9e", "Ida Planted flies to Oslo"
TEMPLATE = """
headers: {Authorization: "Bearer ${ANONYMISER_TOKEN}"}
body: {text: "{text}"}
answer: result.text
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Deployed]:
    monkeypatch.setattr("epsilometer.models.answers.user_cache_path", lambda name: tmp_path / name)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("ANONYMISER_TOKEN", SECRET)
    monkeypatch.setattr(endpoints, "RETRIES", 2)
    monkeypatch.setattr(endpoints, "PAUSE", 0.01)
    with deployed() as running:
        yield running


def service(server: Deployed, folder: Path, template: str = TEMPLATE, **settings: object) -> Endpoint:
    (folder / "template.yaml").write_text(template)
    own = {"url": f"{server.url}/anonymise", "resource": folder / "template.yaml", "private_texts": True}
    return Endpoint(**own | settings)  # type: ignore[arg-type]


def chat(server: Deployed, **settings: object) -> Endpoint:
    return Endpoint(**{"url": f"{server.url}/v1", "model": "m", "private_texts": True} | settings)  # type: ignore[arg-type]


def rewrite(mechanism: Endpoint, *texts: str, seed: int = 0, epsilon: float = 1.0) -> list[str]:
    return list(mechanism.rewrite(texts, epsilon, Noise.named(len(texts), seed)).texts)


def test_every_trial_of_a_text_is_a_request_of_its_own_and_is_asked_once(server: Deployed, tmp_path: Path) -> None:
    texts = ["one two three"] * 5 + ["four five"]
    assert rewrite(service(server, tmp_path), *texts) == [masked(text) for text in texts]
    assert server.answered == {"one two three": 5, "four five": 1}
    rewrite(service(server, tmp_path), *texts)  # the same draws
    rewrite(
        service(server, tmp_path), *texts[::-1]
    )  # new: the first draw for the last text, and the last draw for the first text
    assert server.answered == {"one two three": 6, "four five": 2}
    rewrite(service(server, tmp_path), *texts, seed=1)
    assert server.answered == {"one two three": 11, "four five": 3}
    rewrite(service(server, tmp_path, revision="2"), *texts)
    assert server.answered == {"one two three": 16, "four five": 4}


def test_a_request_has_the_headers_and_body_of_the_template_and_no_others(server: Deployed, tmp_path: Path) -> None:
    template = TEMPLATE.replace('{text: "{text}"}', '{text: "<{text}>", options: [{strength: "{epsilon}"}, 3]}')
    mechanism = service(server, tmp_path, template)
    assert has_budget(mechanism)
    rewrite(mechanism, "say {epsilon} and {text}", epsilon=2.5)
    assert server.bodies == [{"text": "<say {epsilon} and {text}>", "options": [{"strength": 2.5}, 3]}]
    headers = {name.lower(): value for name, value in server.headers[0].items()}
    assert headers.pop("authorization") == f"Bearer {SECRET}"
    assert {*headers} <= {
        "host", "content-length", "content-type", "accept", "accept-encoding", "connection"
    }  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_gets_one_prompt_and_is_read_whole(server: Deployed, stream: bool) -> None:
    mechanism = chat(server, prompt="Hide who: {text}", stream=stream, temperature=0.5, longest=9)
    assert rewrite(mechanism, "a b c d e f g") == [masked("Hide who: a b c d e f g")]
    (body,) = server.bodies
    assert body["messages"] == [{"role": "user", "content": "Hide who: a b c d e f g"}]
    assert (body["temperature"], body["max_tokens"], body.get("stream", False)) == (0.5, 9, stream)
    assert "1 requests were sent, at most 7 tokens read and 3 written" in mechanism.spending.said


def test_a_stream_of_a_service_is_joined(server: Deployed, tmp_path: Path) -> None:
    template = 'body: {text: "{text}", stream: true}\nanswer: result.text\nstream: true\n'
    assert rewrite(service(server, tmp_path, template), "a b c d e f g h") == [masked("a b c d e f g h")]
    with refused("EPS-N072"):
        rewrite(service(server, tmp_path, template.replace("\nstream: true", "")), "a b")


def test_faults_of_a_moment_are_waited_out(server: Deployed, tmp_path: Path) -> None:
    met: set[str] = set()

    def once(text: str) -> set[str]:
        new = text not in met
        met.add(text)
        return {"503"} if new else set()

    server.faults = once
    assert rewrite(service(server, tmp_path), "a b", "c d") == ["*** b", "*** d"]
    assert server.answered == {"a b": 1, "c d": 1}


@pytest.mark.parametrize(
    ("fault", "refusal"),
    [
        ("302", ("EPS-N031", "302")),
        ("503", ("EPS-N031", "503")),
        ("refused", ("EPS-N031", "422")),
        ("page", ("EPS-N033", "3", "result.text")),
        ("other path", ("EPS-N033", "3", "result.text")),
        ("hangs", ("EPS-N031", "3", "EPSILOMETER_ENDPOINT_SECONDS")),
    ],
)
def test_what_a_service_does_wrong_is_named_without_text_or_secret(
    server: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, refusal: tuple[str, ...]
) -> None:
    monkeypatch.setenv("EPSILOMETER_ENDPOINT_SECONDS", "1" if fault == "hangs" else f"{LAST_RESORT:.0f}")
    server.faults = lambda text: {fault}
    with refused(*refusal) as caught:
        rewrite(service(server, tmp_path), PLANTED)
    assert not any(hidden in str(caught.value) for hidden in (SECRET, "Planted", "/anonymise", str(server.server_port)))


def test_what_fails_half_way_keeps_its_answers_and_says_what_was_sent(
    server: Deployed, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    texts = [f"text number {i}" for i in range(20)]
    server.faults = lambda text: {"error"} if text.endswith("15") else set()
    with refused("EPS-N031", "500"):
        rewrite(service(server, tmp_path, workers=2), *texts)
    assert re.search(r"note: \d+ requests were sent, at most .*, to 127.0.0.1", capfd.readouterr().err)
    before = sum(server.answered.values())
    assert before >= 14
    server.faults = lambda text: set()
    assert rewrite(service(server, tmp_path), *texts) == [masked(text) for text in texts]
    assert server.answered == dict.fromkeys(texts, 1)


@pytest.mark.parametrize(
    ("template", "named"),
    [
        ("body: {text: none}\n", r"\{text\}"),
        ("answer: a\n", "at body:"),
        ('body: {text: "{text}"}\nmethod: GET\n', "at method:"),
        (f'body: "{{text}}"\nheaders: "Authorization: {SECRET}"\n', "at headers:"),
        ('body: "{text}"\nanswers: a\n', "at answers:"),
        ("body: {text: {text}}\n: [", "YAML"),
        ("""body: '{"text": "{text}"}'\n""", "JSON"),
    ],
)
def test_a_template_is_checked_before_anything_is_sent(
    server: Deployed, tmp_path: Path, template: str, named: str
) -> None:
    with pytest.raises(ValidationError, match=rf"template\.yaml.*{named}") as caught:
        service(server, tmp_path, template)
    assert SECRET not in str(caught.value)
    assert not server.texts


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"url": "localhost:80"}, ("EPS-C015", "URL", "http://localhost:8000/v1")),
        ({"url": f"http://user:{SECRET}@127.0.0.1/"}, ("EPS-C015", "URL", "header")),
        ({}, ("EPS-C015", "model", "resource")),
        ({"model": "m", "prompt": "Hide who wrote this"}, ("EPS-C015", "prompt", "{text}")),
        ({"model": "m", "max_cost": 1.0}, ("EPS-C015", "max_cost")),
    ],
)
def test_settings_are_checked_and_no_secret_is_quoted(settings: dict[str, object], refusal: tuple[str, ...]) -> None:
    with refused(*refusal) as caught:
        build_mechanism("endpoint", {"url": "http://127.0.0.1/v1"} | settings, None, "settings")
    assert SECRET not in str(caught.value)


def test_a_missing_variable_and_private_texts_are_refused_before_anything_is_sent(
    server: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refused("EPS-M004", "127.0"):
        rewrite(service(server, tmp_path, private_texts=False), PLANTED)
    monkeypatch.delenv("ANONYMISER_TOKEN")
    with refused("EPS-N034"):
        rewrite(service(server, tmp_path), PLANTED)
    monkeypatch.delenv("OPENAI_API_KEY")
    with refused("EPS-N034"):
        rewrite(chat(server), PLANTED)
    assert not server.texts
    public = service(server, tmp_path, private_texts=False, resource=None, model="m", url=f"{server.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    public.check(public=True)
    assert rewrite(public, "a b") == ["*** b"]


def test_a_dry_run_counts_what_is_left_and_sends_nothing(server: Deployed, tmp_path: Path) -> None:
    rewrite(service(server, tmp_path), "a" * 40)
    prices = {"prices": (1000.0, 2000.0, 0.5), "longest": 100}
    with pytest.raises(Dry) as caught:
        rewrite(service(server, tmp_path, dry=True, **prices), "a" * 40, "b" * 400)
    assert str(caught.value).startswith(
        "nothing was sent: 1 requests (1 of 2 answers are cached), about 100 tokens read (one per 4 "
        "characters), at most 100 written; cost 0.60 to 0.80"
    )
    assert len(server.texts) == 1


def test_no_bound_is_exceeded(server: Deployed, tmp_path: Path) -> None:
    """By requests before anything is sent; by tokens and cost when the next request may exceed them."""
    texts = [f"number {i}" for i in range(30)]
    with refused("EPS-N075", "29", "30"):
        rewrite(service(server, tmp_path, max_requests=29), *texts)
    assert not server.texts
    counts = TEMPLATE + "tokens: [usage.in, usage.out]\n"  # 7 and 3 tokens per request
    with refused("EPS-N074", "200", "16"):
        rewrite(service(server, tmp_path, counts, max_tokens=200, longest=20), *texts)
    requests = len(server.texts)
    assert 10 <= requests <= 20  # 10 tokens each, plus the reserve for one more request
    dear = service(server, tmp_path, counts, max_cost=0.5, prices=(0, 10_000, 0), longest=20)  # .03 per request
    with refused("EPS-N074", "0.5"):
        rewrite(dear, *(f"{text} now" for text in texts))
    assert 10 <= len(server.texts) - requests <= 16
    rewrite(service(server, tmp_path, counts), *texts)
    assert server.answered.most_common(1)[0][1] == 1


def test_attempts_that_may_have_been_billed_count(server: Deployed, tmp_path: Path) -> None:
    server.faults = lambda text: {"503"}
    mechanism = service(server, tmp_path, max_requests=2, longest=50)
    with refused("EPS-N074", "2", "30", "100"):
        rewrite(mechanism, "a b")
    assert len(server.texts) == 2
    elsewhere = service(server, tmp_path, longest=50)
    server.faults = lambda text: {"refused"}
    with refused("EPS-N031", "422"):
        rewrite(elsewhere, "a b")
    assert "0 tokens read and 0 written" in elsewhere.spending.said


def test_a_new_revision_is_asked_anew_and_not_mixed(server: Deployed, tmp_path: Path) -> None:
    template = TEMPLATE + "revision: version\n"
    rewrite(service(server, tmp_path, template), "a b", "c d")
    server.version, server.rewrite = "2", lambda text: "new"
    assert rewrite(service(server, tmp_path, template), "a b", "c d", "e f") == ["new"] * 3


def test_the_store_shows_neither_text_nor_address_nor_key(server: Deployed, tmp_path: Path) -> None:
    server.rewrite = lambda text: "nothing"
    rewrite(service(server, tmp_path), PLANTED)
    folder = tmp_path / "epsilometer"
    written = b"".join(path.read_bytes() for path in folder.iterdir())
    assert not any(hidden.encode() in written for hidden in ("Planted", SECRET, str(server.server_port), "/anonymise"))
    assert {path.name.partition("-")[0] for path in folder.iterdir()} == {"deployed.sqlite"}
    with sqlite3.connect(folder / "deployed.sqlite") as store:
        assert store.execute("SELECT count(*) FROM completions").fetchone()[0] == 1
    assert os.stat(folder / "deployed.sqlite").st_mode & 0o777 == 0o600


def test_it_is_audited_from_python(server: Deployed, tmp_path: Path) -> None:
    """One that hides nothing; 60 trials prove that."""
    server.rewrite = lambda text: text
    (tmp_path / "t.yaml").write_text(TEMPLATE)
    texts = [f"{who} wants {what}" for who in "abcdef" for what in ("tea", "milk", "rum", "water")]
    settings = {"url": server.url, "resource": tmp_path / "t.yaml", "private_texts": True}
    design = epsilometer.Design(temperature=0.0)
    table = epsilometer.audit(texts, "endpoint", attacks=["lexical"], trials=60, settings=settings, design=design)
    assert table["successes"].to_list() == [60]
    assert table["loss"].item() > 2
    assert len(server.texts) == 60
