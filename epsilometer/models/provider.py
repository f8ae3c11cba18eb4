"""Candidate rewrites of a text by a language model, run locally or by a chat endpoint, at a temperature.

Candidate number i of a text depends only on the text and on i. A local model samples it from a random stream that the
text and i determine. An endpoint receives i as the seed, and its answers are cached on disk (`chat`). So the first k
candidates do not depend on the requested number. Equal texts have equal candidates, and no answered question is sent
again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.models.chat import Chat
from epsilometer.models.spending import Spending, Spends

INSTRUCTION = (
    "Rewrite the text below as one fluent, coherent English text of about the same length. Some of its words may have "
    "been replaced by unfitting ones; keep what meaning there is. Answer with the rewrite and nothing else.\n\nText: {}"
)
DOCUMENT = "Document : {}\nParaphrase of the document :"  # prompt for encoder-decoders, from DP-Prompt
MARKER = "{} >>>>>"  # prompt for decoder-only paraphrasers, from DP-Paraphrase
_ROWS = 1 << 12  # candidates sampled at a time


class Provider(ABC):
    """A model that writes candidates. prompt: the request, with {} in place of the text; None: the default prompt."""

    def __init__(self, prompt: str | None, temperature: float, longest: int) -> None:
        if prompt is not None and "{}" not in prompt:
            raise UserError(f"prompt must contain {{}}, which is replaced by the text, got {prompt!r}", "EPS-N061")
        self._prompt, self._temperature, self._longest = prompt, temperature, longest
        self._written: dict[str, list[str]] = {}

    def candidates(self, texts: Sequence[str], count: int) -> list[list[str]]:
        """Return the first `count` candidates of each text, with white space normalised."""
        wanted = [(text, i) for text in dict.fromkeys(texts) for i in range(len(self._written.get(text, [])), count)]
        for (text, _), written in zip(wanted, self._write(wanted), strict=True):
            self._written.setdefault(text, []).append(" ".join(written.split()))
        return [self._written.get(text, [])[:count] for text in texts]

    @abstractmethod
    def _write(self, wanted: Sequence[tuple[str, int]]) -> list[str]:
        """Return candidate number i of the text for each pair (text, i)."""


class RemoteProvider(Provider):
    """A model behind an OpenAI-compatible endpoint, whose provider sees the texts.

    `models.chat` describes the environment variables for the endpoint. store: the file in which answers are cached.
    spends: limits of requests and cost, and the number of concurrent requests.
    """

    def __init__(
        self, model: str, store: Path, prompt: str | None, temperature: float, longest: int, spends: Spends
    ) -> None:
        super().__init__(prompt, temperature, longest)
        self._model, self._store, self._spends = model, store, spends

    @cached_property
    def spending(self) -> Spending:
        """The account of the requests sent so far, with its limits."""
        return self._spends.account(self._longest)

    @cached_property
    def _chat(self) -> Chat:
        return Chat(self._model, self._store, self._spends.workers, spending=self.spending)

    def _write(self, wanted: Sequence[tuple[str, int]]) -> list[str]:
        if not wanted:
            return []
        fill = (self._prompt or INSTRUCTION).replace
        conversations = [[{"role": "user", "content": fill("{}", text)}] for text, _ in wanted]
        question = conversations, self._longest, self._temperature, [i for _, i in wanted]
        self.spending.check(self._chat.forecast(*question))
        return [answer.text for answer in self._chat.complete(*question)]


class LocalProvider(Provider):
    """An encoder-decoder or decoder-only model by id or folder. Prompts use its chat template if there is one."""

    def __init__(self, model: str | Path, prompt: str | None, temperature: float, longest: int) -> None:
        from epsilometer.models.causal_lm import CausalLM
        from epsilometer.models.generator import KINDS, architecture
        from epsilometer.models.seq2seq import Seq2Seq

        super().__init__(prompt, temperature, longest)
        kind = architecture(model)
        if kind not in ("seq2seq", "causal"):
            raise UserError(
                f"candidates need a model that generates text, but {str(model)!r} is {KINDS[kind]}; give another model",
                "EPS-N062",
            )
        self._model = Seq2Seq(model) if kind == "seq2seq" else CausalLM(model)
        self._chats = isinstance(self._model, CausalLM) and self._model.chats
        self._prompt = prompt or (INSTRUCTION if self._chats else DOCUMENT if kind == "seq2seq" else MARKER)
        if self._model.room(longest) < len(self._tokens("a")):
            raise UserError(
                f"max_new_tokens must leave room for the prompt in the window of {model} ({self._model.window} tokens "
                f"to read, {self._model.longest(0)} to write), got {longest}; set a smaller number",
                "EPS-N063",
            )

    def _write(self, wanted: Sequence[tuple[str, int]]) -> list[str]:
        from epsilometer.models.generation import Softmax, generate

        candidates: list[str] = []
        for start in range(0, len(wanted), _ROWS):
            part = wanted[start : start + _ROWS]
            texts = {text: place for place, text in enumerate(dict.fromkeys(text for text, _ in part))}
            uniforms = [Noise.named(1, "candidate", text, i).uniforms(self._longest) for text, i in part]
            outputs = generate(
                self._model,
                Softmax(),
                [self._prompted(text) for text in texts],
                np.array([texts[text] for text, _ in part]),
                epsilons=np.full(len(part), self._temperature),
                limits=np.full(len(part), self._longest),
                draws=np.concatenate(uniforms),
            )
            candidates += [self._model.text(outputs.row(row)) for row in range(len(part))]
        return candidates

    def _prompted(self, text: str) -> list[int]:
        """Return the tokens of the prompt with the text in it. A text that is too long loses words at its end."""
        words, room = text.split(), self._model.room(self._longest)
        while len(ids := self._tokens(" ".join(words))) > room:
            words = words[: -max(1, (len(ids) - room) // 4)]
        return ids

    def _tokens(self, text: str) -> list[int]:
        from epsilometer.models.causal_lm import CausalLM

        written = [str(self._prompt).replace("{}", text)]
        if self._chats and isinstance(self._model, CausalLM):
            return self._model.chat_tokens(written)[0]
        return self._model.tokens(written)[0]


@lru_cache(maxsize=1)
def local(model: str | Path, prompt: str | None, temperature: float, longest: int) -> LocalProvider:
    """Return the local provider with these settings. Equal calls share one loaded model and its candidates."""
    return LocalProvider(model, prompt, temperature, longest)
