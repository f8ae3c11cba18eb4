"""Questions to an instruction-tuned language model, run locally or by a chat endpoint.

The model must answer with a JSON object of the requested form. If an answer cannot be parsed, the model is asked once
more, with a reminder. If the second answer cannot be parsed either, the result is None. At temperature 0 the model
gives its most likely answer, and equal questions are asked once. Above 0 the answer is random: a local model samples
its tokens from the caller's stream of random numbers, and an endpoint receives a seed from that stream. `chat` caches
an endpoint's answers on disk, so the run after a stopped run repeats no answered request.

A question that is too long for a local model is not asked, and its answer is empty.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.models.answers import store_path
from epsilometer.models.chat import Chat
from epsilometer.models.endpoint import check_environment

T = TypeVar("T")

REMINDER = "Answer with that JSON object and nothing else."


@dataclass(frozen=True)
class Question:
    """An instruction to a model, and the text that it applies to."""

    instruction: str
    text: str


class Assistant(ABC):
    """A model that answers questions. temperature: 0 for the most likely answer. longest: most tokens of an answer."""

    def __init__(self, temperature: float, longest: int) -> None:
        self.temperature, self.longest = temperature, longest

    @abstractmethod
    def answers(self, questions: Sequence[Question], noise: Noise, turn: int) -> list[str]:
        """Return the answer to each of n questions.

        turn: number of earlier calls with the same streams. Question i uses stream i of `noise`. A local model reads
        that stream from position `turn * longest` on; for an endpoint, the number at position `turn` gives the seed.
        """

    def ask(
        self, questions: Sequence[Question], read: Callable[[str], T | None], noise: Noise, turn: int = 0
    ) -> list[T | None]:
        """Return the answers parsed by `read`. If `read` returns None, the question is asked once more.

        turn: number of earlier calls of `ask` with the same streams. Each call of `ask` uses two turns of `answers`,
        one per attempt.
        """
        answers = [read(answer) for answer in self.answers(questions, noise, 2 * turn)]
        rows = np.array([i for i, answer in enumerate(answers) if answer is None], np.int64)
        again = [Question(f"{questions[i].instruction} {REMINDER}", questions[i].text) for i in rows]
        for i, answer in zip(rows, self.answers(again, noise[rows], 2 * turn + 1), strict=True):
            answers[i] = read(answer)
        return answers


class RemoteAssistant(Assistant):
    """A model behind an OpenAI-compatible endpoint, whose provider sees the texts.

    `models.chat` describes the environment variables for the endpoint. store: the file in which answers are cached.
    workers: the number of concurrent requests.
    """

    def __init__(self, model: str, store: Path, temperature: float, longest: int, workers: int = 8) -> None:
        super().__init__(temperature, longest)
        self._model, self._store, self._workers = model, store, workers

    @cached_property
    def _chat(self) -> Chat:
        return Chat(self._model, self._store, self._workers)

    def answers(self, questions: Sequence[Question], noise: Noise, turn: int) -> list[str]:
        """Return the same as `Assistant.answers`. The instruction is the system message, the text is the user's."""
        if not questions:
            return []
        conversations = [
            [{"role": "system", "content": question.instruction}, {"role": "user", "content": question.text}]
            for question in questions
        ]
        seeds = (noise.uniforms(1, turn)[:, 0] * 2**31).astype(np.int64).tolist() if self.temperature else None
        completions = self._chat.complete(conversations, self.longest, self.temperature, seeds)
        return [completion.text for completion in completions]


