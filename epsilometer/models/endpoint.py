"""Endpoints that answer questions. Every answer is stored as it arrives.

An answer is stored under a hash of the question, the endpoint and all other settings, with the model revision that
answered. A run that was stopped or killed therefore continues where it stopped. Answered questions are not sent again,
unless the endpoint now serves another revision. All answers of one call come from one revision. The answer to the first
new question states the current revision.

The client library repeats requests after status 408, 409, 429 and 5xx, a time-out or a broken connection. It waits as
long as the server asks (up to two minutes). If the server does not ask, it uses exponential back-off and jitter.
`endpoint_client` sends the requests, follows no redirect, and limits the time and size of an answer.
"""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from epsilometer.core import resource_limits
from epsilometer.core.errors import UserError
from epsilometer.models.answers import Completion, Store
from epsilometer.models.spending import Forecast, Spending
from epsilometer.runtime.progress import note, track
from epsilometer.runtime.withholding import fingerprint

if TYPE_CHECKING:
    from openai import OpenAI, OpenAIError

    from epsilometer.models.endpoint_client import Usage

CONNECT = 5.0  # seconds to connect
FIRST_RETRIES = 1  # retries of the first request, so that an unreachable endpoint is reported within 20 seconds
RETRIES = 6  # retries of later requests; they take about 24 s with their pauses, enough for a server to restart
WHOLE = 3  # most attempts to get a valid answer to a question
PAUSE = 1.0  # seconds before the second attempt, twice as many before the third

HASHED = "(hashed, since a server may echo a text there)"

BASE_URL, API_KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"


@dataclass(frozen=True)
class Address:
    """The address of an endpoint. Messages show `host`, and refer to the URL as `called`. They never show the URL."""

    url: str = field(repr=False)
    host: str
    called: str

    @classmethod
    def of(cls, url: str | None) -> Address:
        """Return the address of a URL; None means OPENAI_BASE_URL, which has no default.

        Raises UserError, without quoting the URL, if it is invalid or contains a password.
        """
        called = BASE_URL if url is None else "the endpoint's URL"
        text = (os.environ.get(BASE_URL, "") if url is None else url).strip()
        if not text:
            raise UserError(
                f"{BASE_URL} is not set; export the endpoint's URL, for instance http://localhost:8000/v1", "EPS-N028"
            )
        try:
            parts = urlsplit(text)
            host = parts.hostname if parts.scheme in ("http", "https") and parts.port != 0 else None
        except ValueError:  # a port that is not a number, or an unbalanced bracket
            host = None
        if not host:
            raise UserError(
                f"{called} is not a URL (its value is not shown); set it, for instance to http://localhost:8000/v1",
                "EPS-N029",
            )
        if url is not None and "@" in parts.netloc:
            raise UserError(
                f"{called} (its value is not shown) contains a user name or password, which files and process lists "
                "would reveal; send it in a header whose value is in the environment",
                "EPS-N030",
            )
        return cls(text, host, called)

    @property
    def place(self) -> dict[str, Any]:
        """Return the parts of the URL that identify an endpoint."""
        parts = urlsplit(self.url)
        return {"host": parts.hostname, "port": parts.port, "path": parts.path, "query": parts.query}


