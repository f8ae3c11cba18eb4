"""Chat models behind an OpenAI-compatible endpoint: one answer for each of many conversations.

The environment variables OPENAI_BASE_URL and OPENAI_API_KEY hold the endpoint's address and key; callers may pass
another address. Logs, errors and the cache of answers contain neither address nor key, except that errors state the
URL's host. `endpoint` describes how answers are cached, and how failed requests are repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilometer.core.errors import UserError
from epsilometer.core.flaws import Flaw, stated
from epsilometer.models.answers import Completion
from epsilometer.models.endpoint import HASHED, Address, Endpoint, api_key, key_of
from epsilometer.models.spending import Forecast, Spending
from epsilometer.runtime.withholding import fingerprint

if TYPE_CHECKING:
    import httpx2
    from openai import OpenAI

Message = Mapping[str, str]  # role and content

# Suffix that an endpoint may add to the requested model's name: a date, or the revision of a hub model.
_SNAPSHOT = re.compile(r"(@.+|-\d{4}(-?\d{2}-?\d{2})?)?")


class Chat:
    """One model at one endpoint, with a cache of its answers.

    model:    the model's name at the endpoint. An answer by another model is an error.
    store, workers, timeout, spending: as in `Endpoint`.
    url:      the endpoint's address; None: OPENAI_BASE_URL.
    revision: the user's label for the endpoint's current state. With a new label, every question is sent again.
    stream:   True to request answers as server-sent events. Each stream is read to its end.

    Raises UserError if the URL or OPENAI_API_KEY is missing or unusable.
    """

    def __init__(
        self,
        model: str,
        store: Path,
        workers: int = 8,
        timeout: float | None = None,
        *,
        url: str | None = None,
        revision: str = "",
        stream: bool = False,
        spending: Spending | None = None,
    ) -> None:
        self.model, self._stream = model, stream
        address, key = Address.of(url), api_key()
        self.host = address.host
        place = {name: part for name, part in address.place.items() if name != "query"}
        place["path"] = place["path"].rstrip("/") + "/"  # the client library adds the slash, too
        place |= {"revision": revision} if revision else {}
        self._endpoint = Endpoint(
            address,
            key_of(model, place).hex(),
            store,
            form=f"chat completion; check that {address.called} names an OpenAI-compatible server, with its path",
            remedies={
                401: "check OPENAI_API_KEY",
                403: "check OPENAI_API_KEY and what it may use",
                404: f"check {address.called}, and that it serves {model!r}",
            },
            key=key,
            workers=workers,
            timeout=timeout,
            spending=spending,
            usage=_usage,
        )

    def complete(
        self,
        conversations: Sequence[Sequence[Message]],
        max_tokens: int,
        temperature: float | None = 0.0,
        seeds: Sequence[int] | None = None,
        keep: Callable[[str], str] = str,
        draws: Sequence[int] | None = None,
    ) -> list[Completion]:
        """Return the answer to each conversation. Equal conversations are sent once; cached answers are reused.

        max_tokens:  most tokens in an answer.
        temperature: 0 for the most likely answer; None for the endpoint's default.
        seeds:       one per conversation, sent to the endpoint. Answers are cached per seed.
        keep:        extracts the part of an answer to store and return, such as a verdict. All calls with one store
                     must use the same `keep`.
        draws:       one number per conversation, which is not sent. Answers are cached per number, so that the same
                     conversation can be answered several times.

        Raises UserError as `Endpoint.collect` does, and if another model answers.
        """
        requests = self._requests(conversations, max_tokens, temperature, seeds)
        keys = self._keys(requests, draws)

        def send(client: OpenAI, request: dict[str, Any]) -> Completion:
            text, usage, model, flaws = (self._streamed if self._stream else self._whole)(client, request)
            tokens = _tokens(usage)
            if not _same(self.model, model):
                raise UserError(
                    f"the endpoint at {self.host} answered with the model {fingerprint(str(model))} {HASHED} instead "
                    f"of {self.model!r}; name the model that the endpoint serves",
                    "EPS-N015",
                )
            return Completion(keep(text), *tokens, str(model), flaws=flaws)

        answers = self._endpoint.collect(dict(zip(keys, requests, strict=True)), send, f"ask {self.model}")
        return [answers[key] for key in keys]

    def forecast(
        self,
        conversations: Sequence[Sequence[Message]],
        max_tokens: int,
        temperature: float | None = 0.0,
        seeds: Sequence[int] | None = None,
        draws: Sequence[int] | None = None,
    ) -> Forecast:
        """Return the cost forecast of `complete` with the same arguments. Sends nothing."""
        keys = self._keys(self._requests(conversations, max_tokens, temperature, seeds), draws)
        sizes = {
            key: sum(len(message["content"]) for message in messages)
            for key, messages in zip(keys, conversations, strict=True)
        }
        return self._endpoint.forecast(sizes, sizes, max_tokens)

    def _requests(
        self,
        conversations: Sequence[Sequence[Message]],
        max_tokens: int,
        temperature: float | None,
        seeds: Sequence[int] | None,
    ) -> list[dict[str, Any]]:
        return [
            {"messages": list(messages), "max_tokens": max_tokens}
            | ({} if temperature is None else {"temperature": temperature})
            | ({} if seeds is None else {"seed": seeds[i]})
            for i, messages in enumerate(conversations)
        ]

    def _keys(self, requests: Sequence[Mapping[str, Any]], draws: Sequence[int] | None) -> list[bytes]:
        streamed = {"stream": True} if self._stream else {}
        return [
            key_of(self._endpoint.source, {**request, **streamed} | ({} if draws is None else {"draw": draws[i]}))
            for i, request in enumerate(requests)
        ]

    def _whole(self, client: OpenAI, request: dict[str, Any]) -> tuple[str, Any, str | None, Flaw]:
        """Send a request; return the answer's text, token counts, model name and flaws."""
        answer = client.chat.completions.create(model=self.model, **request)
        choice = answer.choices[0]
        flaws = stated(choice.finish_reason, choice.message.refusal, _reasoning(choice.message))
        return choice.message.content or "", answer.usage, answer.model, flaws

    def _streamed(self, client: OpenAI, request: dict[str, Any]) -> tuple[str, Any, str | None, Flaw]:
        """Return the same as `_whole`, from a stream. Raises ValueError if the stream ends before the answer."""
        parts: list[str] = []
        usage, model, finished, flaws = None, None, False, Flaw.NONE
        events = client.chat.completions.create(
            model=self.model, stream=True, stream_options={"include_usage": True}, **request
        )
        for event in events:
            model, usage = event.model or model, event.usage or usage
            for choice in event.choices[:1]:
                parts.append(choice.delta.content or "")
                finished = finished or choice.finish_reason is not None
                flaws |= stated(choice.finish_reason, choice.delta.refusal, _reasoning(choice.delta))
        if not finished:
            raise ValueError("the stream ends early")
        return "".join(parts), usage, model, flaws


def _reasoning(message: Any) -> object:
    """Return the reasoning of a message. Servers name the field reasoning_content or reasoning."""
    return getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)


def _usage(response: httpx2.Response) -> tuple[int, int] | None:
    """Return the numbers of tokens of question and answer, as the response states them."""
    from epsilometer.models.replies import usage

    return usage(response, "usage.prompt_tokens", "usage.completion_tokens")


def _tokens(usage: Any) -> tuple[int, int]:
    """Return the endpoint's token counts of question and answer; 0 if not stated. Raises ValueError for bad counts."""
    counts = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
    if not all(isinstance(count, int) and 0 <= count < 1 << 63 for count in counts):  # the limit of SQLite's integers
        raise ValueError("no count of tokens")
    return counts


def _same(wanted: str, answered: str | None) -> bool:
    return answered is not None and answered.startswith(wanted) and bool(_SNAPSHOT.fullmatch(answered[len(wanted) :]))
