"""Questions to language models: an answer has the requested form, is requested once more, or counts as missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from epsilometer.core.randomness import Noise
from epsilometer.models.assistant import (
    REMINDER,
    AsksModel,
    LocalAssistant,
    Question,
    RemoteAssistant,
    read_class,
    read_object,
    read_text,
)
from tests.support import tiny_models
from tests.support.endpoint import Server
from tests.support.refusals import refused

QUESTIONS = [Question("say", text) for text in ("a b", "c", "a b", "d e f g h", "h")]


def read(answer: str) -> str | None:
    answer_object = read_object(answer, "text")
    return None if answer_object is None else read_text(answer_object["text"])


BROKEN = {
    "nothing": "",
    "prose": "Here is the rewritten text: she sang.",
    "prose around it": 'Sure! {"text": "she sang"} Hope that helps.',
    "a fence": '```json\n{"text": "she sang"}\n```',
    "half": '{"text": "she sa',
    "another key": '{"rewrite": "she sang"}',
    "one key more": '{"text": "she sang", "explanation": "no names"}',
    "the key twice": '{"text": "she sang", "text": "he sang"}',
    "no string": '{"text": ["she sang"]}',
    "a list": '[{"text": "she sang"}]',
    "white space": '{"text": " \\n\\u00a0"}',
    "half a character": '{"text": "she \\ud83d sang"}',
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_answer_is_none(answer: str) -> None:
    assert read(answer) is None


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ('{"text": "she sang"}', "she sang"),
        (' {"text": " she\\nsang "}\n', "she\nsang"),
        ('<think>{"text": "no"}</think>{"text": "\\ud83d\\ude00"}', "😀"),
    ],
)
def test_a_whole_answer_is_its_text(answer: str, text: str) -> None:
    assert read(answer) == text


def test_a_class_is_named_whatever_its_case_where_one_alone_is_meant() -> None:
    assert read_class(" male", ["Female", "Male"]) == "Male"
    assert read_class("US", ["US", "us"]) == "US"
    assert [read_class(value, ["US", "us", "UK"]) for value in ("Us", "U", "", None, 1, ["UK"])] == [None] * 6


def test_what_has_another_form_is_asked_once_more_and_nothing_is_asked_twice(server: Server, tmp_path: Path) -> None:
    server.reply = lambda message: '{"text": "yes"}' if message == "a b" else "no"
    remote = RemoteAssistant("m", tmp_path / "s", temperature=0, longest=9, workers=1)
    noise = Noise.named(5, "x")
    assert remote.ask(QUESTIONS, read, noise) == ["yes", None, "yes", None, None]
    system = [body["messages"][0]["content"] for _, _, body in server.requests]
    assert [message for message, _, _ in server.requests] == ["a b", "c", "d e f g h", "h", "c", "d e f g h", "h"]
    assert system == ["say"] * 4 + [f"say {REMINDER}"] * 3
    assert not any("seed" in body for _, _, body in server.requests)
    again = RemoteAssistant("m", tmp_path / "s", temperature=0, longest=9)
    assert again.ask(QUESTIONS[::-1], read, noise) == [None, None, "yes", None, "yes"]
    assert len(server.requests) == 7  # a stopped run asks nothing twice


def test_above_temperature_0_each_stream_has_answers_of_its_own(server: Server, tmp_path: Path) -> None:
    remote = RemoteAssistant("m", tmp_path / "s", temperature=0.1, longest=9, workers=1)
    noise = Noise.named(5, "x")
    remote.ask(QUESTIONS, lambda answer: answer, noise)
    seeds = {body["seed"] for _, _, body in server.requests}
    assert len(seeds) == len(server.requests) == 5
    assert all(0 <= seed < 2**31 for seed in seeds)
    remote.ask(QUESTIONS[3:], lambda answer: answer, noise[3:])
    assert len(server.requests) == 5
    remote.ask(QUESTIONS, lambda answer: answer, noise, turn=1)
    assert len(server.requests) == 10


@pytest.mark.parametrize("temperature", [0.0, 2.0])
def test_a_local_answer_depends_on_its_question_and_stream_alone(tmp_path: Path, temperature: float) -> None:
    model = LocalAssistant(tiny_models.save_gpt2(tmp_path / "gpt2", chat=tiny_models.CHAT), temperature, longest=6)
    noise = Noise.named(5, "x")
    together = model.answers(QUESTIONS, noise, 0)
    assert len(set(together)) > 2
    assert (together[0] == together[2]) == (temperature == 0)
    for i in (3, 0, 2):
        assert model.answers([QUESTIONS[i]], noise[np.array([i])], 0) == [together[i]]
    assert (model.answers(QUESTIONS, noise, 1) == together) == (temperature == 0)
    assert model.answers([Question("say", "a " * 90), QUESTIONS[3]], noise[2:4], 0) == ["", together[3]]
    assert model.answers([], noise[:0], 0) == []


def test_a_model_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    with refused("EPS-N014"):
        LocalAssistant(tiny_models.save_gpt2(tmp_path / "gpt2"), 0, longest=6)


def test_one_without_a_template_continues_instruction_and_text_where_that_is_wanted(tmp_path: Path) -> None:
    plain = tiny_models.save_gpt2(tmp_path / "plain")
    bare = tiny_models.save_gpt2(tmp_path / "bare", chat="{{ messages[0].content }}")  # the message without a frame
    framed = tiny_models.save_gpt2(tmp_path / "framed", chat=tiny_models.CHAT)
    noise = Noise.named(5, "x")
    own = LocalAssistant(plain, 0, longest=6, chat=False).answers(QUESTIONS, noise, 0)
    assert own == LocalAssistant(bare, 0, longest=6).answers(QUESTIONS, noise, 0)
    assert own == LocalAssistant(framed, 0, longest=6, chat=False).answers(QUESTIONS, noise, 0)
    assert own != LocalAssistant(framed, 0, longest=6).answers(QUESTIONS, noise, 0)


@pytest.mark.parametrize(
    "show",
    [
        lambda asker: asker.assistant,
        lambda asker: asker.check(public=False),
        lambda asker: [asker.check(public=True), asker.check(public=False)],
    ],
    ids=["never told", "not public", "public before"],
)
def test_texts_that_are_not_public_reach_no_endpoint(server: Server, show: Callable[[AsksModel], object]) -> None:
    with refused("EPS-N003"):
        show(AsksModel(model="m", endpoint=True))
    assert not server.requests
    assert isinstance(AsksModel(model="m", endpoint=True, private_texts=True).assistant, RemoteAssistant)
