"""HTTP services that receive a text and answer with a text. A template describes the request and the answer:

    method: POST                                  # or PUT, PATCH
    headers: {Authorization: "Bearer ${TOKEN}"}   # ${NAME} is an environment variable
    body: {text: "{text}", strength: "{epsilon}"} # JSON; a string is sent as plain text
    answer: result.text                           # path of the answer; without a path, the whole reply
    stream: false                                 # true: the reply is server-sent events with parts of the answer
    revision: model.version                       # path of the model's revision, if the reply has one
    tokens: [usage.read, usage.written]           # paths of the token counts, if the reply has them
    finish: stop_reason                           # path of the reason why the answer ended, if the reply has one

A value that consists only of `{epsilon}` is sent as a number. Only the template's headers and those that HTTP needs are
sent. `endpoint` describes how answers are cached, and how requests are repeated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from epsilometer.core import yaml_text
from epsilometer.core.errors import UserError
from epsilometer.core.flaws import Flaw, stated
from epsilometer.models.answers import Completion
from epsilometer.models.endpoint import Address, Endpoint, environment, key_of
from epsilometer.models.spending import Forecast, Spending

if TYPE_CHECKING:
    import httpx2
    from openai import OpenAI

TEXT, EPSILON = "{text}", "{epsilon}"
FORM = "application/x-www-form-urlencoded"
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_PLACES = re.compile(f"{re.escape(TEXT)}|{re.escape(EPSILON)}")
_CARRYING = ("host", "content-length", "content-type", "accept", "accept-encoding", "connection")


class Template(BaseModel):
    """A request to a service, with placeholders for the text and the privacy budget, and the path of the answer."""

    model_config = ConfigDict(extra="forbid")

    method: Literal["POST", "PUT", "PATCH"] = "POST"
    headers: dict[str, str] = {}
    body: Any
    answer: str | None = None
    stream: bool = False
    revision: str | None = None
    tokens: tuple[str, str] | None = None
    finish: str | None = None

    @classmethod
    def read(cls, path: Path) -> Template:
        """Read a template from a YAML file. Raises UserError, without quoting a secret value, if it is invalid."""
        try:
            content = yaml_text.load(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(
                f"the template {str(path)!r} cannot be read ({error.strerror}); check the path", "EPS-N066"
            ) from None
        except (yaml.YAMLError, UnicodeDecodeError):
            raise UserError(
                f"the template {path} is not readable YAML; put values that contain {{ or : in quotes", "EPS-N067"
            ) from None
        try:
            template = cls.model_validate(content if isinstance(content, dict) else {})
        except ValidationError as error:
            wrong = error.errors()[0]
            place = ".".join(map(str, wrong["loc"])) or "it"
            rule = wrong["msg"][:1].lower() + wrong["msg"][1:]
            raise UserError(
                f"the template {path} is invalid at {place}: {rule} (the value is not shown); correct it", "EPS-N068"
            ) from None
        template._check(path)
        return template

    def _check(self, path: Path) -> None:
        written = json.dumps(self.body)
        if TEXT not in written:
            raise UserError(
                f"the template {path} has no {TEXT} in its body, so no text would be sent; put {TEXT} where the text "
                "belongs",
                "EPS-N069",
            )
        if isinstance(self.body, str) and self.body.lstrip()[:1] in ("{", "[") and self.body.strip() != TEXT:
            raise UserError(
                f"the body of the template {path} is JSON in a string, which a text with a quotation mark would break; "
                "write the body as YAML, in keys and values",
                "EPS-N070",
            )
        if any(mark in name for name in self.headers for mark in "\r\n: "):
            raise UserError(f"the template {path} has a header with an invalid name; correct it", "EPS-N071")

    @property
    def has_budget(self) -> bool:
        """True if the body has a place for the privacy budget."""
        return EPSILON in json.dumps(self.body)

    def filled(self, text: str, epsilon: float, *, listed: bool = False) -> Any:
        """Return the body for a text and a privacy budget.

        listed: True to put the string that contains the text into a list. Such a malformed request tests the service.
        """
        return _filled(self.body, {TEXT: text, EPSILON: f"{epsilon:g}"}, epsilon, listed=listed)

    def sent_headers(self) -> dict[str, str]:
        """Return the headers with values of environment variables. Raises UserError if one is missing or unusable."""
        return {
            name: _VARIABLE.sub(lambda match: environment(match[1], "what a header of the template sends"), value)
            for name, value in self.headers.items()
        }


def _filled(part: Any, values: Mapping[str, str], epsilon: float, *, listed: bool) -> Any:
    if isinstance(part, dict):
        return {key: _filled(value, values, epsilon, listed=listed) for key, value in part.items()}
    if isinstance(part, list):
        return [_filled(value, values, epsilon, listed=listed) for value in part]
    if part == EPSILON:
        return epsilon
    if not isinstance(part, str):
        return part
    text = _PLACES.sub(lambda match: values[match[0]], part)
    return [text] if listed and TEXT in part else text


class Service:
    """A service at a URL, with a cache of its answers.

    revision: the user's label for the service's current state. With a new label, every question is sent again.
    store, workers, timeout, spending: as in `Endpoint`.

    Raises UserError for an unusable URL, and for a missing environment variable of a header.
    """

    def __init__(
        self,
        template: Template,
        url: str,
        store: Path,
        *,
        revision: str = "",
        workers: int = 8,
        timeout: float | None = None,
        spending: Spending | None = None,
    ) -> None:
        from epsilometer.models.replies import usage

        self._template, address, self._headers = template, Address.of(url), template.sent_headers()
        places, read_only = template.tokens, {"tokens"} | ({"finish"} if template.finish is None else set())
        self._endpoint = Endpoint(
            address,
            key_of(revision, {**address.place, "template": template.model_dump(mode="json", exclude=read_only)}).hex(),
            store,
            form="reply to the template",
            remedies=dict.fromkeys((401, 403), "check the headers of the template and the variables that they name"),
            workers=workers,
            timeout=timeout,
            spending=spending,
            usage=(lambda response: None) if places is None else (lambda response: usage(response, *places)),
            headers={*_CARRYING, *map(str.lower, template.headers)},
        )

    def complete(self, texts: Sequence[str], epsilons: Sequence[float], draws: Sequence[int]) -> list[Completion]:
        """Return the answer to each text at its privacy budget. Raises UserError as `Endpoint.collect` does.

        draws: one number per text, which is not sent. Answers are cached per number, so that a text can get several
        answers.
        """
        requests = self._requests(texts, epsilons, draws)
        answers = self._endpoint.collect(dict(requests), self._send, f"ask {self._endpoint.address.host}")
        return [answers[key] for key, _ in requests]

    def forecast(self, texts: Sequence[str], epsilons: Sequence[float], draws: Sequence[int], longest: int) -> Forecast:
        """Return the cost forecast of `complete`. Sends nothing. longest: most tokens per answer."""
        requests = self._requests(texts, epsilons, draws)
        sizes = {key: len(text) for (key, _), text in zip(requests, texts, strict=True)}
        return self._endpoint.forecast(sizes, sizes, longest)

    def _requests(
        self, texts: Sequence[str], epsilons: Sequence[float], draws: Sequence[int]
    ) -> list[tuple[bytes, Any]]:
        """Return the key and the body of each request."""
        bodies = [self._template.filled(text, epsilon) for text, epsilon in zip(texts, epsilons, strict=True)]
        source = self._endpoint.source
        return [(key_of(source, [body, draw]), body) for body, draw in zip(bodies, draws, strict=True)]

    def _send(self, client: OpenAI, body: Any) -> Completion:
        import httpx2

        call: Any = {"POST": client.post, "PUT": client.put, "PATCH": client.patch}[self._template.method]
        content, kind = written(self._headers, body)
        options = {"headers": {"Content-Type": kind, **self._headers}}
        response = call(self._endpoint.address.url, cast_to=httpx2.Response, content=content, options=options)
        return read(self._template, response)


def request(
    client: httpx2.Client, url: str, template: Template, headers: Mapping[str, str], body: Any
) -> httpx2.Request:
    """Return the HTTP request of a template with this body."""
    content, kind = written(headers, body)
    return client.build_request(template.method, url, headers={"Content-Type": kind, **headers}, content=content)


def written(headers: Mapping[str, str], body: Any) -> tuple[bytes, str]:
    """Return the encoded body and its content type. If the headers state no type, the body's form decides."""
    kind = next((value for name, value in headers.items() if name.lower() == "content-type"), None)
    if isinstance(body, str):
        return body.encode(errors="replace"), kind or "text/plain; charset=utf-8"
    if kind == FORM:
        return urlencode(body, doseq=True).encode(), kind
    return json.dumps(body).encode(), kind or "application/json"


