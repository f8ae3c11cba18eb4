"""Serves the report pages of this project, and nothing else of it, on 127.0.0.1: browsers follow no link from a page
of Prefect's to a file.

usage: python -m flows.pages PORT
"""

from __future__ import annotations

import re
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_SERVED = re.compile(r"/(runs/[\w-]+/)?reports/audit\.html")


class Pages(SimpleHTTPRequestHandler):
    """Report pages of the default run and of profiles; any other path does not exist."""

    def send_head(self):  # type: ignore[no-untyped-def]
        if _SERVED.fullmatch(self.path):
            return super().send_head()
        self.send_error(404)
        return None

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")  # the page of the last audit, not of the one before
        super().end_headers()


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), partial(Pages, directory=str(ROOT))).serve_forever()
