"""Default models of components: assembled once from the embedded weights, and stored in the user's cache folder.

The pipeline's stages assemble the same files again, as outputs that DVC tracks.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from epsilometer.core.component import EMBEDDED
from epsilometer.core.errors import UserError, disk_trouble
from epsilometer.models.locate import ENCODER, locate
from epsilometer.runtime import checksums
from epsilometer.runtime.progress import note
from epsilometer.runtime.unfinished import abandoned


def masked_lm() -> Path:
    """Return the folder of the embedded masked language model."""
    from epsilometer.models.masked_lm import assemble

    def make(out: Path) -> None:
        assemble(weights("minilm-mlm"), locate(ENCODER), out)

    return cached("minilm-mlm", "the embedded masked language model", make)


def seq2seq() -> Path:
    """Return the folder of the embedded encoder-decoder."""
    from epsilometer.models.seq2seq import assemble

    def make(out: Path) -> None:
        assemble(weights("minilm-seq2seq"), locate(ENCODER), out)

    return cached("minilm-seq2seq", "the embedded encoder-decoder", make)


def paraphraser() -> Path:
    """Return the folder of the embedded decoder-only paraphraser."""

    def make(out: Path) -> None:
        shutil.copytree(weights("minilm-paraphraser"), out)

    return cached("minilm-paraphraser", "the embedded decoder-only paraphraser", make)


def weights(name: str) -> Path:
    """Return the folder of embedded weights. Raises UserError if they are missing or damaged."""
    if not (EMBEDDED / name).is_dir():
        raise UserError(
            f"embedded weights not found at {EMBEDDED / name}; set `resource` to the folder of a model", "EPS-N025"
        )
    checksums.check(EMBEDDED / name)
    return EMBEDDED / name


def cached(name: str, description: str, make: Callable[[Path], None]) -> Path:
    """Return the path of a file or folder in the user's cache. If it is missing, `make` writes it to a given path.

    Partial files are deleted, including partial files of killed processes. Raises UserError if the cache cannot be
    written.
    """
    from platformdirs import user_cache_path

    path = user_cache_path("epsilometer") / name
    if (EMBEDDED / name).is_dir():  # so that retrained weights get another name
        from epsilometer.models.bounds import weights_hash

        path = path.with_name(f"{name}-{weights_hash(EMBEDDED / name)[:8]}")
    here = platform.node()  # several machines may share a home directory and have equal process ids
    for left in path.parent.glob(f"partial-{here}-*"):
        number = re.match(r"\d+(?=-)", left.name.removeprefix(f"partial-{here}-"))
        if number and abandoned(left, int(number[0])):
            _delete(left)
    if not path.exists():
        partial = path.with_name(f"partial-{here}-{os.getpid()}-{name}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            note(f"computing once, to be cached in {path}: {description}")
            make(partial)
            if partial.is_dir():
                checksums.write(partial)
            os.replace(partial, path)
        except OSError as error:
            if (trouble := disk_trouble(error)) is None:
                raise
            raise UserError(
                f"{name} cannot be cached in {path.parent}: {trouble}, then run again", "EPS-N026"
            ) from error
        finally:
            _delete(partial)
    checksums.check(path)
    return path


def _delete(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
