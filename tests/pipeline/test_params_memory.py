"""DVC's parameters are parsed once for each state of their file."""

from pathlib import Path

import pytest
from dvc.dependency import param
from dvc.fs import LocalFileSystem

from epsilometer.pipeline import params_memory


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that DVC's own reader parsed, in order."""
    paths: list[str] = []
    parse = params_memory._parse

    def counted(path: str, *rest: object, **options: object) -> object:
        paths.append(path)
        return parse(path, *rest, **options)

    monkeypatch.setattr(params_memory, "_parse", counted)
    monkeypatch.setattr(param, "load_path", params_memory._Memory())
    return paths


def test_one_state_of_a_file_is_parsed_once(tmp_path: Path, parsed: list[str]) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("audit: {seed: 0, alpha: 0.01}\n")
    read = [param.read_param_file(LocalFileSystem(), str(path), [key], flatten=True) for key in ("audit", "audit.seed")]
    assert read == [{"audit": {"seed": 0, "alpha": 0.01}}, {"audit.seed": 0}]
    assert parsed == [str(path)]


def test_a_changed_file_is_parsed_again(tmp_path: Path, parsed: list[str]) -> None:
    path = tmp_path / "params.yaml"
    for seed in (0, 1):  # of equal length, and perhaps of the same time
        path.write_text(f"audit: {{seed: {seed}}}\n")
        assert param.read_param_file(LocalFileSystem(), str(path), ["audit.seed"], flatten=True) == {"audit.seed": seed}
    assert len(parsed) == 2


def test_a_file_that_is_no_yaml_is_an_error_each_time(tmp_path: Path, parsed: list[str]) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("audit: {seed: [\n")
    for _ in range(2):
        with pytest.raises(param.ParseError):
            param.read_param_file(LocalFileSystem(), str(path), ["audit"], flatten=True)
