"""Leaks of a service when something fails, measured on a local service that fails on request."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from epsilometer.mechanisms.anonymisers.endpoint import Endpoint
from epsilometer.studies.deployed import probing
from epsilometer.studies.deployed.probing import KINDS, Pace, probe_failures
from tests.support.deployed import Deployed, Filter, deployed
from tests.support.refusals import refused

HOST = "127.0.0.1"
FAULTS = {
    "open": "reply", "stream": "stream", "error": "error", "header": "header", "other": "another's reply",
    "upstream": "sink",
}  # fmt: skip
RATE = 0.02


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Deployed]:
    monkeypatch.setattr("epsilometer.models.answers.user_cache_path", lambda name: tmp_path / name)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with deployed() as running:
        running.rewrite = lambda text: "a message came in"
        yield running


def chat(server: Deployed, **settings: object) -> Endpoint:
    return Endpoint(url=f"{server.url}/v1", model="m", **settings)  # type: ignore[arg-type]


def free_port() -> int:
    with socket.socket() as some:
        some.bind((HOST, 0))
        return int(some.getsockname()[1])


@pytest.mark.slow
def test_every_fault_of_two_percent_is_found_within_500_requests(server: Deployed) -> None:
    """Each fault on each text with probability .02, by the text, so the same in every run of this test.

    Among new texts each would be missed with probability .02 at most, which is that of streams: 200 can show one.
    """
    server.upstream = free_port()
    server.faults = lambda text: {fault for fault in FAULTS if random.Random(f"{fault} {text}").random() < RATE}
    table = probe_failures(chat(server), HOST, pace=Pace(500, 1000), sink=str(server.upstream))
    rows = {row["place"]: row for row in table.to_dicts()}
    assert len(server.texts) == 500
    assert {place for place, row in rows.items() if row["shown"]} == {*FAULTS.values()}
    for fault, place in FAULTS.items():
        wanted = {text for text in server.texts if fault in server.faults(text)}
        row = rows[place]
        assert 0 < row["shown"] <= len(wanted) + 25  # a text that passes into a reply may also be quoted by an error
        assert row["low"] <= row["rate"] <= row["high"]
    assert rows["reply"]["requests"] == rows["stream"]["requests"] == 250
    assert rows["error"]["whole"] == rows["error"]["shown"]  # the whole text was quoted
    assert rows["header"]["shown"] == sum("header" in server.faults(text) for text in server.texts)


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_fault_shows_at_its_place_and_at_no_other(server: Deployed, fault: str) -> None:
    server.upstream = free_port()
    server.faults = lambda text: {fault} if random.Random(text).random() < 0.2 else set()
    table = probe_failures(chat(server), HOST, pace=Pace(60, 1000), sink=str(server.upstream))
    shown = {row["place"] for row in table.to_dicts() if row["shown"]}
    assert shown == ({"reply", "stream"} if fault == "open" else {FAULTS[fault]})


@pytest.mark.slow
def test_nothing_is_found_in_a_thousand_requests_to_a_sound_service(server: Deployed) -> None:
    """It refuses what is malformed, and its upstream fails now and then."""
    server.upstream = free_port()
    table = probe_failures(chat(server), HOST, pace=Pace(1000, 1000), sink=str(server.upstream), alpha=0.05)
    assert len(server.texts) == 1000
    assert table["shown"].to_list() == [0] * 6
    sink = table.filter(place="sink").row(0, named=True)
    assert sink["unseen"] == pytest.approx(1 - 0.05 ** (1 / 1000))  # 0.3 % would have been seen with probability .95
    assert sink["high"] == pytest.approx(1 - 0.025 ** (1 / 1000), rel=1e-3)


@pytest.mark.slow
def test_a_filter_that_runs_out_of_time_and_lets_texts_pass_is_found(server: Deployed) -> None:
    """Long texts take longer than its limit, and others wait behind them. Nothing is injected."""
    server.rewrite = gateway = Filter(speed=20_000, limit=0.05, fails_open=True)
    rows = {row["place"]: row for row in probe_failures(chat(server), HOST, pace=Pace(500, 1000)).to_dicts()}
    assert sum("only makes it long" in text for text in gateway.late) == 50
    assert rows["reply"]["shown"] + rows["stream"]["shown"] == len(gateway.late)
    for place in ("reply", "stream"):
        assert rows[place]["whole"] == rows[place]["shown"] >= 25
        assert "long 25" in rows[place]["shapes"]


@pytest.mark.slow
def test_a_filter_that_runs_out_of_time_and_fails_is_sound(server: Deployed) -> None:
    server.rewrite = gateway = Filter(speed=20_000, limit=0.05, fails_open=False)
    assert probe_failures(chat(server), HOST, pace=Pace(1000, 1000))["shown"].sum() == 0
    assert len(gateway.late) >= 100  # all long texts


def test_a_service_that_writes_other_names_and_numbers_in_their_place_is_sound(server: Deployed) -> None:
    from faker import Faker

    fake = Faker("en_GB")
    fake.seed_instance(0)
    server.rewrite = lambda text: f"My name is {fake.name()}. Write to {fake.email()} or call {fake.phone_number()}."
    assert probe_failures(chat(server), HOST, pace=Pace(200, 1000))["shown"].sum() == 0


def test_nothing_is_sent_to_a_host_that_was_not_confirmed(server: Deployed) -> None:
    with refused("EPS-A107", "127.0"):
        probe_failures(chat(server), "localhost")
    assert not server.texts


def test_a_bound_ends_a_probe_whose_findings_are_reported(server: Deployed, capfd: pytest.CaptureFixture[str]) -> None:
    table = probe_failures(chat(server, max_requests=20), HOST, pace=Pace(100, 1000))
    assert len(server.texts) == 20
    assert table.filter(place="error")["requests"].item() == 20
    clean = table.filter(shown=0)
    assert clean["unseen"].to_list() == pytest.approx(
        [1 - 0.01 ** (1 / n) for n in clean["requests"]]
    )  # .01, as audits
    assert not clean.is_empty()
    assert "max_requests (20)" in capfd.readouterr().err


def test_planted_texts_alone_are_sent_no_faster_than_allowed(server: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a rate of 10, by a clock that stands still, the number n waits n / 10 seconds."""
    waits: list[float] = []
    event = SimpleNamespace(wait=waits.append, is_set=lambda: False, set=lambda: None)
    monkeypatch.setattr(probing, "threading", SimpleNamespace(Event=lambda: event))
    monkeypatch.setattr(probing, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda seconds: None))
    probe_failures(chat(server), HOST, pace=Pace(11, 10))
    assert sorted(waits) == pytest.approx([number / 10 for number in range(1, 11)])
    assert all("." in text and len(text) < 12_000 for text in server.texts)
    bodies = [body for body in server.bodies if body.get("stream")]
    assert len(bodies) == 5


def test_a_service_that_is_down_or_refuses_is_named(server: Deployed) -> None:
    down = Endpoint(url=f"http://127.0.0.1:{free_port()}/v1", model="m")
    with refused("EPS-A110", "127.0"):
        probe_failures(down, HOST, pace=Pace(5))
    server.faults = lambda text: {"302"}
    with refused("EPS-A111", "302"):
        probe_failures(chat(server), HOST, pace=Pace(5))
    assert len(server.texts) == 1
    with refused("EPS-A112"):
        probe_failures(chat(server), HOST, pace=Pace(5), sink="here")


def test_a_template_is_probed_as_it_is(server: Deployed, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text('body: {text: "{text}"}\nanswer: result.text\n')
    service = Endpoint(url=server.url, resource=tmp_path / "t.yaml")
    server.faults = lambda text: {"open"}
    rows = {row["place"]: row for row in probe_failures(service, HOST, pace=Pace(10, 1000)).to_dicts()}
    assert rows["reply"]["shown"] == rows["reply"]["whole"] == 9  # one request is malformed, and refused
    assert rows["reply"]["kinds"] == ", ".join(f"{kind} 9" for kind in sorted(KINDS))
    assert "stream" not in rows
