"""A local chat endpoint with every fault that real endpoints have."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

KEY = "sk-planted-7c1f0e"
FAULTS = ["429", "429 after 1", "500", "503", "late", "reset", "half", "page", "broken", "no choices",
          "empty choices", "list"]  # fmt: skip


LATE = 599  # status with which the server asks the client to treat an answer as late


def told_when_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the client time out only when the server asks for it, because any answer may be slow on a busy machine."""
    import httpx2

    from epsilometer.models.endpoint_client import EndpointClient

    whole = EndpointClient._whole

    def heard(client: EndpointClient, request: httpx2.Request, *rest: Any, **options: Any) -> httpx2.Response:
        response = whole(client, request, *rest, **options)
        if response.status_code == LATE:
            raise httpx2.ReadTimeout("no complete answer in time", request=request)
        return response

    monkeypatch.setattr(EndpointClient, "_whole", heard)


class Server(ThreadingHTTPServer):
    """A server that answers "re: <the user's message>", unless `fault` returns a fault for this message and attempt."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.fault: Callable[[str, int], str | None] = lambda message, attempt: None
        self.reply: Callable[[str], str] = lambda message: f"re: {message}"
        self.model: str | None = None  # None: the requested model
        self.usage: dict[str, Any] = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        self.choice: Callable[[str], dict[str, Any]] = lambda message: {}  # extra fields of a choice and of its message
        self.delay = 0.0
        self.elsewhere = ""  # the target of redirects
        self.lock = threading.Lock()
        self.requests: list[tuple[str, float, dict[str, Any]]] = []  # message, time, body
        self.answered: Counter[str] = Counter()
        self.busy = self.most_busy = self.connections = 0

    def get_request(self) -> Any:
        self.connections += 1
        return super().get_request()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect, which is part of the tests."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = body["messages"][-1]["content"]
        with server.lock:
            attempt = sum(message == earlier for earlier, _, _ in server.requests)
            server.requests.append((message, time.monotonic(), body))
            server.busy += 1
            server.most_busy = max(server.most_busy, server.busy)
        try:
            time.sleep(server.delay)
            self._answer(message, body, server.fault(message, attempt))
        finally:
            with server.lock:
                server.busy -= 1

    def _answer(self, message: str, body: dict[str, Any], fault: str | None) -> None:
        server, whole = self.server, self._whole(message, body)
        match fault:
            case None:
                with server.lock:
                    server.answered[message] += 1
                self._send(200, whole)
            case "429 in the body" | "429 in a stream":
                said = json.dumps({"error": {"code": 429, "message": message}})
                kind = "text/event-stream" if "stream" in fault else "application/json"
                body = f"data: {said}\n\n" if "stream" in fault else said
                self._send(200, body, ("Retry-After", "1"), kind=kind)
            case "429 after 1":
                self._send(429, "{}", ("Retry-After", "1"))
            case "late":
                self._send(LATE, "{}")
            case "silence":
                self.rfile.read(1)  # until the client disconnects
            case "reset":
                # With a linger time of 0, closing sends a reset.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
            case "302" | "307":
                self._send(int(fault), "", ("Location", server.elsewhere))
            case "drops":  # an endless answer, one byte at a time
                self.send_response(200)
                self.end_headers()
                while True:
                    self.wfile.write(b" ")
                    time.sleep(0.02)
            case "drops of a header":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
                while True:
                    self.wfile.write(b"x")
                    time.sleep(0.02)
            case "flood":
                self.send_response(200)
                self.end_headers()
                while True:
                    self.wfile.write(b" " * (1 << 16))
            case "gzip":
                self._send(200, whole, ("Content-Encoding", "gzip"))
            case "half":
                self.send_response(200)
                self.send_header("Content-Length", str(len(whole)))
                self.end_headers()
                self.wfile.write(whole[: len(whole) // 2].encode())
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
            case "page":
                self._send(200, "<html>busy</html>", kind="text/html")
            case "broken":
                self._send(200, whole[:-20])
            case "no choices":
                self._send(200, '{"id": "1", "object": "chat.completion"}')
            case "empty choices":
                self._send(200, json.dumps(json.loads(whole) | {"choices": []}))
            case "list":
                self._send(200, "[]")
            case _:
                # Real servers quote rejected input.
                said = f"{message} {self.headers['Authorization']} {server.server_address}"
                self._send(int(fault), json.dumps({"error": {"message": said}}))

    def _whole(self, message: str, body: dict[str, Any]) -> str:
        """Return the body of a complete answer."""
        model = self.server.model or body["model"]  # before the reply, which may change it
        reply = {"role": "assistant", "content": self.server.reply(message)}
        choice = {"index": 0, "finish_reason": "stop", "message": reply}
        said = dict(self.server.choice(message))
        choice["message"] = reply | said.pop("message", {})
        choices = [choice | said]
        head = {"id": "1", "object": "chat.completion", "created": 1, "model": model}
        return json.dumps({**head, "choices": choices, "usage": self.server.usage})

    def _send(self, status: int, body: str, *headers: tuple[str, str], kind: str = "application/json") -> None:
        self.send_response(status)
        for header in (("Content-Type", kind), ("Content-Length", str(len(body.encode()))), *headers):
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(body.encode())