class Endpoint:
    """A service that answers questions, with a cache of its answers.

    source:   a hash of the address and of all settings that affect an answer, except the question. The cache has only
              this hash, so that it does not reveal the endpoint's address.
    store:    an SQLite file of answers, created if missing, which only this user can read (mode 0600). It has hashes of
              the questions, not the questions. But anyone who has the file can check whether a guessed question was
              asked. So keep the file only where the texts may be stored.
    workers:  number of concurrent requests.
    timeout:  most seconds per request; None: `resource_limits.ENDPOINT_SECONDS`.
    spending: counter of requests and costs; None: nothing is counted.
    usage, headers: as in `EndpointClient`.
    form:     description of a valid answer, for the error about an invalid one.
    remedies: advice by HTTP status.
    """

    def __init__(
        self,
        address: Address,
        source: str,
        store: Path,
        *,
        form: str,
        remedies: Mapping[int, str],
        key: str = "none",
        workers: int = 8,
        timeout: float | None = None,
        spending: Spending | None = None,
        usage: Usage = lambda response: None,
        headers: Collection[str] | None = None,
    ) -> None:
        from openai import OpenAI

        from epsilometer.models.endpoint_client import EndpointClient

        self.address, self.source, self._store, self._workers = address, source, store, workers
        self._form, self._remedies, self._spending = form, remedies, spending
        seconds = resource_limits.ENDPOINT_SECONDS.value if timeout is None else timeout
        client = EndpointClient(seconds, CONNECT, spending=spending, usage=usage, headers=headers)
        self.client = OpenAI(base_url=address.url, api_key=key, http_client=client, max_retries=RETRIES)

    def forecast(self, keys: Collection[bytes], characters: Mapping[bytes, int], longest: int) -> Forecast:
        """Return the forecast for the questions with these keys. Sends nothing.

        characters: the length of each question, by key. longest: most tokens per answer.
        """
        with closing(Store(self._store)) as store:
            revision = store.revision(self.source)
            new = [key for key in keys if not store.has(key, revision)]
        return Forecast(len(keys), len(keys) - len(new), sum(characters[key] for key in new), longest)

    def collect(
        self, requests: Mapping[bytes, Any], send: Callable[[OpenAI, Any], Completion], label: str
    ) -> dict[bytes, Completion]:
        """Return the answer to each request, by key. Cached answers are not requested.

        send: sends one request and returns its answer. It raises NoAnswer, ValueError, AttributeError, LookupError or
        TypeError for an invalid answer. label: the progress bar's label.

        Raises UserError if the endpoint cannot be reached, refuses, fails permanently, or changes its revision during
        the call. The answers so far stay in the cache, and a repeated call continues with the other requests.
        """
        from openai import OpenAIError

        with closing(Store(self._store)) as store:

            def ask(key: bytes, client: OpenAI = self.client) -> str:
                answer = self._ask(client, requests[key], send)
                store.put(key, self.source, answer)
                return answer.revision

            def missing(revision: str) -> list[bytes]:
                return [key for key in requests if not store.has(key, revision)]

            revision = store.revision(self.source)
            if new := missing(revision):
                try:
                    revision = self._ask_first(new[0], ask)
                    self._ask_rest(missing(revision), ask, revision, label)
                except OpenAIError as error:
                    raise UserError(
                        f"{self._explain(error)}; the answers so far are cached: run again to continue", "EPS-N031"
                    ) from None
                finally:
                    if self._spending is not None:
                        note(f"{self._spending.said}, to {self.address.host}")
            return {key: store.get(key, revision) for key in requests}

    def _ask_first(self, key: bytes, ask: Callable[..., str]) -> str:
        """Send the first request with few retries, to detect an unreachable endpoint early. Return the revision."""
        from openai import APIConnectionError, InternalServerError, RateLimitError

        try:
            return ask(key, self.client.with_options(max_retries=FIRST_RETRIES))
        except (APIConnectionError, InternalServerError, RateLimitError) as error:
            if _unreachable(error):
                raise
            note(f"the endpoint at {self.address.host} has not answered yet; {RETRIES + 1} more attempts follow")
            return ask(key)

    def _ask_rest(self, keys: list[bytes], ask: Callable[..., str], revision: str, label: str) -> None:
        """Send requests concurrently. After a permanent failure, stop once the answers in progress are stored."""
        pool = ThreadPoolExecutor(self._workers)
        try:
            futures = [pool.submit(ask, key) for key in keys]
            for done in track(as_completed(futures), len(futures), label):
                if (other := done.result()) != revision:
                    raise UserError(
                        f"the endpoint at {self.address.host} changed its revision from {fingerprint(revision)} to "
                        f"{fingerprint(other)} {HASHED} during the run; answers of both are cached: run again for "
                        "answers of one revision",
                        "EPS-N032",
                    )
        finally:
            pool.shutdown(cancel_futures=True)

    def _ask(self, client: OpenAI, request: Any, send: Callable[[OpenAI, Any], Completion]) -> Completion:
        from epsilometer.models.replies import NoAnswer

        what = ""
        for attempt in range(WHOLE):
            time.sleep(attempt * PAUSE)
            try:
                answer = send(client, request)
                (answer.text + answer.revision).encode()
                return answer
            except UserError:
                raise
            except NoAnswer as error:
                what = str(error)
            except UnicodeEncodeError:
                what = "half of a character (a lone surrogate), which is not valid UTF-8"
            except (ValueError, AttributeError, LookupError, TypeError):  # the answer is not JSON, or not of this form
                what = f"something other than a {self._form}"
        raise UserError(
            f"the endpoint at {self.address.host} answered {WHOLE} times with {what}; the answers so far are cached: "
            "run again to continue",
            "EPS-N033",
        )

    def _explain(self, error: OpenAIError) -> str:
        """Return a description of the error that quotes neither the request nor the server's text."""
        from openai import APITimeoutError

        at, called = f"the endpoint at {self.address.host}", self.address.called
        if (refused := _certificate(error)) is not None:
            return (
                f"{at} has an untrusted certificate ({refused}); set SSL_CERT_FILE to the file of its authority, or "
                "give the server a certificate that this machine trusts"
            )
        if _unreachable(error):
            return f"{at} cannot be reached; check {called}, and that the server runs"
        status = getattr(error, "status_code", None)
        if status is None:
            late = isinstance(error, APITimeoutError)
            how = "did not answer in time" if late else "broke the connection"
            remedy = f"; {resource_limits.ENDPOINT_SECONDS.remedy}" if late else ""
            return f"{at} {how}, {RETRIES + 1} times{remedy}"
        if 300 <= status < 400:
            return (
                f"{at} answered with status {status}, a redirect, which is not followed since it would send the text "
                f"to another address; set {called} to the final address"
            )
        remedy = {
            404: f"check {called}",
            429: "use fewer workers, or wait until the rate limit or budget allows more",
            **self._remedies,
        }.get(status, "check the server's log")
        return f"{at} refused with status {status}; {remedy}"


