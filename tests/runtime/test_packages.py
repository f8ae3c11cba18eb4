"""Files of packages are downloaded once by pip, compared with their hash, and never run."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from epsilometer.core.errors import UserError
from epsilometer.corpora.reading import read
from epsilometer.runtime import packages
from epsilometer.runtime.packages import Pin
from tests.support.refusals import refused
from tests.support.wheels import only_folder, pin, write_pin, write_wheel

TEXTS = b"text,topic\nhello there,greeting\nhow are you today,greeting\n"
FILE = "small_talk/texts.csv"


@pytest.fixture
def sha256(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a wheel that pip finds."""
    only_folder(monkeypatch, tmp_path)
    return write_wheel(tmp_path, {FILE: TEXTS})


def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail every start of a program."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "run", refuse)


def test_a_file_comes_once_and_is_then_read_without_pip(
    sha256: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_pin(tmp_path / "talk.json", pin(sha256))
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "pip.py").write_text("raise SystemExit('a file of the current folder was executed')\n")
    monkeypatch.chdir(tmp_path)
    first = read(path, labels=["topic"])
    assert first["text"].to_list() == ["hello there", "how are you today"]
    offline(monkeypatch)
    assert read(path, labels=["topic"]).equals(first)
    there = packages.content(Pin(**pin(sha256)))
    assert there is not None
    assert (there.size, there.licence) == (len(TEXTS), "MIT")
    cached = [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]
    assert sorted(file.name for file in cached) == ["texts.csv", "texts.csv.record"]
    assert "small_talk" not in sys.modules


def test_a_damaged_file_comes_again_and_what_a_killed_download_left_goes(sha256: str) -> None:
    wanted = Pin(**pin(sha256))
    place = packages.fetch(wanted)
    place.write_bytes(TEXTS[::-1])
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    left = [place.with_name(f"partial-{platform.node()}-{number}-x") for number in (process.pid, os.getpid())]
    for folder in left:
        folder.mkdir()
    assert packages.file(wanted) == place
    assert [folder.exists() for folder in left] == [False, True]
    assert packages.file(wanted).read_bytes() == TEXTS
    packages.file(wanted).write_bytes(TEXTS[:-1])
    assert packages.content(wanted) is None
    assert packages.file(wanted).read_bytes() == TEXTS


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"sha256": "0" * 64}, ("EPS-C098", "SHA-256")),
        ({"version": "2.0"}, ("EPS-C096", "2.0", "1.0")),
        ({"name": "loud-talk"}, ("EPS-C095", "loud-talk", "1.0", "PIP_FIND_LINKS")),
        ({"file": "small_talk/words.csv"}, ("EPS-C100", "small_talk/words.csv", "6", "texts.csv")),
        ({"size": 10**18, "unpacked": 10**18}, ("EPS-C090", "XDG_CACHE_HOME")),
    ],
)
def test_what_cannot_be_had_is_named_with_a_remedy(
    changes: dict[str, Any], refusal: tuple[str, ...], sha256: str
) -> None:
    wanted = Pin(**pin(sha256) | changes)
    with refused(*refusal):
        packages.file(wanted)
    assert packages.content(wanted) is None


def test_too_small_a_disk_is_said_before_pip_is_started(sha256: str, monkeypatch: pytest.MonkeyPatch) -> None:
    offline(monkeypatch)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    with refused("EPS-C090", "11", "10"):
        packages.file(Pin(**pin(sha256, size=6, unpacked=5)))


