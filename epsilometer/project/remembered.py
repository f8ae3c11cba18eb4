"""A cache of the syntax of files, and of the packages that modules come from, between runs of stage `code`.

The stage runs in every audit, even if nothing has changed, and most of its time goes into parsing code. The keys of
the cache are hashes of the bytes of files (`core.imports.read`) and of the state of the installation
(`project.code.packages`). So the cache gives the same result as parsing again.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from epsilometer.core import atomic, imports, syntax
from epsilometer.core.syntax import Import, Syntax
from epsilometer.project import code
from epsilometer.runtime.progress import note

_NAME = ".dvc/tmp/epsilometer.imports"  # DVC's folder for files that a machine may forget


@contextmanager
def remembered(project: Path) -> Iterator[None]:
    """Load the cached entries at the start of a block, and store them at its end; does nothing outside a DVC project.

    project: the folder with `.dvc`. A damaged cache is reported and replaced. A cache that another version of Python
    or of the parser wrote is ignored.
    """
    file = project / _NAME
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
    """Load the entries of a file, unless it is damaged or another version wrote it."""
    head, _, text = file.read_bytes().partition(b"\n")
    reader, _, written = head.decode("ascii", "replace").partition(" ")
    if written != _digest(text):
        note(f"{file}, the cache of parsed code, is damaged; all files are parsed again, and the cache is rewritten")
    elif reader == _reader():
        content = json.loads(text)
        of_files = content["syntax"].items()
        imports.earlier.update(
            {name: Syntax(tree, [Import(*each) for each in every]) for name, (tree, every) in of_files}
        )
        code.packages.update(content["packages"])


def _reader() -> str:
    """Return a hash of the parser's code and of the version of Python."""
    return _digest(Path(str(syntax.__file__)).read_bytes() + b"\0" + sys.version.encode())


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=16).hexdigest()
