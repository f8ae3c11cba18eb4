"""The syntax of files, and the packages that modules come from, remembered from one run of stage `code` to the next.

The stage runs in every audit, also where nothing has changed, and reading the syntax of all that it reaches is most of
its work. What is remembered is of equal bytes (`core.imports.read`) and of an equal state of what is installed
(`project.code.packages`), so that it cannot say anything else than reading again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from epsilometer.core import atomic, imports, syntax
from epsilometer.core.syntax import Import, Syntax
from epsilometer.project import code
from epsilometer.runtime.progress import note

_NAME = ".dvc/tmp/epsilometer.imports"  # DVC's folder for what a machine may forget


@contextmanager
def remembered() -> Iterator[None]:
    """Use what earlier processes have read, and leave what this one has; nothing where there is no DVC project.

    A damaged file is named and written anew; one by another version of Python or of what reads imports is passed over.
    """
    file = Path(os.environ.get("DVC_ROOT", "."), _NAME)
    if not file.parent.is_dir():
        yield
        return
    if file.is_file():
        _recall(file)
    yield
    here = {state: every for state, every in code.packages.items() if state == code.installed()}
    text = json.dumps({"syntax": imports.read, "packages": here}, sort_keys=True)
    written = f"{_reader()} {_digest(text.encode())}\n{text}"
    if not (file.is_file() and file.read_bytes() == written.encode()):
        atomic.write_text(written, file)


def _recall(file: Path) -> None:
    """Take over what a file says, unless it is damaged or another version wrote it."""
    head, _, text = file.read_bytes().partition(b"\n")
    reader, _, written = head.decode("ascii", "replace").partition(" ")
    if written != _digest(text):
        note(f"{file}, what was remembered of code, is damaged; all files are read again, and it is written anew")
    elif reader == _reader():
        content = json.loads(text)
        of_files = content["syntax"].items()
        imports.earlier.update(
            {name: Syntax(tree, [Import(*each) for each in every]) for name, (tree, every) in of_files}
        )
        code.packages.update(content["packages"])


def _reader() -> str:
    """Names what reads syntax: this version of it, on this Python."""
    return _digest(Path(str(syntax.__file__)).read_bytes() + b"\0" + sys.version.encode())


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=16).hexdigest()
