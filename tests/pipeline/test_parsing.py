"""DVC's YAML is parsed once and its parameters looked up: equal values, an edit is seen, and nothing is shared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dpath
import pytest
from dvc.dependency.param import read_param_file
from dvc.fs import LocalFileSystem
from dvc.utils import strictyaml
from dvc.utils.serialize import _yaml
from voluptuous import Schema

from epsilometer.pipeline.parsing import once


def test_parameters_are_what_dvc_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name without a search; what a name alone does not lead to is left to DVC's own way."""
    (tmp_path / "params.yaml").write_text("a: {b: [1, {c: 2}], 3: x, d: {e: null}}\nf: false\n")
    files, searched = LocalFileSystem(), []

    def read(*names: str) -> dict[str, Any]:
        return dict(read_param_file(files, str(tmp_path / "params.yaml"), list(names), flatten=True))

    names = ["a", "a.b", "a.d.e", "f", "a.b.1.c", "a.3", "a.absent", "f.below", "a.d*"]
    expected = read(*names)
    search = dpath.get
    monkeypatch.setattr(dpath, "get", lambda *given, **how: searched.append(given[1]) or search(*given, **how))
    with once():
        assert read(*names) == expected
    assert searched == ["a.b.1.c", "a.3", "a.absent", "f.below", "a.d*"]


def test_dvc_parses_a_text_once_and_sees_an_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through DVC's own readers: this fails if an update of DVC parses by another name."""
    parse, texts = _yaml.parse_yaml, []

    def counted(text: str, path: str, typ: str = "safe") -> Any:
        texts.append(text)
        return parse(text, path, typ)

    monkeypatch.setattr(_yaml, "parse_yaml", counted)
    file, files = tmp_path / "params.yaml", LocalFileSystem()
    file.write_text("a: {b: [1, 2.5, 1e3, yes]}\n")
    with once():
        one = read_param_file(files, str(file))
        one["a"]["b"].append("changed by who was given it")
        assert read_param_file(files, str(file)) == strictyaml.load(str(file))[0] == parse(file.read_text(), str(file))
        assert len(texts) == 1
        file.write_text("a: 2\n")
        assert read_param_file(files, str(file)) == {"a": 2}
        file.write_text("a: [\n")
        with pytest.raises(_yaml.YAMLFileCorruptedError):
            read_param_file(files, str(file))
    assert _yaml.parse_yaml is counted
    assert strictyaml.parse_yaml is counted


def test_dvc_validates_a_text_once_and_refuses_an_edit(tmp_path: Path) -> None:
    """A text is valid by one schema and not by another; what is not valid is refused however often it is read."""
    file, seen = tmp_path / "dvc.yaml", []
    file.write_text("a: 1\n")
    numbers, texts = Schema({"a": seen.append}), Schema({"a": str})
    with once():
        for _ in range(2):
            strictyaml.load(str(file), numbers)
            with pytest.raises(strictyaml.YAMLValidationError):
                strictyaml.load(str(file), texts)
        assert seen == [1]
        file.write_text("a: 2\n")
        strictyaml.load(str(file), numbers)
    assert seen == [1, 2]
