"""Nothing of a server's hostile reply is shown, and the command ends with code 2 and one line."""

from __future__ import annotations

import gzip
import json
import re
import resource
import shutil
import socketserver
import ssl
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from epsilometer.core.file_names import SHOW
from epsilometer.models import endpoint
from tests.support.commands import run

SECRET = "zyxomma"
TEXTS = "\n".join(f"{SECRET} wants {what}" for what in ("tea", "milk", "rum"))


class Hostile(socketserver.ThreadingTCPServer):
    """Replies with the bytes that `reply` makes of the request's body and its number."""

    daemon_threads = allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply: Callable[[str, int], bytes] = lambda text, number: b""
        self.requests = 0

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is part of the tests."""


class Handler(socketserver.StreamRequestHandler):
    server: Hostile

    def handle(self) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            if not (line := self.rfile.readline()):
                return
            head += line
        length = re.search(rb"(?i)content-length: (\d+)", head)
        body = json.loads(self.rfile.read(int(length[1]) if length else 0))
        text = body["text"] if "text" in body else body["messages"][0]["content"]
        self.server.requests += 1
        self.wfile.write(self.server.reply(text, self.server.requests))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hostile]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(SHOW, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setattr("epsilometer.models.answers.user_cache_path", lambda name: tmp_path / name)
    monkeypatch.setattr(endpoint, "PAUSE", 0)
    for tries in ("FIRST_RETRIES", "RETRIES"):
        monkeypatch.setattr(endpoint, tries, 0)
    Path("texts.txt").write_text(TEXTS)
    Path("template.yaml").write_text("body: {text: '{text}'}\nanswer: said\nrevision: by\n")
    with Hostile() as hostile:
        threading.Thread(target=hostile.serve_forever, args=(0.05,), daemon=True).start()
        yield hostile
        hostile.shutdown()


def http(body: str | bytes, status: str = "200 OK", kind: str = "application/json", *lines: str) -> bytes:
    content = body if isinstance(body, bytes) else body.encode()
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(content)}", "Connection: close"]
    return "\r\n".join([*head, *lines, "", ""]).encode("latin-1") + content


def chat(text: str, model: str, **more: Any) -> str:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "fine"}}
    head = {"id": text, "object": "chat.completion", "created": 1, "model": model}
    return json.dumps({**head, "choices": [choice], **more})


AS_CHAT = {
    "another model": lambda text, number: http(chat(text, text)),
    "a snapshot of the model": lambda text, number: http(chat(text, f"m@{text}{number}")),
    "a status line": lambda text, number: http("", f"400 {text}"),
    "an error": lambda text, number: http(json.dumps({"error": {"message": text, "code": text}}), "400 No"),
    "an error that is no JSON": lambda text, number: http(text, "500 No", "text/html"),
    "a status that is none": lambda text, number: http("", text),
    "a redirect": lambda text, number: http("", "307 No", "text/html", f"Location: http://{text}/"),
    "a header that is none": lambda text, number: f"HTTP/1.1 200 OK\r\n{text}\r\n\r\n".encode(),
    "a length that is none": lambda text, number: f"HTTP/1.1 200 OK\r\nContent-Length: {text}\r\n\r\n".encode(),
    "a type that is none": lambda text, number: http(text, "200 OK", text),
    "an encoding": lambda text, number: http(text, "200 OK", "text/plain", f"Content-Encoding: {text}"),
    "half a JSON": lambda text, number: http('{"id": "' + text),
    "no HTTP": lambda text, number: text.encode(),
    "a count that is none": lambda text, number: http(chat(text, "m", usage={"prompt_tokens": text})),
    "a wait": lambda text, number: http("", "429 No", "text/plain", f"Retry-After: {text}"),
}  # fmt: skip
AS_SERVICE = {
    "a revision": lambda text, number: http(json.dumps({"said": "fine", "by": f"{text}{number}"})),
    "a list": lambda text, number: http(json.dumps([text])),
    "another key": lambda text, number: http(json.dumps({text: text})),
    "events": lambda text, number: http(f"data: {text}\n\n", "200 OK", "text/event-stream"),
    "a charset": lambda text, number: http(b"\xff\xfe", "200 OK", f"application/json; charset={text}"),
    "a lone surrogate": lambda text, number: http(json.dumps({"said": f"{text}\ud800", "by": "v1"})),
    "a lone surrogate in the revision": lambda text, number: http(json.dumps({"said": "", "by": f"{text}\ud800"})),
    "endless nesting": lambda text, number: http("[" * 100_000),
}


@pytest.mark.parametrize("kind", [*AS_CHAT, *AS_SERVICE])
def test_nothing_that_a_server_says_is_shown(server: Hostile, capfd: pytest.CaptureFixture[str], kind: str) -> None:
    server.reply = (AS_CHAT | AS_SERVICE)[kind]
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    how = ["--model", "m"] if kind in AS_CHAT else ["--template", "template.yaml"]
    words = ["audit", "texts.txt", "--endpoint", url, "--private-texts", *how, "--trials", "40", "--attacks", "length"]
    assert run(*words) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert SECRET not in err
    assert [line.partition(":")[0] for line in err.splitlines() if not line.startswith("note: ")] == ["error"]
    assert "message withheld" not in err
    assert server.requests


def bomb(kind: str, times: int = 64) -> bytes:
    """That many times 64 MiB of blanks, compressed: a thousandth of that. kind: `gzip` or `deflate`."""
    squeeze = zlib.compressobj(9, wbits=-15)
    block = squeeze.compress(b" " * (1 << 26)) + squeeze.flush(zlib.Z_FULL_FLUSH)
    head, whole = (b"\x1f\x8b\x08" + bytes(7), 31) if kind == "gzip" else (b"\x78\x9c", 15)
    assert zlib.decompressobj(whole).decompress(head + block, 1 << 10) == b" " * (1 << 10), "it would unpack"
    return head + block * times


UNPACKED = 4 << 30  # bytes; what a bomb becomes
ENCODED = {
    "gzip": ("200 OK", "gzip"),
    "deflate": ("200 OK", "deflate"),
    "brotli": ("200 OK", "br"),
    "zstd": ("200 OK", "zstd"),
    "gzip in gzip": ("200 OK", "gzip, gzip"),
    "below an encoding that is none": ("200 OK", "identity, gzip"),
    "of a name that is no encoding": ("200 OK", "X-GZIP"),
    "with an error": ("500 No", "gzip"),
    "with a redirect": ("307 No", "gzip"),
    "unnamed": ("200 OK", None),
    "on its way": ("200 OK", "transfer"),
}


@pytest.mark.parametrize("how", ["chat", "service"])
@pytest.mark.parametrize("kind", ENCODED)
def test_a_decompression_bomb_takes_no_memory(
    server: Hostile, capfd: pytest.CaptureFixture[str], kind: str, how: str
) -> None:
    """4 GiB once unpacked, 4 MiB on the line; in gzip, 20 kB."""

    def peak() -> int:
        return max(resource.getrusage(who).ru_maxrss << 10 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))

    status, encoding = ENCODED[kind]
    content = bomb("deflate" if encoding == "deflate" else "gzip")
    if kind == "gzip in gzip":
        content = gzip.compress(content)
    lines = ["Transfer-Encoding: gzip, chunked"] if encoding == "transfer" else [f"Content-Encoding: {encoding}"]
    server.reply = lambda text, number: http(content, status, "application/json", *lines[: encoding is not None])
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    model = ["--model", "m"] if how == "chat" else ["--template", "template.yaml"]
    words = ["audit", "texts.txt", "--endpoint", url, "--private-texts", *model, "--trials", "40"]
    before = peak()
    assert run(*words, "--attacks", "length") == 2
    assert peak() - before < UNPACKED / 8
    out, err = capfd.readouterr()
    assert out == ""
    assert [line.partition(":")[0] for line in err.splitlines() if not line.startswith("note: ")] == ["error"]
    assert server.requests


def test_two_values_of_a_run_are_told_apart(server: Hostile, capfd: pytest.CaptureFixture[str]) -> None:
    """By a hash whose key is of one run: that of one of a few candidates cannot be computed."""
    server.reply = AS_SERVICE["a revision"]
    words = ["audit", "texts.txt", "--endpoint", f"http://127.0.0.1:{server.server_address[1]}", "--private-texts"]
    assert run(*words, "--template", "template.yaml", "--trials", "40", "--attacks", "length") == 2
    before, after = re.findall("#[0-9a-f]{8}", capfd.readouterr().err)
    assert before != after


def test_a_hash_needs_the_key_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from epsilometer.runtime import withholding

    monkeypatch.delenv(SHOW, raising=False)
    once, again = withholding.fingerprint(SECRET), withholding.fingerprint(SECRET)
    monkeypatch.setattr(withholding, "_KEY", bytes(32))
    assert once == again != withholding.fingerprint(SECRET)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_certificate_that_nobody_signed_is_named(server: Hostile, capfd: pytest.CaptureFixture[str]) -> None:
    """And is trusted once it is said to be."""
    requested = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
        "-days",
        "2",
    ]
    named = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", *requested, *named], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("cert.pem", "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.reply = lambda text, number: http(json.dumps({"said": "fine", "by": "v1"}))
    url = f"https://127.0.0.1:{server.server_address[1]}"
    words = ["audit", "texts.txt", "--endpoint", url, "--private-texts", "--template", "template.yaml"]
    assert run(*words, "--trials", "40", "--attacks", "length") == 2
    err = capfd.readouterr().err
    assert "self-signed certificate" in err
    assert "SSL_CERT_FILE" in err
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SSL_CERT_FILE", "cert.pem")
        assert run(*words, "--trials", "40", "--attacks", "length") == 0
