"""Records of the sources of an audit's results (files, packages, settings, revisions), to name what has changed.

Git tracks one small file per source (`sources/<name>.json`) with its state at the last re-audit. DVC itself decides
which results a change makes stale (`epsilometer.project.code`). A newer revision on the hub is reported, not used. The
user decides whether to adopt it, because clip bounds were measured on the pinned revision.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsilometer.core import tables
from epsilometer.core.errors import UserError

FOLDER = Path("sources")
SECONDS = 10.0  # after which a hub that does not answer counts as unreachable

_KINDS = {"files", "packages", "device", "settings", "hub"}  # the possible parts of a record
_CELL = "cell-"  # beginning of the name of a cell's source

Record = dict[str, Any]
"""A source: `files` (hash by path), `packages` (version by name), `settings`, and `hub` (its place on the hub:
`type`, `id`, the `revision` in use and the `latest` known). Parts that do not apply are missing."""


@dataclass(frozen=True)
class Source:
    """A source of results: a data set, a mechanism, an attack, a model."""

    name: str
    record: Record


def served(
    sources: Sequence[Source], recorded: Mapping[str, Record], latest: Callable[[Record], str] | None = None
) -> tuple[list[Source], list[str]]:
    """Return the sources with the latest revision of each on the hub, and descriptions of unanswered requests.

    If the hub does not answer, a source has its last known revision. latest: a function that returns the newest
    revision of a record's `hub`; by default `latest_revision`.
    """
    ask, answered, unknown = latest or latest_revision, [], []
    for source in sources:
        place = source.record.get("hub")
        if place is not None:
            stated = recorded.get(source.name, {}).get("hub", {})
            try:
                revision: str | None = ask(place)
            except Exception as error:  # any error of the hub's client: no network, a time-out, no such id
                unknown.append(f"{source.name}: {place['type']} {place['id']} ({type(error).__name__})")
                revision = stated.get("latest") if stated.get("id") == place["id"] else None
            source = Source(source.name, source.record | {"hub": place | {"latest": revision}})
        answered.append(source)
    return answered, unknown


def latest_revision(place: Record, endpoint: str | None = None) -> str:
    """Return the hub's newest commit of a model or data set; raises the errors of the hub's client."""
    from huggingface_hub import HfApi

    api = HfApi(endpoint)
    info = api.dataset_info if place["type"] == "dataset" else api.model_info
    revision = info(place["id"], timeout=SECONDS).sha
    if not revision:
        raise UserError(f"the hub states no revision of {place['id']}", "EPS-R009")
    return revision


def newer(sources: Iterable[Source]) -> list[str]:
    """Return a sentence for each source that has a newer revision on the hub than the revision in use."""
    return [
        f"{source.name}: the hub has revision {place['latest'][:12]} of {place['id']}, but "
        f"{(place['revision'] or 'no fixed one')[:12]} is in use; to audit the new revision, write its id into the pin"
        for source in sources
        for place in [source.record.get("hub", {})]
        if place.get("latest") and place["latest"] != place["revision"]
    ]


def changes(before: Mapping[str, Record], now: Mapping[str, Record]) -> list[str]:
    """Return the changes as sentences; a change that several sources share is listed once.

    Earlier versions recorded the settings of a mechanism's first cell in the mechanism's record. They recorded no other
    cells.
    """
    sharing: dict[str, list[str]] = {}
    earlier = not any(name.startswith(_CELL) for name in before)
    if earlier:
        before = {name: _without_settings(name, record) for name, record in before.items()}
    for name in [*now, *(name for name in before if name not in now)]:
        if earlier and name not in before and (name.startswith(_CELL) or name == "words"):
            sharing.setdefault("unknown, because it was not recorded before", []).append(name)
        elif name not in before or name not in now:
            sharing.setdefault("new" if name in now else "gone", []).append(name)
        else:
            for what in _differences(before[name], now[name]):
                sharing.setdefault(what, []).append(name)
    return [f"{what} ({', '.join(names)})" for what, names in sharing.items()]


def records(sources: Iterable[Source]) -> dict[str, Record]:
    """Return the records by name of their source."""
    return {source.name: source.record for source in sources}


def read(folder: Path = Path(".")) -> dict[str, Record]:
    """Return the records of the last re-audit, without a user's own JSON files; raises UserError for a damaged file."""
    recorded: dict[str, Record] = {}
    for path in sorted((folder / FOLDER).glob("*.json")):
        try:
            record = dict(json.loads(path.read_bytes()))
        except (ValueError, TypeError) as error:
            raise UserError(
                f"{path} is not the record of a source; delete it, or restore it from git", "EPS-R010"
            ) from error
        if record.keys() <= _KINDS:
            recorded[path.stem] = record
    return recorded


def write(sources: Sequence[Source], folder: Path = Path(".")) -> None:
    """Record the sources, and delete records of sources that no longer exist. Unchanged files keep their bytes."""
    for source in sources:
        tables.write_json(source.record, folder / FOLDER / f"{source.name}.json")
    for name in read(folder).keys() - records(sources).keys():
        (folder / FOLDER / f"{name}.json").unlink()


def _without_settings(name: str, record: Record) -> Record:
    return {kind: of for kind, of in record.items() if kind != "settings" or not name.startswith("mechanism-")}


def _differences(before: Record, now: Record) -> Iterator[str]:
    for kind, verb in (("files", "{}"), ("packages", "package {}"), ("settings", "setting {}")):
        old, new = before.get(kind, {}), now.get(kind, {})
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) == new.get(key):
                continue
            what = verb.format(key)
            if kind == "files":
                yield f"{what} {'is gone' if key not in new else 'is new' if key not in old else 'has changed'}"
            else:
                yield f"{what}: {old.get(key)} before, {new.get(key)} now"
    places = [record.get("hub", {}) for record in (before, now)]
    old, new = ((place.get("id"), place.get("revision")) for place in places)
    if old != new:
        yield f"revision: {'@'.join(filter(None, old))} before, {'@'.join(filter(None, new))} now"