class LocalAssistant(Assistant):
    """An instruction-tuned causal model by id or folder.

    Instruction and text form one user message, since some chat templates have no system message. chat: False for a
    model without a chat template. Such a model continues the message.
    """

    def __init__(self, model: str | Path, temperature: float, longest: int, chat: bool = True) -> None:
        from epsilometer.models.causal_lm import CausalLM

        super().__init__(temperature, longest)
        self._model = CausalLM(model)
        self._tokens = self._model.chat_tokens if chat else self._model.tokens
        self._tokens([""])  # refuses a model without a chat template

    def answers(self, questions: Sequence[Question], noise: Noise, turn: int) -> list[str]:
        """Return the same as `Assistant.answers`."""
        distinct = list(dict.fromkeys(questions))
        prompts = self._tokens([f"{question.instruction}\n\n{question.text}" for question in distinct])
        place = {question: i for i, question in enumerate(distinct)}
        source = np.array([place[question] for question in questions], np.int64)
        if not self.temperature:
            alone = self._written(prompts, np.arange(len(distinct)), np.full((len(distinct), self.longest), 0.5))
            return [alone[i] for i in source]
        return self._written(prompts, source, noise.uniforms(self.longest, turn * self.longest))

    def _written(
        self, prompts: Sequence[list[int]], source: NDArray[np.int64], draws: NDArray[np.float64]
    ) -> list[str]:
        from epsilometer.models.generation import Softmax, TokenLaw, generate

        fit = np.array([len(prompt) <= self._model.room(self.longest) for prompt in prompts], bool)
        rows = np.flatnonzero(fit[source])
        law = Softmax() if self.temperature else TokenLaw(-1e4, 1e4, top_k=1)  # the most likely token
        outputs = generate(
            self._model,
            law,
            prompts,
            source[rows],
            epsilons=np.full(len(rows), self.temperature or 1.0),
            limits=np.full(len(rows), self.longest),
            draws=draws[rows],
        )
        written = [""] * len(source)
        for place, row in enumerate(rows):
            written[row] = self._model.text(outputs.row(place))
        return written


def read_object(answer: str, *keys: str) -> dict[str, Any] | None:
    """Return the JSON object in an answer if it has exactly these keys; None for any other answer.

    Reasoning before the answer, marked <think>...</think>, is ignored.
    """
    try:
        fields = json.loads(answer.rpartition("</think>")[2].strip(), object_pairs_hook=_no_key_twice)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) and {*fields} == {*keys} else None


def read_text(value: Any) -> str | None:
    """Return a string without outer white space; None if it is empty, not a string, or not writable to a file.

    Lone surrogates and null characters cannot be written.
    """
    if not isinstance(value, str) or not value.strip() or any("\ud800" <= c <= "\udfff" or c == "\0" for c in value):
        return None
    return value.strip()


def read_class(value: Any, classes: Sequence[str]) -> str | None:
    """Return the class with this name; else the only class that matches it if case is ignored; else None."""
    if not isinstance(value, str):
        return None
    named = [name for name in classes if name.casefold() == value.strip().casefold()]
    return value.strip() if value.strip() in named else named[0] if len(named) == 1 else None


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


@component
class AsksModel:
    """Settings of a component that asks a model, and a check that the model may see the texts.

    An endpoint's provider sees the texts. Requests are therefore sent only if `check` was called with public texts, or
    if `private_texts` is set. A project declares for each data set whether its texts are public.

    model:          an instruction-tuned causal model by id or folder; with `endpoint`, the model's name there.
    private_texts:  True if the endpoint may see texts that are not public.
    longest:        most tokens in an answer.
    workers:        number of concurrent requests to the endpoint.
    chat:           False for a local model without a chat template, which continues the instruction and text.
    """

    model: str
    endpoint: bool = False
    private_texts: bool = False
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    longest: PositiveInt = 512
    workers: PositiveInt = 8
    chat: bool = True

    def check(self, public: bool) -> None:
        """Raise UserError if an endpoint must not see the texts, or if the endpoint is not configured."""
        self._checked.clear()
        if not self.endpoint:
            return
        if not (public or self.private_texts):
            raise UserError(
                "texts of a data set that is not public must not reach an endpoint; set public: true for the data "
                "set, or private_texts: true if the endpoint may see them",
                "EPS-N003",
            )
        check_environment()
        self._checked.append(public)

    @property
    def assistant(self) -> Assistant:
        """The model to ask. Raises UserError for an endpoint that must not see the texts."""
        if not self._checked:
            self.check(public=False)
        return self._assistant

    @cached_property
    def _checked(self) -> list[bool]:
        return []

    @cached_property
    def _assistant(self) -> Assistant:
        if not self.endpoint:
            return LocalAssistant(self.model, self.temperature, self.longest, chat=self.chat)
        store = store_path("answers.sqlite")
        return RemoteAssistant(self.model, store, self.temperature, self.longest, workers=self.workers)
