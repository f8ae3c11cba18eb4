"""Chat models behind an OpenAI-compatible endpoint: many conversations in, one answer each out.

The client library itself reads the endpoint's address and key from the environment, OPENAI_BASE_URL and
OPENAI_API_KEY: they are in no parameter file, no log, no error (an error names the URL's host) and not in the store.

Every answer is stored on disk as it arrives, under a hash of the question, the endpoint and the model, and with the
revision that answered. So a run that was stopped, even by kill -9, continues where it was: no answer is lost, and no
answered question is asked again, unless the endpoint has moved on to another revision; one call never mixes two. Which
revision the endpoint serves is known once something new is asked. Requests that meet
408, 409, 429, 5xx, a time-out or a broken connection are repeated by the client library, after the time that the server
asks for (up to two minutes), else after exponential back-off with jitter. Requests are carried by `endpoint_client`,
which follows no redirect and bounds the time and the size of an answer.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from platformdirs import user_cache_path

from epsilometer.core import limits
from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import track

if TYPE_CHECKING:
    from openai import OpenAI, OpenAIError

Message = Mapping[str, str]  # role and content

CONNECT = 5.0  # seconds to connect in
FIRST_RETRIES = 1  # of the first request: an endpoint that cannot be reached is named within 20 seconds
RETRIES = 6  # of the others: with their waits about 24 s, longer than a server takes to restart
WHOLE = 3  # requests, the last of which must be answered properly
# What an endpoint may add to the name of the model that was asked: a date, or the revision of a hub model.
_SNAPSHOT = re.compile(r"(@.+|-\d{4}(-?\d{2}-?\d{2})?)?")


@dataclass(frozen=True)
class Completion:
    """An answer: its text (as `keep` returned it), and the tokens of question and answer as the model counts them.

    revision: the model's name as the endpoint gives it, which may say more than the name that was asked.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    revision: str = field(default="", compare=False)