def test_no_network_is_not_taken_for_an_unknown_package(sha256: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nothing listens at this port
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with refused("EPS-C094", "epsilometer check params --fetch", "PROFILE=generated"):
        packages.file(Pin(**pin(sha256)))


def unpacked(folder: Path, files: dict[str, bytes], **changes: Any) -> tuple[Path, Pin]:
    """The place of the file of a wheel that pip would have downloaded, and its pin."""
    wanted, out = Pin(**pin(write_wheel(folder, files, **changes))), folder / "out/texts.csv"
    packages._unpack(wanted, next(folder.glob("*.whl")), out)
    return out, wanted


def test_a_list_of_files_ends_at_ten(tmp_path: Path) -> None:
    files = {f"small_talk/{i:02}.csv": b"a b\n" * (1000 + i) for i in range(20)}
    with refused("EPS-C100", "25", "19", "18", "17", "16", "15", "14", "13", "12", "11", "10"):
        unpacked(tmp_path, files)


def test_a_link_in_a_wheel_is_refused(tmp_path: Path) -> None:
    with refused("EPS-C101"):
        unpacked(tmp_path, {FILE: b"/etc/passwd"}, links=(FILE,))
    assert not (tmp_path / "out").exists()


def test_what_becomes_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPSILOMETER_UNPACKED_BYTES", "100000")
    (tmp_path / "out").mkdir()
    with refused("EPS-C102", "1", "100"):
        unpacked(tmp_path, {FILE: b"text\n" + b"a" * 10**6})
    assert not [*(tmp_path / "out").iterdir()]


def test_bytes_that_are_no_zip_are_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "bytes"
    wheel.write_bytes(b"PK no zip")
    with refused("EPS-C099"):
        packages._unpack(Pin(**pin("0" * 64)), wheel, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_special_terms_must_be_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_folder(monkeypatch, tmp_path)
    wanted = pin(write_wheel(tmp_path, {FILE: TEXTS}, licence="License: Gemma Terms of Use"))
    with refused("EPS-C089"):
        packages.file(Pin(**wanted))
    assert packages.content(Pin(**wanted)) is None
    assert packages.file(Pin(**wanted, accept_licence=True)).read_bytes() == TEXTS
    with refused("EPS-C089"):  # although the file exists
        packages.file(Pin(**wanted))


def test_terms_that_a_name_shows_are_asked_for_before_a_download(monkeypatch: pytest.MonkeyPatch) -> None:
    offline(monkeypatch)
    with refused("EPS-C089"):
        packages.file(Pin(**pin("0" * 64, name="gemma-small")))


def test_a_damaged_member_is_refused(tmp_path: Path) -> None:
    wanted = Pin(**pin(write_wheel(tmp_path, {FILE: bytes(range(256)) * 40})))
    wheel = next(tmp_path.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        start = archive.getinfo(FILE).header_offset + 30 + len(FILE)
    content = bytearray(wheel.read_bytes())
    content[start : start + 20] = bytes(20)
    wheel.write_bytes(content)
    (tmp_path / "out").mkdir()
    with refused("EPS-C099"):
        packages._unpack(wanted, wheel, tmp_path / "out/texts.csv")
    assert not [*(tmp_path / "out").iterdir()]


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"file": "../../etc/passwd"}, ("EPS-C088", "package.file", "../../etc/passwd")),
        ({"file": "/etc/passwd"}, ("EPS-C088", "package.file", "'/etc/passwd'")),
        ({"file": "a\\..\\b"}, ("EPS-C088", "package.file", "a\\\\..\\\\b")),
        ({"name": "x --index-url=http://x"}, ("EPS-C088", "package.name", "x --index-url=http://x")),
        ({"version": "1.0\nother==2"}, ("EPS-C088", "package.version", "1.0\\nother==2")),
        ({"sha256": "ABC"}, ("EPS-C088", "package.sha256", "SHA-256", "'ABC'")),
        ({"size": 0}, ("EPS-C088", "package.size", "0")),
        ({"licence": "MIT"}, ("EPS-C088", "package.licence", "'MIT'")),
    ],
)
def test_a_wrong_pin_is_refused(changes: dict[str, Any], refusal: tuple[str, ...], tmp_path: Path) -> None:
    path = write_pin(tmp_path / "talk.json", pin("0" * 64) | changes)
    with refused(*refusal):
        packages.read_pin(path)


@pytest.mark.parametrize(
    ("licence", "shown"),
    [
        ("License-Expression: Apache-2.0\nLicense: other", "Apache-2.0"),
        ("License: MIT\n License\n of many lines", "MIT"),
        (
            "Classifier: Programming Language :: Python\nClassifier: License :: OSI Approved :: MIT License",
            "MIT License",
        ),
        ("Summary: none", None),
    ],
)
def test_the_licence_is_that_of_the_metadata(licence: str, shown: str | None, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    path, _ = unpacked(tmp_path, {FILE: TEXTS}, licence=licence)
    assert path.read_bytes() == TEXTS
    assert json.loads(path.with_name("texts.csv.record").read_text())["licence"] == shown


FOLDER = {"small_talk/model/config.cfg": b"a", "small_talk/model/deep/weights": b"bc", "small_talk/other.txt": b"d"}


def test_a_folder_comes_whole_and_is_then_read_without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_folder(monkeypatch, tmp_path)
    wanted = Pin(**pin(write_wheel(tmp_path, FOLDER), file="small_talk/model/config.cfg"))
    folder = packages.folder(wanted)
    shipped = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    shipped.pop("SHA256SUMS")
    assert shipped == {"config.cfg": b"a", "deep/weights": b"bc"}
    content = packages.content(wanted)
    assert content is not None
    assert content.licence == "MIT"
    with monkeypatch.context() as patched:
        offline(patched)
        assert packages.folder(wanted) == folder
        (folder / "deep/weights").write_bytes(b"xy")
        with refused("EPS-C077", "weights"):
            packages.folder(wanted)
    shutil.rmtree(folder)
    assert packages.folder(wanted) == folder
    assert (folder / "deep/weights").read_bytes() == b"bc"


def test_a_path_that_leads_out_of_its_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_folder(monkeypatch, tmp_path)
    files = {"small_talk/model/config.cfg": b"a", "small_talk/model/../../../evil": b"b"}
    wanted = Pin(**pin(write_wheel(tmp_path, files), file="small_talk/model/config.cfg"))
    with refused("EPS-C125", "small-talk", "evil"):
        packages.folder(wanted)
    assert packages.content(wanted) is None
    assert not [*tmp_path.glob("**/evil")]


def test_a_folder_with_a_link_or_too_many_bytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_folder(monkeypatch, tmp_path)
    (name, *_) = FOLDER
    wanted = pin(write_wheel(tmp_path, FOLDER, links=("small_talk/model/deep/weights",)), file=name)
    with refused("EPS-C101", "deep/weights", whole=False) as link:
        packages.folder(Pin(**wanted))
    monkeypatch.setenv("EPSILOMETER_UNPACKED_BYTES", "100000")
    large = {name: b"a" * 60_000, "small_talk/model/b": b"b" * 60_000}
    wanted = pin(write_wheel(tmp_path, large), file=name)
    with pytest.raises(UserError) as many:
        packages.folder(Pin(**wanted))
    assert (link.value.code, many.value.code) == ("EPS-C101", "EPS-C102")
