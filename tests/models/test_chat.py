"""The endpoint client, tested with a local server that fails in every way an endpoint can."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from epsilometer.attacks.identification.judge import JudgeAttack
from epsilometer.core.attack import Context
from epsilometer.core.flaws import Flaw
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.models import answers, chat, endpoint
from epsilometer.models.answers import Completion
from epsilometer.models.chat import Chat
from epsilometer.models.endpoint_client import EndpointClient
from tests.support.endpoint import FAULTS, KEY, Server, told_when_late
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.waiting import LAST_RESORT, wait_for


def ask(*messages: str) -> list[list[dict[str, str]]]:
    return [[{"role": "user", "content": message}] for message in messages]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The requests that the client tries from now on."""
    tries: list[object] = []
    whole = EndpointClient._whole
    monkeypatch.setattr(
        EndpointClient, "_whole", lambda *arguments, **more: (tries.append(arguments), whole(*arguments, **more))[1]
    )
    return tries


def test_each_question_is_asked_once_and_kept(server: Server, tmp_path: Path) -> None:
    store = tmp_path / "made" / "answers.sqlite"
    answers = Chat("m", store).complete(ask("a", "b", "a", "c"), 5)
    assert answers == [Completion(f"re: {m}", 7, 3) for m in ("a", "b", "a", "c")]
    assert server.answered == {"a": 1, "b": 1, "c": 1}
    assert server.requests[0][2] == {
        "model": "m", "messages": [{"role": "user", "content": "a"}], "max_tokens": 5, "temperature": 0.0
    }  # fmt: skip
    assert Chat("m", store).complete(ask("c", "d", "b"), 5)[0] == Completion("re: c", 7, 3)
    assert server.answered == {"a": 1, "b": 1, "c": 1, "d": 1}
    Chat("m", store).complete(ask("a"), 6)
    Chat("n", store).complete(ask("a"), 5)
    assert server.answered["a"] == 3  # another length and another model give other requests
    assert Chat("m", store).complete([], 5) == []


def test_a_seed_makes_another_question(server: Server, tmp_path: Path) -> None:
    client = Chat("m", tmp_path / "s")
    client.complete(ask("a", "a", "a"), 5, temperature=0.7, seeds=[1, 2, 1])
    assert sorted(body["seed"] for _, _, body in server.requests) == [1, 2]
    assert server.requests[0][2]["temperature"] == 0.7


def test_only_what_is_to_be_kept_is_stored(server: Server, tmp_path: Path) -> None:
    answers = Chat("m", tmp_path / "s").complete(ask("private words"), 5, keep=lambda text: str(len(text)))
    assert answers[0].text == "17"
    assert b"private" not in (tmp_path / "s").read_bytes()


@pytest.mark.parametrize("count", [1 << 63, -1, 10**400, 7.5, None])
def test_a_count_of_tokens_that_is_none_is_no_answer(count: object, server: Server, tmp_path: Path) -> None:
    server.usage = {"prompt_tokens": 7, "completion_tokens": count, "total_tokens": 10}
    with refused("EPS-N033"):
        Chat("m", tmp_path / "s").complete(ask("a"), 5)


def test_no_more_requests_at_a_time_than_asked_for(server: Server, tmp_path: Path) -> None:
    three = threading.Barrier(3)
    # The first question is sent alone. None of the others is answered before three have been sent.
    server.reply = lambda message: message if message == "a" else f"{three.wait(LAST_RESORT)}"
    server.delay = 0.05  # time for a fourth
    Chat("m", tmp_path / "s", workers=3).complete(ask(*"abcdefghijklm"), 5)
    assert server.most_busy == 3


