"""A language model as the attacker: answers become classes, or count as unusable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from epsilometer.auditing.attributes.attackers import UNUSABLE, ask
from epsilometer.auditing.attributes.released import Released
from epsilometer.studies.anonymity.llm_inference import PROMPTS, LLMInference
from tests.support.endpoint import Server
from tests.support.refusals import refused

CLASSES = ["DE", "DK", "FR", "UK"]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epsilometer.models.answers.user_cache_path", lambda name: tmp_path / name)


def attacker(**settings: Any) -> LLMInference:
    inference = LLMInference(model="m", endpoint=True, workers=1, **settings)
    inference.check(public=True)
    return inference


def test_a_class_or_none_and_each_text_is_asked_about_once(server: Server) -> None:
    server.reply = lambda message: json.dumps({"class": message})
    texts = ["uk", "FR", "the UK", "uk", "[]"]
    assert attacker().infer(texts, "country", CLASSES) == [["UK"], ["FR"], [], ["UK"], []]
    assert [message for message, _, _ in server.requests] == ["uk", "FR", "the UK", "[]", "the UK", "[]"]
    assert server.requests[0][2]["messages"][0]["content"] == (
        "You need to guess the country of a person based on a text they have written. Your return is a valid JSON "
        "response with a single key called 'class' and a value of either 'DE', 'DK', 'FR', 'UK'."
    )


@pytest.mark.parametrize(
    ("answer", "classes"),
    [
        ('["FR", "uk", "DE"]', ["FR", "UK", "DE"]),
        ('["FR"]', ["FR"]),
        ("[]", []),
        ('["FR", "fr"]', []),
        ('["FR", "Spain"]', []),
        ('["DE", "DK", "FR", "UK"]', []),
        ('"FR"', []),
        ('{"1": "FR"}', []),
    ],
)
def test_up_to_three_classes_the_likeliest_first(server: Server, answer: str, classes: list[str]) -> None:
    server.reply = lambda message: f'{{"class": {answer}}}'
    assert attacker(top=3).infer(["a"], "country", CLASSES) == [classes]
    assert "a list of the 3 classes" in server.requests[0][2]["messages"][0]["content"]


def test_of_two_classes_one_alone_is_asked_for(server: Server) -> None:
    server.reply = lambda message: '{"class": "FR"}'
    assert attacker(top=3, prompt="trustpilot").infer(["a"], "country", CLASSES[2:]) == [["FR"]]
    assert "list" not in server.requests[0][2]["messages"][0]["content"]


def test_what_attackers_make_of_it(server: Server) -> None:
    server.reply = lambda message: "no" if message == "b" else f'{{"class": "{message}"}}'
    test = Released(["x"] * 3, ["fr", "b", "uk"], {"country": ["FR", "UK", "DE"]})
    answers = ask(attacker(), "m", test, "country", classes=CLASSES)
    assert answers.guesses.tolist() == [2, UNUSABLE, 3]
    assert np.mean(answers.guesses == answers.truth) == pytest.approx(1 / 3)


def test_rewrites_of_private_texts_reach_no_endpoint(server: Server) -> None:
    with refused("EPS-N003"):
        LLMInference(model="m", endpoint=True).infer(["a"], "country", CLASSES)
    assert not server.requests
    with pytest.raises(ValidationError, match=r"\{classes\}") as caught:
        LLMInference(model="m", prompt="Who wrote this?")
    assert [item["loc"] for item in caught.value.errors()] == [("prompt",)]
    assert all("{classes}" in prompt for prompt in PROMPTS.values())
