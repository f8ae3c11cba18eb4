"""What a machine and an installation can do."""

from __future__ import annotations

import re

from epsilometer.runtime import machine
from epsilometer.runtime.machine import examined


def test_ten_lines_say_what_is_there(tmp_path) -> None:
    lines = examined(tmp_path)
    assert len(lines) == 10
    assert all(lines.values())
    assert not any("\n" in line for line in lines.values())
    assert re.search(r"\d+ of \d+ cores", lines["processor"])
    assert "checksums verified" in lines["weights"]


def test_what_is_missing_is_named_with_the_command_that_installs_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(machine, "installed", lambda extra: extra not in ("models", "ray"))
    lines = examined(tmp_path)
    assert "pip install 'epsilometer[models,ray]'" in lines["extras"]
    assert lines["GPU"].startswith("not checked")
    assert lines["models"].startswith("none")


def test_damaged_weights_are_named(tmp_path, monkeypatch) -> None:
    (tmp_path / "SHA256SUMS").write_text("0" * 64 + "  model.safetensors\n")
    (tmp_path / "model.safetensors").write_bytes(b"other")
    monkeypatch.setattr(machine, "EMBEDDED", tmp_path)
    assert "damaged" in examined(tmp_path)["weights"]


def test_little_memory_and_one_core_are_said_to_be_slow(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 1)
    monkeypatch.setattr(machine.psutil, "virtual_memory", lambda: type("M", (), {"total": 2**32, "available": 2**30}))
    assert "one core" in examined(tmp_path)["slow"]
    assert "runtime.block" in examined(tmp_path)["slow"]
