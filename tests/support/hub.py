"""A local model hub that serves repositories of files at commits like the real hub, including its faults."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.waiting import LAST_RESORT

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 1000  # files of at least this many bytes have a stated SHA-256


class Hub(ThreadingHTTPServer):
    """A server of repositories.

    files: the content of files by name, for each repository ("models/owner/name"). gated: repositories that require an
    agreement. faults: by file name, "other bytes", "cut" (once, after half of the file), "stall" (once, after half) or
    "gone". requests: the names of downloaded files, each with the first byte requested.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, dict[str, bytes]] = {}
        self.gated: set[str] = set()
        self.faults: dict[str, str] = {}
        self.requests: list[tuple[str, int]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def add(self, repository: str, folder: Path) -> None:
        """Serve the files of a folder."""
        self.files[repository] = {
            path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect, which is part of the tests."""


class Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if match := re.fullmatch(r"/api/((?:models|datasets)/[^/]+/[^/]+)(?:/revision/([^/]+))?", path):
            self._list(match[1], match[2])
        elif match := re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._serve(f"{match[1] or 'models/'}{match[2]}", match[4])
        else:
            self._refuse("EntryNotFound")

    def _list(self, repository: str, revision: str | None) -> None:
        files = self.server.files.get(repository)
        if files is None:
            return self._refuse("RepoNotFound")
        if revision not in (None, "main", "v1", COMMIT):
            return self._refuse("RevisionNotFound")
        siblings = []
        for name, content in sorted(files.items()):
            blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            file: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": blob}
            if len(content) >= LARGE:
                digest = hashlib.sha256(content).hexdigest()
                file["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 130}
            siblings.append(file)
        name = repository.partition("/")[2]
        body = {"_id": "1", "id": name, "sha": COMMIT, "private": False, "siblings": siblings, "tags": []}
        self._send(json.dumps(body).encode(), {"Content-Type": "application/json"})
        return None

    def _serve(self, repository: str, name: str) -> None:
        if repository in self.server.gated:
            return self._refuse("GatedRepo", 403)
        content = self.server.files.get(repository, {}).get(name)
        if content is None or self.server.faults.get(name) == "gone":
            return self._refuse("EntryNotFound")
        start = int((self.headers.get("Range") or "bytes=0-")[6:].rstrip("-"))
        self.server.requests.append((name, start))
        fault = self.server.faults.get(name)
        if fault == "other bytes":
            content = bytes(len(content))
        headers = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
        if fault in ("cut", "stall"):
            del self.server.faults[name]
            self._send(content[start:], headers, only=(len(content) - start) // 2, status=206 if start else 200)
            if fault == "stall":
                self.rfile.read(1)  # until the client disconnects
            self.close_connection = True
            return None
        self._send(content[start:], headers, status=206 if start else 200)
        return None

    def _send(self, body: bytes, headers: dict[str, str], only: int | None = None, status: int = 200) -> None:
        self.send_response(status)
        for header in {"Content-Length": str(len(body)), "X-Repo-Commit": COMMIT, **headers}.items():
            self.send_header(*header)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[:only])
            self.wfile.flush()

    def _refuse(self, code: str, status: int = 404) -> None:
        self._send(b"{}", {"X-Error-Code": code, "Content-Type": "application/json"}, status=status)


@contextmanager
def hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Run a hub to which the client connects while the context is open. folder: the client's cache."""
    server = Hub()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    for name, value in {
        "ENDPOINT": server.address,
        "HUGGINGFACE_CO_URL_TEMPLATE": server.address + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_CACHE": str(folder),
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DOWNLOAD_TIMEOUT": LAST_RESORT,
        "DOWNLOAD_CHUNK_SIZE": 1 << 16,
    }.items():
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