class Chat:
    """One model at one endpoint, with a store of its answers.

    model:    its name there; an endpoint that answers with another model is refused.
    store:    a file (SQLite) that holds the answers, made where there is none, for this user alone (0600). It holds no
              question, only its hash; but anyone who has the file can check a guess of a question, so it belongs where
              the texts may lie.
    workers:  requests at a time.
    timeout:  seconds that one request may take; `limits.ENDPOINT_SECONDS` by default.

    Raises UserError when OPENAI_BASE_URL or OPENAI_API_KEY is missing or unusable.
    """

    def __init__(self, model: str, store: Path, workers: int = 8, timeout: float | None = None) -> None:
        self.model, self._store, self._workers = model, store, workers
        self.host = check_environment()
        from openai import OpenAI

        from epsilometer.models.endpoint_client import EndpointClient

        client = EndpointClient(limits.ENDPOINT_SECONDS.value if timeout is None else timeout, CONNECT)
        self._client = OpenAI(http_client=client, max_retries=RETRIES)
        url = self._client.base_url
        # A hash: the store must not reveal the endpoint's address.
        self._source = _key(model, {"host": url.host, "port": url.port, "path": url.path}).hex()

    def complete(
        self,
        conversations: Sequence[Sequence[Message]],
        max_tokens: int,
        temperature: float = 0.0,
        seeds: Sequence[int] | None = None,
        keep: Callable[[str], str] = str,
    ) -> list[Completion]:
        """The answer to each conversation; equal ones are asked once, and those in the store not at all.

        max_tokens:  longest answer.
        temperature: 0 for the most likely answer.
        seeds:       one for each conversation, sent along; with another seed it is another question.
        keep:        what of an answer is stored and returned, for instance its verdict alone; one store, one `keep`.

        Raises UserError when the endpoint cannot be reached, refuses, answers with another model, changes the revision
        meanwhile, or fails for good; what was answered before is in the store, and the same call goes on from there.
        """
        from openai import OpenAIError

        requests = [
            {"messages": list(messages), "max_tokens": max_tokens, "temperature": temperature}
            | ({} if seeds is None else {"seed": seeds[i]})
            for i, messages in enumerate(conversations)
        ]
        keys = [_key(self._source, request) for request in requests]
        distinct = dict(zip(keys, requests, strict=True))
        with closing(_Store(self._store)) as store:

            def ask(key: bytes, client: OpenAI = self._client) -> str:
                answer = self._ask(client, distinct[key], keep)
                store.put(key, self._source, answer)
                return answer.revision

            def missing(revision: str) -> list[bytes]:
                return [key for key in distinct if not store.has(key, revision)]

            revision = store.revision(self._source)
            try:
                if new := missing(revision):
                    revision = self._ask_first(new[0], ask)
                    self._ask_rest(missing(revision), ask, revision)
            except OpenAIError as error:
                raise UserError(f"{self._explain(error)}; answers so far are kept, run again to go on") from None
            return [store.get(key, revision) for key in keys]

    def _ask_first(self, key: bytes, ask: Callable[..., str]) -> str:
        """Ask with few tries at first, so that nobody waits for an unreachable endpoint. Returns the revision."""
        from openai import APIConnectionError, InternalServerError, RateLimitError

        try:
            return ask(key, self._client.with_options(max_retries=FIRST_RETRIES))
        except (APIConnectionError, InternalServerError, RateLimitError) as error:
            if _unreachable(error):
                raise
            return ask(key)

    def _ask_rest(self, keys: list[bytes], ask: Callable[..., str], revision: str) -> None:
        """Ask several at a time; the first to fail for good ends that, after those under way have been stored."""
        pool = ThreadPoolExecutor(self._workers)
        try:
            futures = [pool.submit(ask, key) for key in keys]
            for done in track(as_completed(futures), len(futures), f"ask {self.model}"):
                if (other := done.result()) != revision:
                    raise UserError(
                        f"the endpoint at {self.host} changed from {revision[:100]!r} to {other[:100]!r}; answers of "
                        "both are kept, run again for those of one"
                    )
        finally:
            pool.shutdown(cancel_futures=True)

    def _ask(self, client: OpenAI, request: dict[str, Any], keep: Callable[[str], str]) -> Completion:
        for attempt in range(WHOLE):
            time.sleep(attempt)
            try:
                answer = client.chat.completions.create(model=self.model, **request)
                text, tokens = answer.choices[0].message.content or "", _tokens(answer.usage)
            except UserError:  # of the client, about the answer
                raise
            except (ValueError, AttributeError, IndexError, TypeError):  # no JSON, or not of this form
                continue
            if not _same(self.model, answer.model):
                raise UserError(
                    f"the endpoint at {self.host} answered with the model {str(answer.model)[:100]!r}, not with the "
                    f"requested {self.model!r}; request the model that it serves"
                )
            return Completion(keep(text), *tokens, str(answer.model))
        raise UserError(
            f"the endpoint at {self.host} answered {WHOLE} times with something that is no chat completion; check that "
            "OPENAI_BASE_URL names an OpenAI-compatible server, with its path; answers so far are kept"
        )

    def _explain(self, error: OpenAIError) -> str:
        """The error in words that quote nothing of the request and nothing that the server wrote."""
        from openai import APITimeoutError

        if _unreachable(error):
            return f"the endpoint at {self.host} cannot be reached; check OPENAI_BASE_URL, and that the server runs"
        status = getattr(error, "status_code", None)
        if status is None:
            late = isinstance(error, APITimeoutError)
            how = "did not answer in time" if late else "broke the connection"
            remedy = f"; {limits.ENDPOINT_SECONDS.remedy}" if late else ""
            return f"the endpoint at {self.host} {how}, {RETRIES + 1} times{remedy}"
        if 300 <= status < 400:
            return (
                f"the endpoint at {self.host} answered with status {status}, a redirect, which is not followed: it "
                "would carry the text to another address; set OPENAI_BASE_URL to the address that is meant"
            )
        remedy = {
            401: "check OPENAI_API_KEY",
            403: "check OPENAI_API_KEY and what it may use",
            404: f"check OPENAI_BASE_URL, and that it serves {self.model!r}",
            429: "use fewer workers, or wait until the rate limit or budget allows more",
        }.get(status, "check the server's log")
        return f"the endpoint at {self.host} refused with status {status}; {remedy}"


