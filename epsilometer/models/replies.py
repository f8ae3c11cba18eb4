"""Parser of a service's replies: JSON, either whole or as server-sent events. A path selects a value of the JSON."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx2

from epsilometer.core.resource_limits import ENDPOINT_BYTES


class NoAnswer(ValueError):
    """A reply in an unexpected format. The message says what is wrong without quoting the reply."""


def is_stream(response: httpx2.Response) -> bool:
    """Return True if the reply consists of server-sent events."""
    kind: str = response.headers.get("Content-Type", "")
    return kind.partition(";")[0].strip().lower() == "text/event-stream"


def events(response: httpx2.Response) -> list[str]:
    """Return the data of each event of a stream, without the final "[DONE]"."""
    source = httpx2.EventSource(response, max_event_size=ENDPOINT_BYTES.value)
    return [event.data for event in source if not event.data.startswith("[DONE]")]


def objects(response: httpx2.Response) -> list[Any]:
    """Return the JSON values of a reply: one per event of a stream, or one in all. Data that is not JSON is omitted."""
    values = []
    for text in events(response) if is_stream(response) else [response.text]:
        try:
            values.append(json.loads(text))
        except (ValueError, RecursionError):
            continue
    return values


def status(response: httpx2.Response) -> int:
    """Return the status of a reply. If a reply has status 200 and an error in its body, return the error's status."""
    if response.status_code != 200 or b"error" not in response.content:
        return response.status_code
    for body in objects(response):
        if isinstance(body, dict) and (body.get("error") or body.get("object") == "error"):
            parts = [part for part in (body.get("error"), body) if isinstance(part, dict)]
            for code in (str(part.get(name)) for part in parts for name in ("code", "status")):
                if re.fullmatch("[45][0-9][0-9]", code):
                    return int(code)
    return response.status_code


def at(value: Any, path: str) -> Any:
    """Return the value at a path such as `choices.0.message.content`. Raises NoAnswer if it is missing."""
    for part in path.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (LookupError, TypeError, ValueError):
            raise NoAnswer(f"JSON without {path}") from None
    return value


def counted(body: Any, read: str, written: str) -> tuple[int, int] | None:
    """Return the numbers of tokens at the paths `read` and `written`; None if they are missing or invalid."""
    try:
        counts = at(body, read), at(body, written)
    except NoAnswer:
        return None
    return counts if all(isinstance(count, int) and 0 <= count < 1 << 63 for count in counts) else None


def usage(response: httpx2.Response, read: str, written: str) -> tuple[int, int] | None:
    """Return the last numbers of tokens that a whole or streamed reply states; None if it states none."""
    stated = [tokens for body in objects(response) if (tokens := counted(body, read, written)) is not None]
    return stated[-1] if stated else None
