"""The elements of a page, by a parser, and the path of a browser."""

from __future__ import annotations

import shutil
from html.parser import HTMLParser


class Elements(HTMLParser):
    """The tags of a page with their attributes, its visible text, and the content of script and style elements."""

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
