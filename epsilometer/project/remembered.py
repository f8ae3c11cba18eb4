"""What files import, and which packages modules come from, remembered from one run of stage `code` to the next.

The stage runs in every audit, also where nothing has changed, and reading the syntax of all that it reaches is most of
its work. What is remembered is of equal bytes (`core.imports.statements`) and of an equal state of what is installed
(`project.code.packages`), so that it cannot say anything else than reading again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from epsilometer.core import atomic, imports
from epsilometer.project import code

_NAME = ".dvc/tmp/epsilometer.imports"  # DVC's folder for what a machine may forget


@contextmanager
def remembered() -> Iterator[None]:
    """Use what earlier processes have read, and leave what this one has; nothing where there is no DVC project.

    A damaged file, or one by another version of Python or of what reads imports, is passed over.
    """
    file = Path(os.environ.get("DVC_ROOT", "."), _NAME)
    if not file.parent.is_dir():
        yield
        return
    with suppress(OSError, ValueError):
        name, _, text = file.read_text(encoding="utf-8").partition("\n")
        if name == _name(text):
            content = json.loads(text)
            imports.earlier.update(content["imports"])
            code.packages.update(content["packages"])
    yield
    here = {state: every for state, every in code.packages.items() if state == code.installed()}
    text = json.dumps({"imports": imports.statements, "packages": here}, sort_keys=True)
    written = f"{_name(text)}\n{text}"
    if not (file.is_file() and file.read_bytes() == written.encode()):
        atomic.write_text(written, file)


def _name(text: str) -> str:
    reader = Path(str(imports.__file__)).read_bytes()
    return hashlib.blake2b(b"\0".join([reader, sys.version.encode(), text.encode()]), digest_size=16).hexdigest()
