"""A repository of the Hugging Face hub at one commit: its files, their local copies, and their verified download.

The cache of the hub's client stores the files in the client's layout, so that other programs can use them, too. This
module adds two things to the client. It continues a download that an earlier process began. And it compares every file
with the hash that the commit states: SHA-256 for large files, git's own hash for all other files. The hashes are stored
in the same cache, so that `state` can tell without a network what is missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from epsilometer.core import atomic
from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import say

_COMMIT = re.compile(r"[0-9a-f]{40}")
_WAIT = 30.0  # seconds to wait for the list of a repository's files

# A function that chooses wanted files among a repository's file names. Its second argument is a function that downloads
# and reads one file.
Choice = Callable[[Sequence[str], Callable[[str], str]], list[str]]


@dataclass(frozen=True)
class Repository:
    """A model or data set of the hub.

    name: owner/name. revision: a commit, branch or tag; None: "main". part: a configuration of a data set.
    """

    kind: Literal["model", "dataset"]
    name: str
    revision: str | None = None
    part: str | None = None

    def __str__(self) -> str:
        kind = "data set" if self.kind == "dataset" else "model"
        return f"{kind} {self.name}" + (f"@{self.revision}" if self.revision else "")

    @property
    def command(self) -> str:
        """The command of the hub's own program that downloads the repository."""
        kind = "--repo-type dataset " if self.kind == "dataset" else ""
        return f"hf download {kind}{self.name}" + (f" --revision {self.revision}" if self.revision else "")


@dataclass(frozen=True)
class File:
    """A file of a commit: its size in bytes, and its SHA-256, or git's SHA-1 if the hash has 40 digits."""

    name: str
    size: int
    hash: str


@dataclass(frozen=True)
class State:
    """The local state of a repository, in bytes.

    size: the size of all wanted files; None if the hub was never asked. here: the size of the complete files. begun:
    the size of the incomplete files.
    """

    size: int | None
    here: int
    begun: int

    @property
    def whole(self) -> bool:
        """True if no file is missing. False if the size is unknown."""
        return self.size is not None and self.here == self.size


def snapshot(repository: Repository) -> Path | None:
    """Return the folder of the commit's files in the cache, even if files are missing; None without a folder."""
    commit = _commit(repository)
    folder = _storage(repository) / "snapshots" / commit if commit else None
    return folder if folder is not None and folder.is_dir() else None


def state(repository: Repository) -> State:
    """Return the local state. File sizes decide what is complete, since downloads have already compared the bytes."""
    files, blobs = recorded(repository), _storage(repository) / "blobs"
    folder = snapshot(repository)
    if files is None or folder is None:
        here = [path for path in folder.rglob("*") if path.is_file()] if folder else []
        return State(None, sum(path.stat().st_size for path in here), 0)
    whole = [file for file in files if _size(folder / file.name) == file.size]
    partial = (_size(blobs / f"{file.hash}.incomplete") for file in files if file not in whole)
    return State(sum(file.size for file in files), sum(file.size for file in whole), sum(filter(None, partial)))


def recorded(repository: Repository) -> list[File] | None:
    """Return the wanted files with the sizes and hashes in the commit; None if the hub was never asked."""
    path = _record(repository)
    if path is None or not path.is_file():
        return None
    try:
        return [File(**file) for file in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError):
        return None  # a damaged record counts as missing; the next fetch writes it again


def fetch(repository: Repository, choose: Choice) -> Path:
    """Download the wanted files, resuming partial ones, and compare all of them with the commit's hashes.

    choose: selects the wanted files by name. Returns the folder of these files. Raises UserError if the hub cannot be
    reached, if the repository does not exist or requires an agreement first, if the disk space is too small, and if a
    file's hash differs from the commit's.
    """
    with _explained(repository):
        commit, files = _listed(repository)
        storage = _storage(repository)

        def read(name: str) -> str:
            return _got(repository, commit, files[name]).read_text(encoding="utf-8")

        names = choose(sorted(files), read)
        wanted = [files[name] for name in names]
        if repository.revision != commit:  # the hub's client also records the commit of a branch or tag here
            atomic.write_text(commit, storage / "refs" / (repository.revision or "main"))
        folder = storage / "snapshots" / commit
        folder.mkdir(parents=True, exist_ok=True)
        record = _record(repository)
        if record is not None:
            atomic.write_json([asdict(file) for file in wanted], record)
        _check_space(repository, storage, state(repository))
        for number, file in enumerate(wanted, 1):
            if _size(folder / file.name) != file.size:
                say(f"{repository.name}: {file.name}, {amount(file.size)}, file {number} of {len(wanted)}")
            _got(repository, commit, file)
    return folder


def amount(size: float) -> str:
    """Return a number of bytes in a suitable unit. Units are powers of 1,000, as on the hub's pages."""
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= length:
            return f"{size / length:.3g} {unit}"
    return f"{size:.0f} bytes"


def _storage(repository: Repository) -> Path:
    from huggingface_hub import constants

    parts = [f"{repository.kind}s", *repository.name.split("/")]
    return Path(constants.HF_HUB_CACHE, "--".join(parts))


def _commit(repository: Repository) -> str | None:
    """Return the commit of the revision; None if it is not known locally."""
    if repository.revision and _COMMIT.fullmatch(repository.revision):
        return repository.revision
    path = _storage(repository) / "refs" / (repository.revision or "main")
    return path.read_text(encoding="utf-8").strip() if path.is_file() else None


