"""Places in a page: parts that DVC does not track are put in when everything else is written.

A place is an HTML comment with a name and one that ends it; autoescape keeps texts from looking like either.
"""

from __future__ import annotations

import re

_ANY = re.compile(r"(<!-- place: [a-z ]+ -->).*?(<!-- end of place -->)", re.DOTALL)


def put(text: str, name: str, content: str) -> str:
    """The page with this content in the place of that name, instead of what is there; unchanged without the place."""
    start, end = f"<!-- place: {name} -->", "<!-- end of place -->"
    before, found, rest = text.partition(start)
    return f"{before}{start}{content}{end}{rest.partition(end)[2]}" if found else text


def emptied(text: str) -> str:
    """The page with nothing in its places."""
    return _ANY.sub(r"\1\2", text)
