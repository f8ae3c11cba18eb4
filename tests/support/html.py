"""A page as a parser reads it, and a browser to open it in."""

from __future__ import annotations

import shutil
from html.parser import HTMLParser


class Elements(HTMLParser):
    """The tags of a page with their attributes, and what its script and style elements hold."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[str] = []
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        (self.raw if self.cdata_elem else self.text).append(data)


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
