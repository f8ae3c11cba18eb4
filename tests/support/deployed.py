"""A local service that rewrites texts, in its own format or as a chat, with the faults of real services."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.waiting import LAST_RESORT


def masked(text: str) -> str:
    """Mask every second word of a text."""
    return " ".join(word if i % 2 else "***" for i, word in enumerate(text.split()))


@dataclass(frozen=True)
class Filter:
    """A filter of names, addresses and numbers that handles one text at a time, with a time limit for each text.

    speed: words per second. limit: maximum seconds of waiting and working. fails_open: whether a text beyond the limit
    passes unchanged; otherwise its request fails. late: the texts beyond the limit.
    """

    speed: float
    limit: float
    fails_open: bool
    late: list[str] = field(default_factory=list)
    worker: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, 1))

    def __call__(self, text: str) -> str:
        stopped = threading.Event()
        work = self.worker.submit(self._filtered, text.split(), stopped)
        try:
            return work.result(self.limit)
        except TimeoutError:
            stopped.set()
            self.late.append(text)
            if self.fails_open:
                return text
            raise

    def _filtered(self, words: list[str], stopped: threading.Event) -> str:
        some: list[str] = []
        while len(some) < len(words) and not stopped.wait(50 / self.speed):
            some += [re.sub(r".*[@\d].*|[A-Z].*", "***", word) for word in words[len(some) : len(some) + 50]]
        return " ".join(some)


class Deployed(ThreadingHTTPServer):
    """A server that answers {"text": ...} with {"result": {"text": ...}, "version": ...}, and chats like a chat server.

    faults: returns the faults of the answer to a text. upstream: a port to which it forwards the rewritten text.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.rewrite: Callable[[str], str] = masked
        self.choice: Callable[[str], dict[str, Any]] = lambda text: {}  # extra fields of a chat's choice and message
        self.faults: Callable[[str], set[str]] = lambda text: set()
        self.delay, self.version, self.upstream = 0.0, "1", 0
        self.lock = threading.Lock()
        self.texts: list[str] = []
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.answered: Counter[str] = Counter()
        self.last = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect, which is part of the tests."""


class Handler(BaseHTTPRequestHandler):
    server: Deployed

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        chat = "messages" in body
        text = body["messages"][-1]["content"] if chat else body["text"]
        malformed = not isinstance(text, str)
        text = text[0] if malformed else text
        faults = server.faults(text)
        with server.lock:
            server.texts.append(text)
            server.bodies.append(body)
            server.headers.append(dict(self.headers.items()))
            before, server.last = server.last, text
        time.sleep(server.delay)
        if server.upstream:
            self._send_on(text if "upstream" in faults else server.rewrite(text), body)
        headers = {}
        if "header" in faults:
            headers["X-Debug"] = base64.b64encode(text[:300].encode()).decode()
        if "error" in faults:
            self._send(500, json.dumps({"detail": f"filter failed on: {text}"}), headers)
        elif malformed or "refused" in faults:
            self._send(422, '{"detail": "the text must be a string"}', headers)
        elif "302" in faults:
            self._send(302, "", {"Location": "http://127.0.0.1:9/elsewhere"})
        elif "503" in faults:
            self._send(503, "{}", headers)
        elif "page" in faults:
            self._send(200, f"<html>{text}</html>", headers, "text/html")
        elif "other path" in faults:
            self._send(200, json.dumps({"outcome": text}), headers)
        elif "hangs" in faults:
            self.rfile.read(1)  # until the client disconnects
        else:
            try:
                answer = text if "open" in faults else before if "other" in faults else server.rewrite(text)
            except TimeoutError:
                self._send(503, '{"detail": "the filter took too long"}', headers)
                return
            with server.lock:
                server.answered[text] += 1
            stream = bool(body.get("stream"))
            choice = server.choice(text)
            self._answer(
                text if stream and "stream" in faults else answer,
                body,
                headers,
                chat=chat,
                stream=stream,
                choice=choice,
            )

    def _answer(
        self, answer: str, body: Any, headers: dict[str, str], *, chat: bool, stream: bool, choice: dict[str, Any]
    ) -> None:
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        head = {"id": "1", "created": 1, "model": body.get("model")}
        if not stream:
            message = {"role": "assistant", "content": answer} | choice.get("message", {})
            choices = [{"index": 0, "finish_reason": "stop"} | choice | {"message": message}]
            whole = {**head, "object": "chat.completion", "choices": choices, "usage": usage}
            own = {"result": {"text": answer}, "version": self.server.version, "usage": {"in": 7, "out": 3}} | {
                "why": choice.get("finish_reason", "stop")
            }
            self._send(200, json.dumps(whole if chat else own), headers)
            return
        pieces = [answer[i : i + 5] for i in range(0, len(answer), 5)]
        events: list[Any] = [{"result": {"text": piece}} for piece in pieces]
        if chat:
            deltas = [({"content": piece}, None) for piece in pieces] + [({}, "stop")]
            deltas[-1] = (choice.get("message", {}), choice.get("finish_reason", "stop"))
            choices = [[{"index": 0, "delta": delta, "finish_reason": end}] for delta, end in deltas]
            events = [{**head, "object": "chat.completion.chunk", "choices": choice} for choice in choices]
            events.append({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage})
        written = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        self._send(200, written, headers, "text/event-stream")

    def _send_on(self, text: str, body: Any) -> None:
        sent = {"model": "m", "messages": [{"role": "user", "content": text}], "stream": bool(body.get("stream"))}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.server.upstream}/v1/chat/completions",
            json.dumps(sent).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=LAST_RESORT) as answer:
                answer.read()
        except OSError:  # the upstream server refuses some requests
            pass
        except Exception:  # and breaks off some of its answers
            pass

    def _send(self, status: int, body: str, headers: dict[str, str], kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())


@contextmanager
def deployed() -> Iterator[Deployed]:
    """Run a service while the context is open."""
    with Deployed() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()
