"""A deployed service: an OpenAI-compatible chat endpoint with a prompt, or any HTTP service described by a template.

In plain words it sends each text to a service and releases the service's answer.

Every trial of a text is a separate request, since a service may answer the same text differently. The answer is cached
under the request and a number from the trial's random stream, so a repeated audit sends no request again
(`models.endpoint`). The audit's seed does not affect the service's own randomness. Nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import PositiveInt, field_validator, model_validator

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.flaws import Flaw, holds_reasoning, without_reasoning
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.mechanism import OneOfGrid, Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.models.answers import Completion, store_path
from epsilometer.models.chat import Chat
from epsilometer.models.endpoint import API_KEY, Address, api_key
from epsilometer.models.service import EPSILON, TEXT, Service, Template
from epsilometer.models.spending import Forecast, Money, Spending, Spends
from epsilometer.runtime.progress import note

if TYPE_CHECKING:
    import httpx2


@component
class Endpoint(Spends, OneOfGrid):
    """A service that rewrites texts. Its provider sees the texts, so texts that are not public need `private_texts`.

    url:            an OpenAI-compatible endpoint, such as http://localhost:8000/v1, whose key is OPENAI_API_KEY; with a
                    template, the URL of the service itself.
    resource:       the template's file (`models.service`); None for a chat.
    model:          model name, for chat endpoints.
    prompt:         prompt of a chat, with {text}, and with {epsilon} if the prompt states the privacy budget.
    stream:         True to request a chat's answers as server-sent events.
    temperature:    sampling temperature of a chat; None for the endpoint's default.
    separate_reasoning: True to remove the text between <think> and </think>; otherwise it is part of the rewrite.
    longest:        most tokens per answer. Chat requests state it, and the account reserves it before each request.
    revision:       the user's label for the current state of the service; under a new label every request is sent
                    again.
    private_texts:  True if the service may see texts that are not public.
    max_requests, max_tokens, max_cost, prices, dry, workers: as in `Spends`.
    """

    wants_all: ClassVar[bool] = True

    url: str
    resource: str | Path | None = None
    model: str | None = None
    prompt: str = TEXT
    stream: bool = False
    temperature: Money | None = None
    separate_reasoning: bool = False
    longest: PositiveInt = 1024
    revision: str = ""
    private_texts: bool = False

    @field_validator("revision", mode="before")
    @classmethod
    def _named(cls, value: object) -> str:
        return str(value)  # YAML parses some names as numbers or dates

    @property
    def shown_as(self) -> str:
        """The service's host, which results show."""
        return Address.of(self.url).host

    @model_validator(mode="after")
    def _one_kind(self) -> Endpoint:
        Address.of(self.url)
        if self.resource is not None:
            if self.model is not None or self.prompt != TEXT or self.stream or self.temperature is not None:
                raise UserError(
                    "model, prompt, stream and temperature are settings of a chat endpoint; with a template, write "
                    "them into the template",
                    "EPS-M001",
                )
            _ = self._template
        elif self.model is None:
            raise UserError(
                "neither model nor resource is set; set model for a chat endpoint, or resource to the template of "
                "another service",
                "EPS-M002",
            )
        if TEXT not in self.prompt:
            raise UserError(f"prompt must contain {TEXT}, which is replaced by the text", "EPS-M003")
        return self

    @property
    def has_budget(self) -> bool:
        """True if the prompt, or the template's body, has a field for epsilon."""
        return EPSILON in self.prompt if self._template is None else self._template.has_budget

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Nothing is claimed."""
        return None

    def check(self, public: bool) -> None:
        """Raise UserError if the service must not see these texts, or if an environment variable is missing."""
        self._checked.clear()
        if not (public or self.private_texts):
            raise UserError(
                "texts that are not public must not reach an endpoint; set private_texts (--private-texts) if "
                f"{Address.of(self.url).host} may see them, or public: true for a project's data set",
                "EPS-M004",
            )
        if self._template is None:
            api_key()
        else:
            self._template.sent_headers()
        self._checked.append(public)

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Request a rewrite for each text and epsilon.

        Raises UserError before the first request if the requests together would exceed a limit.
        """
        if not self._checked:
            self.check(public=False)
        budgets = np.repeat(np.asarray(epsilons, np.float64), len(texts)).tolist()
        draws = [int(u * 2**53) for noise in noises for u in noise.uniforms()[:, 0]]
        every = [*texts] * len(epsilons)
        forecast = self._forecast(every, budgets, draws)
        self.spending.check(forecast)
        if forecast.stored:
            note(
                f"{forecast.stored:,} of {forecast.questions:,} answers are cached from an earlier run; set another "
                "revision (--set revision=...) to request them again"
            )
        answers = self._answers(every, budgets, draws)
        rewrites = [self._rewrite(answer) for answer in answers]
        parts = [rewrites[i * len(texts) : (i + 1) * len(texts)] for i in range(len(epsilons))]
        return [
            Rewrites([text for text, _ in part], flaws=np.array([flaws for _, flaws in part], np.uint8))
            for part in parts
        ]

    def _rewrite(self, answer: Completion) -> tuple[str, int]:
        """Return the rewrite in an answer, and the answer's flaws."""
        if not (self.separate_reasoning and holds_reasoning(answer.text)):
            return answer.text, int(answer.flaws)
        return without_reasoning(answer.text), int(answer.flaws | Flaw.REASONED)

    def _forecast(self, texts: Sequence[str], epsilons: Sequence[float], draws: Sequence[int]) -> Forecast:
        if isinstance(self._service, Service):
            return self._service.forecast(texts, epsilons, draws, self.longest)
        return self._service.forecast(self._messages(texts, epsilons), self.longest, self.temperature, draws)

    def _answers(self, texts: Sequence[str], epsilons: Sequence[float], draws: Sequence[int]) -> list[Completion]:
        if isinstance(self._service, Service):
            return self._service.complete(texts, epsilons, draws)
        messages = self._messages(texts, epsilons)
        return self._service.complete(messages, self.longest, self.temperature, draws=draws)

    def _messages(self, texts: Sequence[str], epsilons: Sequence[float]) -> list[list[dict[str, str]]]:
        prompt = Template(body=self.prompt)
        return [
            [{"role": "user", "content": str(prompt.filled(text, epsilon))}]
            for text, epsilon in zip(texts, epsilons, strict=True)
        ]

    @cached_property
    def _template(self) -> Template | None:
        return None if self.resource is None else Template.read(Path(self.resource))

    @cached_property
    def _checked(self) -> list[bool]:
        return []

    @property
    def request(self) -> tuple[str, Template]:
        """The URL and the template of a request; chat requests are described by a template, too."""
        if self._template is not None:
            return self.url, self._template
        body: dict[str, Any] = {"model": self.model, "messages": [{"role": "user", "content": self.prompt}]}
        body |= {"max_tokens": self.longest} | ({} if self.temperature is None else {"temperature": self.temperature})
        key = {"Authorization": f"Bearer ${{{API_KEY}}}"}
        return f"{self.url.rstrip('/')}/chat/completions", Template(
            headers=key, body=body, tokens=("usage.prompt_tokens", "usage.completion_tokens")
        )

    def usage(self, response: httpx2.Response) -> tuple[int, int] | None:
        """Return the numbers of tokens read and written that an answer states; None if it states none."""
        from epsilometer.models.replies import usage

        places = self.request[1].tokens
        return None if places is None else usage(response, *places)

    @cached_property
    def spending(self) -> Spending:
        """The account of spending so far, with limits."""
        return self.account(self.longest)

    @cached_property
    def _service(self) -> Service | Chat:
        shared: dict[str, Any] = {"revision": self.revision, "workers": self.workers, "spending": self.spending}
        store, template = store_path("deployed.sqlite"), self._template
        if template is not None:
            return Service(template, self.url, store, **shared)
        return Chat(f"{self.model}", store, url=self.url, stream=self.stream, **shared)