class _Store:
    """Answers on disk, by the hash of their question and by revision.

    SQLite: an answer is stored whole or not at all, whenever the process dies.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        with _storing(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            for part in (
                "",
                "-wal",
                "-shm",
            ):  # SQLite gives new ones the permissions of the file; a killed run left old
                if (file := path.with_name(path.name + part)).exists():
                    file.chmod(0o600)
            # Workers write, one at a time; another process may write to the same file.
            self._database = sqlite3.connect(path, timeout=60, check_same_thread=False)
            # An answer survives the process at once; a power failure costs the last answers, not the file.
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS completions (question BLOB, revision TEXT, source TEXT, text TEXT, "
                "prompt_tokens INTEGER, completion_tokens INTEGER, PRIMARY KEY (question, revision))"
            )

    def revision(self, source: str) -> str:
        """The revision that answered last; empty where none did."""
        row = self._database.execute(
            "SELECT revision FROM completions WHERE source = ? ORDER BY rowid DESC LIMIT 1", (source,)
        ).fetchone()
        return row[0] if row else ""

    def has(self, key: bytes, revision: str) -> bool:
        row = self._database.execute("SELECT 1 FROM completions WHERE question = ? AND revision = ?", (key, revision))
        return bool(row.fetchone())

    def get(self, key: bytes, revision: str) -> Completion:
        row = self._database.execute(
            "SELECT text, prompt_tokens, completion_tokens, revision FROM completions "
            "WHERE question = ? AND revision = ?",
            (key, revision),
        )
        return Completion(*row.fetchone())

    def put(self, key: bytes, source: str, answer: Completion) -> None:
        with self._lock, self._database:
            self._database.execute(
                "INSERT OR REPLACE INTO completions VALUES (?, ?, ?, ?, ?, ?)",
                (key, answer.revision, source, answer.text, answer.prompt_tokens, answer.completion_tokens),
            )

    def close(self) -> None:
        self._database.close()


@contextmanager
def _storing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.DatabaseError) as error:
        raise UserError(
            f"answers cannot be stored in {path} ({error}); move away what is there, or make it writable"
        ) from None


def store_path(name: str) -> Path:
    """The store of that name in the user's cache, a folder that nobody else can enter (0700)."""
    folder = user_cache_path("epsilometer")
    with _storing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    return folder / name


def _key(source: str, request: Mapping[str, Any]) -> bytes:
    return hashlib.blake2b(json.dumps([source, request], sort_keys=True).encode(), digest_size=32).digest()


def _tokens(usage: Any) -> tuple[int, int]:
    """Of question and answer, as the endpoint counts them; 0 where it does not. Raises ValueError for no number."""
    counts = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
    if not all(isinstance(count, int) and 0 <= count < 1 << 63 for count in counts):  # what SQLite holds
        raise ValueError("no count of tokens")
    return counts


def _same(wanted: str, answered: str | None) -> bool:
    return answered is not None and answered.startswith(wanted) and bool(_SNAPSHOT.fullmatch(answered[len(wanted) :]))


def _unreachable(error: OpenAIError) -> bool:
    return type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout")


def check_environment() -> str:
    """The host in OPENAI_BASE_URL. There is no default: texts go only where the user sends them.

    Raises UserError when the URL or the key is missing or unusable; neither is quoted.
    """
    url, key = (os.environ.get(name, "").strip() for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"))
    if not url:
        raise UserError("OPENAI_BASE_URL is not set; export the endpoint's URL, for instance http://localhost:8000/v1")
    if not key:
        raise UserError("OPENAI_API_KEY is not set; export the endpoint's key, or any word where it asks for none")
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.scheme in ("http", "https") and parts.port != 0 else None
    except ValueError:  # a port that is no number, half a bracket
        host = None
    if not host:
        raise UserError("OPENAI_BASE_URL is no URL (it is not shown here); it must be like http://localhost:8000/v1")
    if not (key.isascii() and key.isprintable()):  # the client library would quote it in its complaint
        raise UserError("OPENAI_API_KEY (not shown here) holds characters that no key has, such as a line break")
    return host
