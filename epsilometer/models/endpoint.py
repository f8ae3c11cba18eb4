"""Endpoints: many questions in, one answer each out, every answer stored as it arrives.

Answers are stored under a hash of the question, the endpoint and all other inputs of an answer, and with the revision
that answered. So a run that was stopped, even by kill -9, continues where it was: no answer is lost, and no
answered question is sent again, unless the endpoint has moved on to another revision; one call never mixes two. The
endpoint's revision is known once a new question is answered. The client library repeats requests that meet
408, 409, 429, 5xx, a time-out or a broken connection, after the time that the server
requests (up to two minutes), else after exponential back-off with jitter. `endpoint_client` carries the requests; it
follows no redirect and bounds the time and the size of an answer.
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
FIRST_RETRIES = 1  # of the first request: an endpoint that cannot be reached is named within 20 seconds
RETRIES = 6  # of the others: with their waits about 24 s, longer than a server takes to restart
WHOLE = 3  # requests; the last one must get a valid answer
PAUSE = 1.0  # seconds before the second of them; each further pause is longer by as much

HASHED = "(hashed, since a server may echo a text there)"

BASE_URL, API_KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"


@dataclass(frozen=True)
class Address:
    """The address of an endpoint: its URL, the host that messages show instead, and the URL's name in messages."""

    url: str = field(repr=False)
    host: str
    called: str

    @classmethod
    def of(cls, url: str | None) -> Address:
        """Return the address of a URL; None means OPENAI_BASE_URL. It has no default: the user chooses the receiver.

        Raises UserError for an invalid URL, or one with a password in it; it is not quoted.
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
                f"{called} is not a URL (its value is not shown); set it to one like http://localhost:8000/v1",
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
    """A service that answers questions, with a store of its answers.

    source:   a hash of the address and of all other inputs of an answer except the question: the store must not
              reveal the endpoint's address.
    store:    a file (SQLite) of the answers, created if missing, for this user alone (0600). It holds only
              hashes of the questions; but anyone who has the file can check a guess of a question, so it belongs where
              the texts may be stored.
    workers:  requests at a time.
    timeout:  seconds that one request may take; `resource_limits.ENDPOINT_SECONDS` by default.
    spending: counts the requests; None without a count.
    usage, headers: as in `EndpointClient`.
    form:     the form of a valid answer, and where to look if none comes. remedies: advice by status.
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
        """Return the forecast for the questions with these keys, by their numbers of characters; nothing is sent."""
        with closing(Store(self._store)) as store:
            revision = store.revision(self.source)
            new = [key for key in keys if not store.has(key, revision)]
        return Forecast(len(keys), len(keys) - len(new), sum(characters[key] for key in new), longest)

    def collect(
        self, requests: Mapping[bytes, Any], send: Callable[[OpenAI, Any], Completion], label: str
    ) -> dict[bytes, Completion]:
        """Return the answers to requests, by their keys; those in the store are not requested.

        send: sends one request and returns its answer; NoAnswer, or an error about a value, means an answer of another
        form. label: of the progress.

        Raises UserError when the endpoint cannot be reached, refuses, changes the revision meanwhile, or fails
        permanently; earlier answers are in the store, and the same call continues from there.
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
        """Send the first request with few retries, so an unreachable endpoint fails soon. Returns the revision."""
        from openai import APIConnectionError, InternalServerError, RateLimitError

        try:
            return ask(key, self.client.with_options(max_retries=FIRST_RETRIES))
        except (APIConnectionError, InternalServerError, RateLimitError) as error:
            if _unreachable(error):
                raise
            note(f"the endpoint at {self.address.host} has not answered yet; {RETRIES + 1} more attempts follow")
            return ask(key)

    def _ask_rest(self, keys: list[bytes], ask: Callable[..., str], revision: str, label: str) -> None:
        """Send several at a time; the first permanent failure ends that, once requests in progress are stored."""
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
            except UserError:  # about the answer
                raise
            except NoAnswer as error:
                what = str(error)
            except UnicodeEncodeError:
                what = "half of a character (a lone surrogate), which is not valid UTF-8"
            except (ValueError, AttributeError, LookupError, TypeError):  # not JSON, or not of this form
                what = f"something other than a {self._form}"
        raise UserError(
            f"the endpoint at {self.address.host} answered {WHOLE} times with {what}; the answers so far are cached: "
            "run again to continue",
            "EPS-N033",
        )

    def _explain(self, error: OpenAIError) -> str:
        """Return the error in words that quote neither the request nor the server's text."""
        from openai import APITimeoutError

        at, called = f"the endpoint at {self.address.host}", self.address.called
        if (refused := _certificate(error)) is not None:
            return (
                f"{at} has an untrusted certificate ({refused}); name its authority's file in SSL_CERT_FILE, or give "
                "the server a certificate that this machine trusts"
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
    """Return the value of a variable for a header. Raises UserError where it is missing, or not valid in a header."""
    value = os.environ.get(name, "").strip()
    if not value:
        raise UserError(f"{name} is not set; export {purpose}", "EPS-N034")
    if not (value.isascii() and value.isprintable()):  # the client library's error message would quote it
        raise UserError(
            f"{name} (its value is not shown) contains characters that a key cannot have, such as a line break; "
            "correct it",
            "EPS-N035",
        )
    return value


def check_environment() -> str:
    """Return the host in OPENAI_BASE_URL. Raises UserError when the URL or the key is missing or unusable."""
    address = Address.of(None)
    api_key()
    return address.host


def api_key() -> str:
    """Return the key in OPENAI_API_KEY. Raises UserError where it is missing or unusable."""
    return environment(API_KEY, "the endpoint's key, or any word where it asks for none")


def _certificate(error: BaseException | None) -> str | None:
    """Return OpenSSL's reason to refuse a certificate, in its own words; None for another error."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message.partition(",")[0].rstrip(".")
        error = error.__cause__ or error.__context__
    return None


def _unreachable(error: OpenAIError) -> bool:
    return type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout")