def key_of(source: str, request: Any) -> bytes:
    """Return the hash under which an answer is stored."""
    return hashlib.blake2b(json.dumps([source, request], sort_keys=True).encode(), digest_size=32).digest()


def environment(name: str, purpose: str) -> str:
    """Return an environment variable's value for an HTTP header. Raises UserError if it is missing or invalid.

    purpose: a description of the value, for the error.
    """
    value = os.environ.get(name, "").strip()
    if not value:
        raise UserError(f"{name} is not set; export {purpose}", "EPS-N034")
    if not (value.isascii() and value.isprintable()):  # such a value would be quoted by an error of the client library
        raise UserError(
            f"{name} (its value is not shown) contains characters that a key cannot have, such as a line break; "
            "correct it",
            "EPS-N035",
        )
    return value


def check_environment() -> str:
    """Return the host in OPENAI_BASE_URL. Raises UserError if the URL or OPENAI_API_KEY is missing or unusable."""
    address = Address.of(None)
    api_key()
    return address.host


def api_key() -> str:
    """Return the key in OPENAI_API_KEY. Raises UserError if it is missing or unusable."""
    return environment(API_KEY, "the endpoint's key, or any word where it asks for none")


def _certificate(error: BaseException | None) -> str | None:
    """Return OpenSSL's message about a refused certificate; None for other errors."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message.partition(",")[0].rstrip(".")
        error = error.__cause__ or error.__context__
    return None


def _unreachable(error: OpenAIError) -> bool:
    return type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout")
