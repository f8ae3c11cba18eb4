"""A server that a service under test uses as its upstream. It stores every request, and fails at fixed intervals.

It answers like an OpenAI-compatible chat, whole or as a stream, always with the same sentence. In every twenty requests
it refuses one with status 503 and truncates one answer, to test how the service handles errors.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from epsilometer.core.errors import UserError
from epsilometer.core.resource_limits import ENDPOINT_BYTES

SENTENCE = "Thank you, that was helpful."
_CYCLE, _REFUSED, _CUT = 20, 7, 13  # requests per cycle; the number of the refused request and of the truncated answer


class Sink(ThreadingHTTPServer):
    """The server. arrived: the requests received so far, each as text: its request line, its headers and its body."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address, _Handler)
        self._lock, self.arrived = threading.Lock(), list[str]()

    def keep(self, request: str) -> int:
        """Store a request and return its number, from 1."""
        with self._lock:
            self.arrived.append(request)
            return len(self.arrived)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore client disconnects."""


class _Handler(BaseHTTPRequestHandler):
    server: Sink
    timeout = 60

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        try:
            size = int(self.headers.get("Content-Length", 0))
        except ValueError:
            size = 0
        body = self.rfile.read(min(max(size, 0), ENDPOINT_BYTES.value)).decode(errors="replace")
        turn = self.server.keep(f"{self.requestline}\n{self.headers}\n{body}") % _CYCLE
        if turn == _REFUSED:
            self._send(503, "application/json", b'{"error": {"message": "busy"}}')
            return
        kind, answer = (
            ("text/event-stream", _events())
            if '"stream": true' in body or '"stream":true' in body
            else (
                "application/json",
                _whole(),
            )
        )
        self._send(200, kind, answer, cut=turn == _CUT)

    do_PUT = do_PATCH = do_GET = do_POST

    def _send(self, status: int, kind: str, answer: bytes, cut: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer[: len(answer) // 2] if cut else answer)
        self.close_connection = True


_HEAD: dict[str, Any] = {"id": "sink", "created": 0, "model": "sink"}


def _whole() -> bytes:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": SENTENCE}}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return json.dumps({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def _events() -> bytes:
    deltas = [({"role": "assistant", "content": SENTENCE}, None), ({}, "stop")]
    chunks = [
        {**_HEAD, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in deltas
    ]
    return b"".join(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks) + b"data: [DONE]\n\n"


@contextmanager
def listening(place: str | None) -> Iterator[Sink | None]:
    """Run a sink at [HOST:]PORT, by default on 127.0.0.1. If `place` is None, yield None.

    Raises UserError if the sink cannot listen there.
    """
    if place is None:
        yield None
        return
    host, _, port = place.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise UserError(f"--sink must be a PORT or HOST:PORT to listen at, got {place!r}", "EPS-A112")
    try:
        sink = Sink((host or "127.0.0.1", int(port)))
    except OSError as error:
        raise UserError(
            f"the sink cannot listen at {place} ({error.strerror}); choose another port", "EPS-A113"
        ) from None
    with sink:
        threading.Thread(target=sink.serve_forever, args=(0.05,), name="sink", daemon=True).start()
        try:
            yield sink
        finally:
            sink.shutdown()
