"""dvc.lock written a stage at a time.

DVC reads and writes the whole of dvc.lock whenever a stage has run, with a parser in Python that would keep comments:
half a second at 3,000 lines, as long as many a stage takes. `quick` leaves the text of all other stages as it stands,
and DVC's own writer puts down the one that ran, so that the file has the bytes that DVC would give it.

One thing differs: settings that params.yaml shares (`<<: *sent`) are written out wherever they stand. DVC would write
them once and refer to them (`&id001`, `*id001`): names unique in a text written whole, and not in one put together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dvc.dvcfile
from dvc.utils.serialize import dumps_yaml, modify_yaml

from epsilometer.core.atomic import write_text
from epsilometer.pipeline.dvc_files import parsed

LOCK = "dvc.lock"
_STAGES = re.compile(r"^stages:\n((?:  .*\n)+)\Z", re.MULTILINE)
_SHARED = re.compile(r"[:-] [&*]id\d+( |$)", re.MULTILINE)


@contextmanager
def quick() -> Iterator[None]:
    """Let DVC write dvc.lock a stage at a time for as long as this lasts."""
    dvc.dvcfile.modify_yaml = modified
    try:
        yield
    finally:
        dvc.dvcfile.modify_yaml = modify_yaml


@contextmanager
def modified(path: str, fs: Any = None) -> Iterator[dict[str, Any]]:
    """Yield the content of a file, as DVC's `modify_yaml` does, and write what the caller has changed in it."""
    file = Path(path)
    text = file.read_text(encoding="utf-8") if file.name == LOCK and file.is_file() else ""
    block = _STAGES.search(text)
    if block is None or _SHARED.search(text):  # another file, or one of another form
        with modify_yaml(path, fs=fs) as content:
            yield content
            if file.name == LOCK and "stages" in content:
                content["stages"] = _unshared(content["stages"])
        return
    read = parsed(text.encode())
    before = read["stages"]
    content = read | {"stages": dict(before)}  # DVC puts new stages in, and leaves those there are as they are
    yield content
    written = re.split(r"^(?=  \S)", block[1], flags=re.MULTILINE)[1:]
    stages = dict(zip(before, written, strict=True))
    changed = {name: body for name, body in content["stages"].items() if body != before.get(name)}
    for name, body in changed.items():
        stages[name] = dumps_yaml({"stages": {name: _unshared(body)}}).removeprefix("stages:\n")
    gone = stages.keys() - content["stages"].keys()
    stages = {name: text for name, text in stages.items() if name not in gone}
    if changed or gone:
        write_text(text[: block.start(1)] + "".join(stages.values()), file)


def _unshared(value: Any) -> Any:
    """The same value of which no two parts are one object."""
    if isinstance(value, dict):
        return {key: _unshared(part) for key, part in value.items()}
    return [_unshared(part) for part in value] if isinstance(value, list) else value
