"""Local wheels, and settings that make pip read only these."""

from __future__ import annotations

import hashlib
import json
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

EVIL = "raise SystemExit('a file of the wheel was executed')\n"


def only_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make pip read only the wheels of a folder, and put the user's cache into this folder."""
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))


def write_wheel(
    folder: Path,
    files: Mapping[str, bytes],
    name: str = "small-talk",
    version: str = "1.0",
    licence: str = "License: MIT",
    links: tuple[str, ...] = (),
) -> str:
    """Write a wheel whose code exits if it is run, and return its SHA-256. links: files to store as symbolic links."""
    module = name.replace("-", "_")
    path, info = folder / f"{module}-{version}-py3-none-any.whl", f"{module}-{version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(f"{module}/__init__.py", EVIL)
        wheel.writestr(f"{module}.pth", f"import {module}\n")
        for member, content in files.items():
            entry = zipfile.ZipInfo(member)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (stat.S_IFLNK | 0o777) << 16 if member in links else (stat.S_IFREG | 0o644) << 16
            wheel.writestr(entry, content)
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{licence}\n\n# x\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def pin(sha256: str, **changes: Any) -> dict[str, Any]:
    """Return a pin of the texts of the package small-talk."""
    return {"name": "small-talk", "version": "1.0", "sha256": sha256, "file": "small_talk/texts.csv"} | changes


def write_pin(path: Path, content: Mapping[str, Any]) -> Path:
    """Write a pin, and return its path."""
    path.write_text(json.dumps({"package": content}))
    return path
