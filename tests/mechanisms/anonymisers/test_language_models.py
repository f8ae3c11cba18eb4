"""Rewrites by a language model on request: the requests, the use of each answer, and what reaches the endpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from epsilometer.auditing.attributes.released import Released
from epsilometer.auditing.attributes.success import rewritten
from epsilometer.core.guarantees import NO_BUDGET
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.outcomes import FOUND, MISSED, NOTHING, PART, UNUSABLE
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.llm_adversarial import LLMAdversarial
from epsilometer.mechanisms.anonymisers.llm_rewrite import PROMPTS, LLMRewrite
from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Plan, make
from epsilometer.mechanisms.anonymisers.shared.language_model import FORM
from epsilometer.models.assistant import REMINDER
from epsilometer.models.classifier import FineTuning
from epsilometer.text.vectors import WordVectors
from tests.support import tiny_models
from tests.support.endpoint import Server
from tests.support.refusals import refused

TEXTS = ["she sang good", "he sang bad", "she sang bad", "she sang good"]


@pytest.fixture(scope="module")
def auxiliaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("auxiliaries"), ["gender"], ["mood"])


@pytest.fixture(scope="module")
def two_labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("two_labels"), ["gender", "mood"], [])


def trained(folder: Path, attributes: list[str], tasks: list[str]) -> Path:
    rows = [(f"{i:04}", ["she", "he"][i % 2], ["good", "bad"][i // 2 % 2]) for i in range(40)]
    table = pl.DataFrame(
        {
            "id": [i for i, _, _ in rows],
            "text": [f"{who} sang {how}" for _, who, how in rows],
            "gender": [{"she": "F", "he": "M"}[who] for _, who, _ in rows],
            "mood": [how for _, _, how in rows],
        }
    )
    plan = Plan("songs", attributes, tasks, ["linear"], FineTuning("nowhere"))
    make(folder, table, plan, WordVectors(["good", "bad", "she", "he", "sang"], np.eye(5)))
    return folder


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epsilometer.models.answers.user_cache_path", lambda name: tmp_path / name)


def rewrite(mechanism: LLMRewrite | LLMAdversarial, texts: list[str] = TEXTS, stream: str = "x") -> Rewrites:
    mechanism.check(public=True)
    return mechanism.rewrite(texts, NO_BUDGET, Noise.named(len(texts), stream))


def remote(auxiliaries: Path) -> dict[str, Any]:
    return {"resource": auxiliaries, "model": "m", "endpoint": True, "workers": 1}


def statuses(rewrites: Rewrites) -> list[str]:
    assert rewrites.outcomes is not None
    return list(rewrites.outcomes.status)


def replying(server: Server, reply: Callable[[str, str], str]) -> None:
    """Answers by the system's message and the user's; one request at a time."""
    server.reply = lambda message: reply(server.requests[-1][2]["messages"][0]["content"], message)


def test_the_request_names_the_classes_that_auxiliaries_predict(auxiliaries: Path, server: Server) -> None:
    server.reply = lambda message: json.dumps({"text": message.replace("she", "they")})
    rewrites = rewrite(LLMRewrite(**remote(auxiliaries)))
    assert rewrites.texts == ["they sang good", "he sang bad", "they sang bad", "they sang good"]
    assert statuses(rewrites) == [FOUND, MISSED, FOUND, FOUND]
    assert rewrites.outcomes is not None
    assert rewrites.outcomes.changed.tolist() == [1, 0, 1, 1]
    assert rewrites.outcomes.words.tolist() == [3] * 4
    assert rewrites.outcomes.asked.tolist() == [2] * 4  # one question for each label
    assert [body["messages"][0]["content"] for _, _, body in server.requests] == [
        f"You need to rewrite a text. Turn the gender of the author different from {gender}, but keep the mood of the "
        f"text as {mood}. {FORM}"
        for gender, mood in (("F", "good"), ("M", "bad"), ("F", "bad"))
    ]


def test_the_request_names_the_true_classes_where_they_are_told(auxiliaries: Path, server: Server) -> None:
    server.reply = lambda message: json.dumps({"text": message.replace("she", "they")})
    mechanism = LLMRewrite(**remote(auxiliaries))
    mechanism.check(public=True)
    rewrites = rewrite(mechanism.with_truths({"she sang good": {"gender": "M"}}), TEXTS[:2])
    assert [body["messages"][0]["content"].split(", ")[0][-1] for _, _, body in server.requests] == ["M", "M"]
    assert rewrites.outcomes is not None
    assert rewrites.outcomes.asked.tolist() == [1, 2], "of the mood alone, and of both"
    with refused("EPS-M027", "X"):
        mechanism.with_truths({"she sang good": {"gender": "X"}})


@pytest.mark.parametrize("name", [name for name in PROMPTS if name != "any"])
def test_published_requests_are_filled_in(auxiliaries: Path, server: Server, name: str) -> None:
    rewrite(LLMRewrite(**remote(auxiliaries), prompt=name), TEXTS[:1])
    request = server.requests[0][2]["messages"][0]["content"]
    assert request.startswith(PROMPTS[name][:30])
    assert "different from F, but keep" in request
    assert " good" in request
    assert "{" not in request


def test_an_unusable_answer_is_never_the_original(auxiliaries: Path, server: Server) -> None:
    server.reply = lambda message: "As an AI I cannot." if message == "he sang bad" else message
    rewrites = rewrite(LLMRewrite(**remote(auxiliaries)))
    assert rewrites.texts == [""] * 4
    assert statuses(rewrites) == [UNUSABLE] * 4
    assert server.answered == {"she sang good": 2, "he sang bad": 2, "she sang bad": 2}


def test_only_public_texts_pass_the_http_boundary(auxiliaries: Path, server: Server) -> None:
    server.reply = lambda message: json.dumps({"text": "x"})
    private = ["his private words", "she sang good"]
    for mechanism in (LLMRewrite(**remote(auxiliaries)), LLMAdversarial(**remote(auxiliaries))):
        with refused("EPS-N003"):
            mechanism.rewrite(private, NO_BUDGET, Noise.named(2, "x"))
    assert not server.requests
    rewrite(LLMRewrite(**remote(auxiliaries)))
    assert {message for message, _, _ in server.requests} == {*TEXTS}
    assert not any("private" in json.dumps(body) for _, _, body in server.requests)


def inferred(named: str, because: str = "she") -> str:
    return json.dumps({"gender": {"class": named, "because": because}})


def adversary(infer: Callable[[str], str], anonymise: Callable[[str, str], str]) -> Callable[[str, str], str]:
    return lambda system, text: anonymise(system, text) if "rewrite" in system else infer(text)


def by_pronoun(text: str) -> str:
    return inferred("f" if "she" in text else "M" if "he" in text.split() else "unknown", "its pronoun")


def test_it_infers_and_rewrites_until_nothing_is_inferred(auxiliaries: Path, server: Server) -> None:
    steps = {"she sang good": "she  sang well", "she  sang well": "they sang well"}
    replying(server, adversary(by_pronoun, lambda _, text: json.dumps({"text": steps.get(text, text)})))
    texts = ["she sang good", "they sang", "he sang bad"]
    rewrites = rewrite(LLMAdversarial(**remote(auxiliaries)), texts)
    assert rewrites.texts == ["they sang well", "they sang", "he sang bad"]
    assert statuses(rewrites) == [FOUND, NOTHING, MISSED]
    assert rewrites.outcomes is not None
    assert rewrites.outcomes.asked.tolist() == [3, 1, 4]
    requests = [body["messages"][0]["content"] for _, _, body in server.requests if "rewrite" in str(body)]
    assert 'A reader inferred: gender F, because of "its pronoun".' in requests[0]
    assert {body["temperature"] for _, _, body in server.requests} == {0.1}


def test_a_text_that_comes_back_as_it_was_is_missed_whatever_is_inferred_then(
    auxiliaries: Path, server: Server
) -> None:
    """At a temperature above 0 the model may name another class, or none, of the same text."""
    answers = iter(["F", "unknown", "F", "M"])
    copy = adversary(lambda _: inferred(next(answers)), lambda _, text: json.dumps({"text": text}))
    texts = ["she sang good ", "he sang bad"]
    for text in texts:
        replying(server, copy)
        rewrites = rewrite(LLMAdversarial(**remote(auxiliaries)), [text], stream=text)
        assert (rewrites.texts, statuses(rewrites)) == ([text], [MISSED])
        assert rewrites.outcomes is not None
        assert rewritten(Released([text], rewrites.texts, {}, outcomes=rewrites.outcomes)).tolist() == [False]


def test_a_class_that_only_the_rewrite_shows_is_not_hidden(server: Server, two_labels: Path) -> None:
    """At first no gender is inferred; of the rewrite it is."""

    def infer(text: str) -> str:
        gender, mood = ("unknown", "good") if text == "it sang good" else ("M", "unknown")
        return json.dumps({"gender": {"class": gender, "because": ""}, "mood": {"class": mood, "because": ""}})

    replying(server, adversary(infer, lambda *_: json.dumps({"text": "he sang"})))
    rewrites = rewrite(LLMAdversarial(**remote(two_labels)), ["it sang good"])
    assert (rewrites.texts, statuses(rewrites)) == (["he sang"], [PART])


def test_what_is_unusable_in_a_later_round_leaves_the_rewrite_before(auxiliaries: Path, server: Server) -> None:
    def anonymise(system: str, text: str) -> str:
        return json.dumps({"text": "she sang well"}) if text == "she sang good" else "no"

    replying(server, adversary(by_pronoun, anonymise))
    rewrites = rewrite(LLMAdversarial(**remote(auxiliaries)), ["she sang good", "he sang bad"])
    assert rewrites.texts == ["she sang well", ""]
    assert statuses(rewrites) == [PART, UNUSABLE]


@pytest.mark.parametrize(
    "answer",
    [
        "she",
        json.dumps({"gender": "F"}),
        json.dumps({"gender": {"class": "F"}}),
        json.dumps({"gender": {"class": "X", "because": ""}}),
        json.dumps({"gender": {"class": "F", "because": 1}}),
        json.dumps({"gender": {"class": ["F"], "because": ""}}),
        json.dumps({"sex": {"class": "F", "because": ""}}),
        json.dumps({"gender": {"class": "F", "because": ""}, "mood": {"class": "good", "because": ""}}),
    ],
)
def test_an_inference_of_another_form_is_unusable(auxiliaries: Path, server: Server, answer: str) -> None:
    server.reply = lambda message: answer
    rewrites = rewrite(LLMAdversarial(**remote(auxiliaries)), TEXTS[:1])
    assert (rewrites.texts, statuses(rewrites)) == ([""], [UNUSABLE])
    assert [REMINDER in body["messages"][0]["content"] for _, _, body in server.requests] == [False, True]


def test_a_drawn_class_is_named_whatever_is_inferred(auxiliaries: Path, server: Server) -> None:
    """Each of 60 texts shows either class with probability 1/2; as published always the other. False alarm 1e-6."""

    def anonymise(system: str, text: str) -> str:
        return json.dumps({"text": ("he" if "gender M instead" in system else "she") + text[text.index(" ") :]})

    replying(server, adversary(by_pronoun, anonymise))
    texts = [f"{['she', 'he'][i % 2]} sang {i}" for i in range(60)]
    rewrites = rewrite(LLMAdversarial(**remote(auxiliaries), aim="random"), texts)
    flipped = sum(a != b for a, b in zip(rewrites.texts, texts, strict=True))
    assert 12 <= flipped <= 48  # binomial(60, 1/2)
    assert statuses(rewrites).count(FOUND) == flipped
    assert statuses(rewrites).count(NOTHING) == 60 - flipped
    published = rewrite(LLMAdversarial(**remote(auxiliaries), aim="random", as_published=True), texts)
    assert all(a != b for a, b in zip(published.texts, texts, strict=True))
    again = rewrite(LLMAdversarial(**remote(auxiliaries), aim="random"), texts[:7])
    assert again.texts == rewrites.texts[:7]


def test_a_local_model_that_babbles_is_unusable(auxiliaries: Path, tmp_path: Path) -> None:
    model = tiny_models.save_gpt2(tmp_path / "gpt2", chat=tiny_models.CHAT, positions=256)
    for mechanism in (LLMRewrite, LLMAdversarial):
        rewrites = rewrite(mechanism(resource=auxiliaries, model=str(model), longest=5), TEXTS[:2])
        assert (rewrites.texts, statuses(rewrites)) == (["", ""], [UNUSABLE] * 2)
    assert rewrite(LLMRewrite(resource=auxiliaries, model=str(model), longest=5), []).texts == []


def test_a_prompt_has_to_name_what_is_to_be_hidden(auxiliaries: Path) -> None:
    with pytest.raises(ValidationError, match=r"\{hidden\}") as caught:
        LLMRewrite(**remote(auxiliaries), prompt="Rewrite this.")
    assert [item["loc"] for item in caught.value.errors()] == [("prompt",)]
