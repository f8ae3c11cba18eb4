"""Serves the report pages of this project, and nothing else of it, on 127.0.0.1, because browsers follow no link from a
page of Prefect's to a file. It refuses pages of other sites, and other names for this address, as `server.py` does.

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
    """Report pages of the default run and of profiles; any other path does not exist."""

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
        self.send_header("Cache-Control", "no-cache")  # shows the page of the last audit, not of the one before
        super().end_headers()


if __name__ == "__main__":
    port, number = map(int, sys.argv[1:])
    server = ThreadingHTTPServer(("127.0.0.1", port), partial(Pages, directory=str(ROOT)), bind_and_activate=False)
    server.socket.close()
    server.socket = socket.socket(fileno=number)
    server.serve_forever()
