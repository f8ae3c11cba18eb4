"""A server of this project's report pages on 127.0.0.1, because browsers follow no link from Prefect's pages to files.

The server serves no other file. Like `server.py`, it refuses requests from other sites' pages, and requests for other
host names.

usage: python -m epsilometer.pipeline.flows.pages PORT SOCKET

SOCKET: the number of the inherited socket that listens at the port.
"""

from __future__ import annotations

import re
import socket
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

from epsilometer.pipeline.flows import PROJECT

ROOT = PROJECT
HOSTS = ("127.0.0.1", "localhost")  # names of this server in browsers' requests
_SERVED = re.compile(r"/(runs/[\w-]+/)?reports/audit\.html")


class Pages(SimpleHTTPRequestHandler):
    """Serves the report pages of the default run and of profiles, and answers 404 for any other path."""

    def send_head(self):  # type: ignore[no-untyped-def]
        port = self.connection.getsockname()[1]
        own = {f"{host}:{port}" for host in HOSTS}
        if self.headers["Host"] not in own or self.headers["Origin"] not in {
            None,
            *(f"http://{address}" for address in own),
        }:
            self.send_error(403)
        elif not _SERVED.fullmatch(self.path):
            self.send_error(404)
        else:
            return super().send_head()
        return None

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")  # browsers must not show an earlier audit's page
        super().end_headers()


if __name__ == "__main__":
    port, number = map(int, sys.argv[1:])
    server = ThreadingHTTPServer(("127.0.0.1", port), partial(Pages, directory=str(ROOT)), bind_and_activate=False)
    server.socket.close()
    server.socket = socket.socket(fileno=number)
    server.serve_forever()
