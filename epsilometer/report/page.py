"""The page that people open; only this module writes it.

The report's stage writes the page's body, which DVC tracks (`body.build`). Parts that may differ between equal results
are inserted here: the origin of the page, and the history of audits. Two HTML comments mark the place for such a part,
and the first comment has the part's name. Texts cannot contain such comments, because texts are escaped.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from html import unescape
from pathlib import Path

from markupsafe import Markup

from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.reaudit import history
from epsilometer.report import origin
from epsilometer.report import past_audits as past_audits

BODY = Path("data/report.html")
PAGE = Path("reports/audit.html")
_END = "<!-- end of place -->"
_ANY = re.compile(r"(<!-- place: [a-z ]+ -->).*?(<!-- end of place -->)", re.DOTALL)


def write(folder: Path = Path(), run: Mapping[str, str | None] | None = None) -> None:
    """Write the page of an audit's folder: its body, its current origin, and the history.

    run: name, id and url of the flow run, instead of the environment variable `origin.RUN`.
    """
    text = (folder / BODY).read_text(encoding="utf-8")
    facts = origin.facts(folder)
    text = put(text, "header", origin.header(facts))
    text = put(text, "origin", origin.section(facts, run, folder / "dvc.lock"))
    tables.write_text(_with_history(text, folder), folder / PAGE)


def refresh(folder: Path = Path(), run: Mapping[str, str | None] | None = None) -> None:
    """Update the page. A page whose body is unchanged keeps its origin, and gets the current history.

    Does nothing if neither page nor body exists.
    """
    body, page = folder / BODY, folder / PAGE
    text = page.read_text(encoding="utf-8") if page.is_file() else None
    if body.is_file() and (text is None or emptied(text) != body.read_text(encoding="utf-8")):
        write(folder, run)
    elif text is not None and (renewed := _with_history(text, folder)) != text:
        tables.write_text(renewed, page)


def _with_history(text: str, folder: Path) -> str:
    """Return the page with the history inserted. An unchanged history is not redrawn, because drawing is slow."""
    mark = _mark(folder / history.FILE)
    if f"<!-- place: history -->{mark}" in text:
        return text
    past = history.read(folder / history.FILE)
    section = past_audits.section(past)
    return put(put(text, "history link", past_audits.link(past)), "history", mark + section if section else "")


def _mark(file: Path) -> Markup:
    """Return an HTML comment with a hash of a history and of the code that draws it."""
    code = (path for kind in ("*.py", "*.j2") for path in Path(__file__).parent.rglob(kind))
    digest = hashlib.blake2b(digest_size=8)
    for path in (*sorted(code), *([file] if file.is_file() else [])):
        digest.update(path.read_bytes())
    return Markup(f"<!-- of {digest.hexdigest()} -->")


def put(text: str, name: str, content: str) -> str:
    """Return the page with this content in the place of this name; the page unchanged if it has no such place."""
    start = f"<!-- place: {name} -->"
    before, place, rest = text.partition(start)
    return f"{before}{start}{content}{_END}{rest.partition(_END)[2]}" if place else text


def facts() -> dict[str, str]:
    """Return the date and the commit in the page of the current folder.

    Raises UserError without a page.
    """
    if not PAGE.is_file():
        raise UserError(f"{PAGE} does not exist; `epsilometer pipeline repro` makes it", "EPS-R018")
    header = PAGE.read_text(encoding="utf-8").partition("<!-- place: header -->")[2].partition(_END)[0]
    date, _, commit, *_ = unescape(header).split(" · ")
    return {"date": date, "commit": commit.removeprefix("commit ")}


def emptied(text: str) -> str:
    """Return the page with empty places."""
    return _ANY.sub(r"\1\2", text)