def read(template: Template, response: httpx2.Response) -> Completion:
    """Return the answer in a reply. Raises NoAnswer for an unexpected format, UserError for an unexpected stream."""
    from epsilometer.models.replies import NoAnswer, at, events, is_stream, objects

    if is_stream(response) and not template.stream:
        raise UserError("the service answers with server-sent events; set stream: true in the template", "EPS-N072")
    if template.stream and not is_stream(response):
        raise NoAnswer("no server-sent events, although the template sets stream: true")
    if template.answer is None:
        parts = events(response) if template.stream else [response.text]
        return Completion("".join(parts), 0, 0)
    values = objects(response)
    if not values:
        raise NoAnswer(f"no JSON, from which the template reads {template.answer}")
    answers, flaws = [], Flaw.NONE
    for value in values:
        if template.finish is not None:
            with suppress(NoAnswer):
                flaws |= stated(at(value, template.finish))
        try:
            answers.append(at(value, template.answer))
        except NoAnswer:
            if not (template.stream or flaws & Flaw.WITHHELD):  # some events contain no part of the answer
                raise
    if not (answers or flaws & Flaw.WITHHELD):
        raise NoAnswer(f"events without {template.answer}")
    texts = [text for text in answers if text is not None or not (template.stream or flaws)]
    if not all(isinstance(text, str) for text in texts):
        raise NoAnswer(f"no text at {template.answer}")
    revision = "" if template.revision is None else str(at(values[-1], template.revision))
    return Completion("".join(texts), 0, 0, revision[:100], flaws=flaws)