def test_after_every_fault_nothing_is_lost_and_nothing_is_answered_twice(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fault once; then some questions meet three in a row."""
    told_when_late(monkeypatch)
    faults = {fault: [fault] for fault in FAULTS}
    faults |= {"thrice": ["500", "reset", "429"], "malformed twice": ["page", "broken"], "fine": []}
    server.fault = lambda message, attempt: dict(enumerate(faults[message])).get(attempt)
    answers = Chat("m", tmp_path / "s", workers=16).complete(ask(*faults), 5)
    assert [answer.text for answer in answers] == [f"re: {message}" for message in faults]
    assert server.answered == dict.fromkeys(faults, 1)
    assert Counter(m for m, _, _ in server.requests) == {m: len(before) + 1 for m, before in faults.items()}
    first, second = (at for message, at, _ in server.requests if message == "429 after 1")
    assert second - first >= 1


@pytest.mark.parametrize("fault", ["429", "late", "reset", "page"])
def test_the_very_first_question_may_meet_a_fault(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    told_when_late(monkeypatch)
    server.fault = lambda message, attempt: fault if attempt == 0 else None
    assert Chat("m", tmp_path / "s").complete(ask("a"), 5)[0].text == "re: a"
    assert server.answered == {"a": 1}


@pytest.mark.parametrize(
    ("fault", "refusal"),
    [
        ("401", ("EPS-N031", "401", "OPENAI_API_KEY")),
        ("404", ("EPS-N031", "404", "OPENAI_BASE_URL", "'m'")),
        ("500", ("EPS-N031", "500")),
        ("reset", ("EPS-N031", "connection", "2")),
        ("late", ("EPS-N031", "2", "EPSILOMETER_ENDPOINT_SECONDS")),
        ("page", ("EPS-N033", "2")),
    ],
)
def test_a_lasting_fault_ends_in_words_and_the_next_run_goes_on(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, refusal: tuple[str, ...]
) -> None:
    monkeypatch.setattr(endpoint, "RETRIES", 1)
    monkeypatch.setattr(endpoint, "WHOLE", 2)
    server.fault = lambda message, attempt: fault if message == "bad" else None
    told_when_late(monkeypatch)
    with refused(*refusal) as caught:
        Chat("m", tmp_path / "s", workers=2).complete(ask("a", "b", "bad", "c"), 5)
    assert str(caught.value).startswith("the endpoint at 127.0.0.1 ")
    for hidden in (KEY, "/v1", str(server.server_address[1]), "bad"):
        assert hidden not in str(caught.value)
    assert server.answered["a"] == server.answered["b"] == 1
    server.fault = lambda message, attempt: None
    answers = Chat("m", tmp_path / "s").complete(ask("a", "b", "bad", "c"), 5)
    assert [answer.text for answer in answers] == ["re: a", "re: b", "re: bad", "re: c"]
    assert max(server.answered.values()) == 1


@pytest.mark.parametrize("status", ["302", "307"])
def test_a_redirect_carries_nothing_to_another_host(server: Server, tmp_path: Path, status: str) -> None:
    with Server() as other:
        threading.Thread(target=other.serve_forever, args=(0.01,), daemon=True).start()
        server.elsewhere = f"http://127.0.0.1:{other.server_port}/v1/chat/completions"
        server.fault = lambda message, attempt: status
        with refused("EPS-N031", status, "OPENAI_BASE_URL"):
            Chat("m", tmp_path / "s").complete(ask("a planted sentence"), 5)
        other.shutdown()
    assert len(server.requests) == 1
    assert other.connections == 0


@pytest.mark.parametrize("fault", ["silence", "drops", "drops of a header"])
def test_an_answer_that_never_ends_is_late(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Also where every read gets its byte in time; the request as a whole does not end."""
    monkeypatch.setattr(endpoint, "RETRIES", 1)
    tries = counted(monkeypatch)
    server.fault = lambda message, attempt: fault
    with refused("EPS-N031", "2"):
        Chat("m", tmp_path / "s", timeout=0.3).complete(ask("a"), 5)
    assert len(tries) == 4  # two attempts for the first question, and two after it is known to be late


def test_an_answer_without_end_does_not_fill_the_memory(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPSILOMETER_ENDPOINT_BYTES", "1000000")
    server.fault = lambda message, attempt: "flood"
    with refused("EPS-N037", "1000000"):
        Chat("m", tmp_path / "s").complete(ask("a"), 5)
    assert len(server.requests) == 1


def test_a_compressed_answer_is_refused(server: Server, tmp_path: Path) -> None:
    """It may be a thousand times as large; the endpoint was asked to send none."""
    server.fault = lambda message, attempt: "gzip"
    with refused("EPS-N036", "127.0"):
        Chat("m", tmp_path / "s").complete(ask("a"), 5)


def test_nobody_else_reads_the_answers(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither new ones, nor those that lay there for all to read, nor what SQLite puts beside them."""
    monkeypatch.setattr(answers, "user_cache_path", lambda name: tmp_path / "cache" / name)
    folder = tmp_path / "cache" / "epsilometer"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    (folder / "answers").touch(0o644)
    before = os.umask(0o022)
    try:
        Chat("m", answers.store_path("answers")).complete(ask("a"), 5)
        with closing(answers.Store(answers.store_path("others"))):
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {"answers", "others", "others-wal"} <= set(modes)
    assert set(modes.values()) == {0o600}


def test_an_empty_answer_is_an_answer(server: Server, tmp_path: Path) -> None:
    server.reply = lambda message: ""
    assert Chat("m", tmp_path / "s").complete(ask("a"), 5) == [Completion("", 7, 3)]


FLAWED = {
    "filtered": ({"finish_reason": "content_filter", "message": {"content": None}}, Flaw.WITHHELD),
    "refused": ({"message": {"content": None, "refusal": "I cannot"}}, Flaw.WITHHELD),
    "long": ({"finish_reason": "length"}, Flaw.TRUNCATED),
    "thoughtful": ({"message": {"reasoning_content": "let me think"}}, Flaw.REASONED),
    "whole": ({}, Flaw.NONE),
}


def test_the_flaws_of_an_answer_are_read_and_stored(server: Server, tmp_path: Path) -> None:
    server.choice = lambda message: FLAWED[message][0]
    for _ in range(2):  # asked, then stored
        answers = Chat("m", tmp_path / "s").complete(ask(*FLAWED), 5)
        assert [answer.flaws for answer in answers] == [flaw for _, flaw in FLAWED.values()]
    assert [answer.text for answer in answers] == ["", "", "re: long", "re: thoughtful", "re: whole"]
    assert len(server.requests) == len(FLAWED)


def test_a_store_of_an_earlier_version_is_read(server: Server, tmp_path: Path) -> None:
    Chat("m", tmp_path / "s").complete(ask("a"), 5)
    with closing(sqlite3.connect(tmp_path / "s")) as store, store:
        for change in ("ALTER TABLE completions DROP COLUMN flaws", "ALTER TABLE completions DROP COLUMN hash"):
            store.execute(change)
        store.execute("DROP TABLE revisions")
        store.execute("PRAGMA user_version = 0")
    assert Chat("m", tmp_path / "s").complete(ask("a"), 5) == [Completion("re: a", 7, 3)]
    assert server.answered == {"a": 1}


@pytest.mark.parametrize("fault", ["429 in the body", "429 in a stream"])
def test_an_error_under_status_200_is_waited_for_like_a_real_one(server: Server, tmp_path: Path, fault: str) -> None:
    server.fault = lambda message, attempt: fault if attempt == 0 else None
    assert Chat("m", tmp_path / "s").complete(ask("a"), 5)[0].text == "re: a"
    (_, first, _), (_, second, _) = server.requests
    assert second - first >= 1  # its Retry-After


def test_a_lasting_error_under_status_200_has_its_status(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "RETRIES", 0)
    monkeypatch.setattr(endpoint, "FIRST_RETRIES", 0)
    server.fault = lambda message, attempt: "429 in the body"
    with refused("EPS-N031", "429"):
        Chat("m", tmp_path / "s").complete(ask("a"), 5)


def test_an_endpoint_with_another_model_is_refused(server: Server, tmp_path: Path) -> None:
    server.model = "gpt-4o-mini"
    with refused("EPS-N015", "127.0", "gpt-4o"):
        Chat("gpt-4o", tmp_path / "s").complete(ask("a"), 5)
    server.model = None
    Chat("gpt-4o", tmp_path / "s").complete(ask("a"), 5)
    assert len(server.requests) == 2  # the other model's answer was not kept


def test_answers_belong_to_the_endpoint_that_gave_them(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Server()
    other.reply = lambda message: f"another: {message}"
    threading.Thread(target=other.serve_forever, daemon=True).start()
    Chat("m", tmp_path / "s").complete(ask("a"), 5)
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{other.server_port}/v1")
    assert Chat("m", tmp_path / "s").complete(ask("a"), 5)[0].text == "another: a"
    other.shutdown()
    stored = (tmp_path / "s").read_bytes()
    assert str(other.server_port).encode() not in stored
    assert b"127.0.0.1" not in stored


def test_answers_of_two_revisions_are_never_mixed(server: Server, tmp_path: Path) -> None:
    server.model, server.reply = "m-2024-08-06", lambda message: f"old: {message}"
    Chat("m", tmp_path / "s").complete(ask("a", "b"), 5)
    server.model, server.reply = "m-2025-01-01", lambda message: f"new: {message}"
    assert [answer.text for answer in Chat("m", tmp_path / "s").complete(ask("a", "b"), 5)] == ["old: a", "old: b"]
    answers = Chat("m", tmp_path / "s").complete(ask("a", "b", "c"), 5)  # c shows that the revision is another
    assert [(answer.text, answer.revision) for answer in answers] == [(f"new: {m}", "m-2025-01-01") for m in "abc"]
    assert server.answered == {"a": 2, "b": 2, "c": 1}


def test_a_revision_that_changes_on_the_way_is_named(server: Server, tmp_path: Path) -> None:
    def reply(message: str) -> str:
        server.model = "m-2025-01-01"  # from the second question on
        return message

    server.model, server.reply = "m-2024-08-06", reply
    with refused("EPS-N032"):
        Chat("m", tmp_path / "s", workers=1).complete(ask("a", "b"), 5)
    answers = Chat("m", tmp_path / "s").complete(ask("a", "b"), 5)
    assert [answer.revision for answer in answers] == ["m-2025-01-01"] * 2
    assert server.answered == {"a": 2, "b": 1}


@pytest.mark.parametrize(
    ("wanted", "answered", "same"),
    [
        ("gpt-4o", "gpt-4o", True),
        ("gpt-4o", "gpt-4o-2024-08-06", True),
        ("gpt-4", "gpt-4-0613", True),
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B@main", True),
        ("gpt-4", "gpt-4o", False),
        ("gpt-4o", "gpt-4", False),
        ("gpt-4o", "gpt-4o-audio-2024-08-06", False),
        ("gpt-4o", None, False),
    ],
)
def test_which_names_mean_the_same_model(wanted: str, answered: str | None, same: bool) -> None:
    assert chat._same(wanted, answered) is same


def test_an_endpoint_that_nobody_serves_is_named_soon(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://user:{KEY}@127.0.0.1:{port}/secret/path")
    tries = counted(monkeypatch)
    with refused("EPS-N031", "127.0") as caught:
        Chat("m", tmp_path / "s").complete(ask("a", "b"), 5)
    assert len(tries) == 2
    assert not any(hidden in str(caught.value) for hidden in (KEY, "secret", "user", str(port)))


def test_an_endpoint_that_does_not_accept_is_named_soon(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener whose queue is full drops the packets, as a firewall does. By default 2 tries of 5 s."""
    monkeypatch.setattr(endpoint, "CONNECT", 0.2)
    with socket.socket() as deaf, socket.socket() as first, socket.socket() as two:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for filler in (first, two):
            filler.setblocking(False)
            filler.connect_ex(deaf.getsockname())
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{deaf.getsockname()[1]}/v1")
        tries = counted(monkeypatch)
        with refused("EPS-N031", "127.0"):
            Chat("m", tmp_path / "s").complete(ask("a"), 5)
        assert len(tries) == 2


@pytest.mark.parametrize(
    ("url", "key", "refusal"),
    [
        (None, KEY, ("EPS-N028", "OPENAI_BASE_URL")),
        ("http://h/v1", None, ("EPS-N034", "OPENAI_API_KEY")),
        ("  ", KEY, ("EPS-N028", "OPENAI_BASE_URL")),
        ("localhost:8000/v1", KEY, ("EPS-N029", "OPENAI_BASE_URL")),
        ("http://h:port/v1", KEY, ("EPS-N029", "OPENAI_BASE_URL")),
        ("http://[::1/v1", KEY, ("EPS-N029", "OPENAI_BASE_URL")),
        ("http://h/v1", f"{KEY}\n{KEY}", ("EPS-N035", "OPENAI_API_KEY")),
        ("http://h/v1", f"{KEY}…", ("EPS-N035", "OPENAI_API_KEY")),
    ],
)
def test_the_environment_is_checked_and_not_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str | None, key: str | None, refusal: tuple[str, ...]
) -> None:
    for name, value in (("OPENAI_BASE_URL", url), ("OPENAI_API_KEY", key)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    with refused(*refusal) as caught:
        Chat("m", tmp_path / "s")
    assert KEY not in str(caught.value)


def test_a_file_that_is_no_store_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("something else, long enough to be read as the head of a file" * 20)
    with refused("EPS-N002"):
        Chat("m", tmp_path / "s").complete(ask("a"), 5)


SCRIPT = """
import logging, sys, traceback
from pathlib import Path
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
from epsilometer.models.chat import Chat
from epsilometer.models.endpoint_client import EndpointClient
try:
    questions = [[{"role": "user", "content": message}] for message in sys.argv[2:]]
    found = Chat("m", Path(sys.argv[1]), workers=4).complete(questions, 5)
    print([answer.text for answer in found])
except Exception:
    traceback.print_exc()
"""


def test_a_killed_run_is_taken_up_where_it_was(server: Server, tmp_path: Path) -> None:
    """kill -9 with four requests under way: those may be asked again, what was stored may not."""
    messages = [f"q{i}" for i in range(40)]
    released, calls = threading.Event(), itertools.count()  # until then, no more than 15 are answered

    def reply(message: str) -> str:
        if next(calls) >= 15:
            released.wait(LAST_RESORT)
        return f"re: {message}"

    server.reply = reply
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path / "s"), *messages], cwd=ROOT,
                               stdout=subprocess.DEVNULL)  # fmt: skip
    wait_for("15 answers, and four more questions", lambda: len(server.requests) == 19, runs=process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    released.set()
    wait_for("the end of the requests that were under way", lambda: not server.busy)
    before = Counter(server.answered)
    with sqlite3.connect(tmp_path / "s") as store:
        stored = store.execute("SELECT count(*) FROM completions").fetchone()[0]
    assert 15 - 5 <= stored <= sum(before.values()) < 40
    answers = Chat("m", tmp_path / "s").complete(ask(*messages), 5)
    assert [answer.text for answer in answers] == [f"re: {message}" for message in messages]
    assert sum(server.answered.values()) == sum(before.values()) + 40 - stored
    assert sum(count > 1 for count in server.answered.values()) == sum(before.values()) - stored <= 4


@pytest.mark.parametrize("fault", ["401", "half"])
def test_the_key_shows_nowhere(server: Server, tmp_path: Path, fault: str | None) -> None:
    """With everything logged, and a server that quotes the key in its refusal."""
    server.fault = lambda message, attempt: fault if attempt < 1 else None
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / "s"), "a", "b"], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LAST_RESORT, text=True)  # fmt: skip
    assert ("UserError" in done.stdout) is (fault == "401")
    assert "DEBUG" in done.stdout
    assert KEY not in done.stdout
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert KEY.encode() not in written