def _record(repository: Repository) -> Path | None:
    commit = _commit(repository)
    part = f"-{repository.part}" if repository.part else ""
    return _storage(repository) / f"epsilometer-{commit}{part}.json" if commit else None


def _listed(repository: Repository) -> tuple[str, dict[str, File]]:
    """Return the commit and its files by name, from the hub."""
    from huggingface_hub import HfApi

    info: Any = HfApi().repo_info(
        repository.name,
        repo_type=repository.kind,
        revision=repository.revision,
        files_metadata=True,
        timeout=_WAIT,
    )
    revision = repository.revision
    if not info.sha or (revision and _COMMIT.fullmatch(revision) and info.sha != revision):
        raise UserError(f"the hub returned the commit {info.sha} instead of {repository}; try again later", "EPS-C079")
    files = {}
    for file in info.siblings or []:
        stated = file.lfs.sha256 if file.lfs else file.blob_id
        if file.size is None or not stated:
            raise UserError(
                f"the hub states neither size nor hash of {file.rfilename} in {repository}; try again later", "EPS-C080"
            )
        files[file.rfilename] = File(file.rfilename, file.size, stated)
    return info.sha, files


def _got(repository: Repository, commit: str, file: File) -> Path:
    """Return a file's path in the snapshot. Downloads missing bytes, and raises UserError for a wrong hash."""
    from huggingface_hub.utils import WeakFileLock

    storage = _storage(repository)
    blob, place = storage / "blobs" / file.hash, storage / "snapshots" / commit / file.name
    blob.parent.mkdir(parents=True, exist_ok=True)
    if not _COMMIT.fullmatch(file.hash[:40]) or not place.resolve().parent.is_relative_to(storage.resolve()):
        raise UserError(
            f"the hub states an invalid name or hash for {file.name!r} in {repository}; do not use this source",
            "EPS-C081",
        )
    with WeakFileLock(blob.with_name(f"{file.hash}.lock")):
        if blob.exists() and not _holds(blob, file):
            blob.unlink()  # damaged: download it again
        if not blob.exists():
            partial = blob.with_name(f"{file.hash}.incomplete")
            _download(repository, commit, file, partial)
            if not _holds(partial, file):
                partial.unlink()
                raise UserError(
                    f"{file.name} of {repository} arrived with a size or hash that differs from its commit's and was "
                    "deleted; run `epsilometer check params --fetch` again, and if that fails in the same way, do not "
                    "use this source",
                    "EPS-C082",
                )
            os.replace(partial, blob)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(os.path.relpath(blob, place.parent))
    return place


def _download(repository: Repository, commit: str, file: File, partial: Path) -> None:
    """Download the missing end of a partial file. If the connection breaks, the longer partial file stays."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    with partial.open("ab") as out:
        if out.tell() > file.size:
            out.seek(0)
            out.truncate()
        http_get(
            hf_hub_url(repository.name, file.name, repo_type=repository.kind, revision=commit),
            out,
            resume_size=out.tell(),
            headers={**build_hf_headers(), "Accept-Encoding": "identity"},  # else the download cannot continue later
            expected_size=file.size,
            displayed_filename=file.name,
        )


def _holds(path: Path, file: File) -> bool:
    """Return True if a file has the stated size and hash."""
    if _size(path) != file.size:
        return False
    digest = hashlib.sha256() if len(file.hash) == 64 else hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
    with path.open("rb") as content:
        while part := content.read(1 << 20):
            digest.update(part)
    return digest.hexdigest() == file.hash


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


def _check_space(repository: Repository, storage: Path, there: State) -> None:
    missing = (there.size or 0) - there.here - there.begun
    free = shutil.disk_usage(storage).free
    if missing > free:
        raise UserError(
            f"{repository} needs {amount(missing)} more at {storage.parent}, but {amount(free)} are free; free some "
            "space, or set the environment variable HF_HOME to a folder on a larger disk",
            "EPS-C083",
        )


@contextmanager
def _explained(repository: Repository) -> Iterator[None]:
    """Turn errors of the hub's client into UserErrors with a remedy."""
    from huggingface_hub.errors import GatedRepoError, HTTPError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        yield
    except UserError:
        raise
    except GatedRepoError as error:
        page = f"{'datasets/' if repository.kind == 'dataset' else ''}{repository.name}"
        raise UserError(
            f"{repository} is gated; open https://huggingface.co/{page}, accept the terms, wait until access is "
            "granted, then `hf auth login` (or set HF_TOKEN) and run `epsilometer check params --fetch` again",
            "EPS-C084",
        ) from error
    except RevisionNotFoundError as error:
        raise UserError(
            f"{repository}: the hub has no such revision; give a commit of https://huggingface.co/{repository.name}",
            "EPS-C085",
        ) from error
    except RepositoryNotFoundError as error:
        raise UserError(
            f"{repository}: the hub has no such repository, or shows it only after a login; correct the name, or run "
            "`hf auth login`",
            "EPS-C086",
        ) from error
    except (OSError, ValueError, HTTPError) as error:  # no network, a broken connection, a malformed name
        kind, name = str(repository).rsplit(" ", 1)
        raise UserError(
            f"{kind} {name!r} cannot be downloaded from the Hugging Face hub ({type(error).__name__}); run "
            "`epsilometer check params --fetch` with a network and without HF_HUB_OFFLINE, which resumes the download "
            f"({repository.command} does too, without comparing hashes), or give a local folder or file, or an "
            "embedded model",
            "EPS-C087",
        ) from error