def judged(attack: JudgeAttack, public: bool = True) -> np.ndarray:
    texts = ["show flights to boston", "play some jazz", "set an alarm", "rain in paris"]
    candidates = np.array([[0, 1], [2, 3], [0, 1], [1, 3]])
    context = Context(texts, None, 1.0, Noise.named(4, "judge"), public=public)
    return attack.guess(Rewrites(["boston", "paris", "boston", "nothing"]), candidates, context)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("epsilometer.models.answers.user_cache_path", lambda name: tmp_path / name)
    return tmp_path / "epsilometer" / "verdicts.sqlite"


def test_the_judge_behind_an_endpoint(server: Server, cache: Path) -> None:
    def reply(message: str) -> str:
        if "\nboston\n" in message:
            return "answer: [[1]]"
        if "\nparis\n" in message:
            return "answer: [[2]]" if "nothing else" in message else "It is number 2: rain in paris"
        return "I cannot say, but it may be set an alarm"

    server.reply = reply
    attack = JudgeAttack(model="m", endpoint=True, reading="generate", prices=(2.0, 10.0))
    guess = judged(attack)
    assert guess[:3].tolist() == [0, 1, 0]
    assert attack.tally(1.0) == {"asked": 3, "asked_again": 2, "at_random": 1, "prompt_tokens": 35,
                                 "completion_tokens": 15, "cost": (35 * 2 + 15 * 10) / 1e6}  # fmt: skip
    assert len(server.requests) == 5
    again = JudgeAttack(model="m", endpoint=True, reading="generate", prices=(2.0, 10.0))
    np.testing.assert_array_equal(judged(again), guess)
    assert again.tally(1.0) == attack.tally(1.0)
    assert len(server.requests) == 5
    written = cache.read_bytes()
    assert not any(word in written for word in (b"boston", b"paris", b"alarm", b"number"))


def test_private_texts_do_not_reach_an_endpoint_unless_allowed(server: Server, cache: Path) -> None:
    with refused("EPS-A003"):
        judged(JudgeAttack(model="m", endpoint=True, reading="generate"), public=False)
    assert not server.requests
    judged(JudgeAttack(model="m", endpoint=True, reading="generate", private_texts=True), public=False)
    assert server.requests


def test_an_endpoint_is_checked_before_the_audit(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    attack = JudgeAttack(model="m", endpoint=True, reading="generate")
    attack.check(public=True)
    with refused("EPS-A003"):
        attack.check(public=False)
    monkeypatch.delenv("OPENAI_API_KEY")
    with refused("EPS-N034"):
        attack.check(public=True)
    JudgeAttack().check(public=False)


@pytest.mark.slow
def test_against_transformers_serve(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real server of another hand, with a small random model; the same model says the same here."""
    pytest.importorskip("accelerate", reason="`transformers serve` needs accelerate")
    from epsilometer.attacks.identification.shared.judge_model import JudgeModel
    from tests.support.tiny_judges import save_model

    folder = save_model(tmp_path / "model", "llama")  # for Qwen3 the server expects Qwen3's own template
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = ["-c", "from transformers.cli.transformers import main; main()", "serve", str(folder)]
    options = ["--device", "cpu", "--port", str(port), "--chat-template-kwargs", '{"enable_thinking": false}']
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, *serve, *options], stdout=log, stderr=log)
    try:

        def listens() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        wait_for("the start of `transformers serve`", listens, runs=process)
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        from epsilometer.attacks.identification.shared.judge_prompt import message

        prompts = [
            ("boston", ["show flights to boston", "play some jazz"]),
            ("paris", ["set an alarm", "rain in paris"]),
        ]
        answers = Chat(str(folder), tmp_path / "s").complete(ask(*(message(*prompt) for prompt in prompts)), 8)
        local = JudgeModel(folder).replies(prompts, 8)
        assert [answer.text for answer in answers] == [answer.text for answer in local]
        assert [answer.prompt_tokens for answer in answers] == [answer.prompt_tokens for answer in local]
        attack = JudgeAttack(model=str(folder), endpoint=True, reading="generate")
        assert set(judged(attack)) <= {0, 1}
        assert attack.tally(1.0)["at_random"] == 4  # a random model never answers in the requested form
    finally:
        process.terminate()
        process.wait()
