"""Hostile texts, files and paths; keys and private texts that must not get about: the tests of docs/security.md."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT

from epsilometer.checking import check
from epsilometer.errors import UserError
from epsilometer.params import read

# --- Paths ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def good() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "params.yaml").read_text())


def given(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / "params.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


TEM = ("cells", "queries-tem")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("datasets", "queries", "source"), "../../etc/passwd", r"queries.source must lie .* '../../etc/passwd'"),
        (("datasets", "queries", "source"), "data/../../x.csv", r"add `outside: \[data/../..\]`"),
        (("models", "minilm-mlm"), "../model", r"models.minilm-mlm must lie in the project"),
        (("words", "sources", "minilm"), "../words.txt", r"words.sources.minilm must lie in the project"),
        ((*TEM, "file"), "../evil.py", r"cells.queries-tem.file must lie in the project, got '../evil.py'"),
        (("mechanisms", "tem", "file"), "a/../../evil.py", r"mechanisms.tem.file must lie in the project"),
        ((*TEM, "resource"), "../../../root/.ssh/id_rsa", r"cells.queries-tem.resource must lie in the project"),
        ((*TEM, "settings"), {"sensitive": "../private.txt"}, r"cells.queries-tem.settings.sensitive must lie"),
        (("attacks", "../evil.py"), {}, r"attacks must lie in the project, got '../evil.py'"),
        (("attacks", "embedding", "model"), "../model", r"attacks.embedding.model must lie in the project"),
        (("embedding", "model"), "../model", r"embedding.model must lie in the project"),
    ],
)  # fmt: skip
def test_a_relative_path_stays_in_the_project(
    tmp_path: Path, good: dict[str, Any], place: tuple[str, ...], value: Any, message: str
) -> None:
    section: Any = good
    for key in place[:-1]:
        section = section[key]
    section[place[-1]] = value
    with pytest.raises(UserError, match=message):
        read(given(tmp_path, good))


@pytest.mark.parametrize("name", ["../x", "a/b", "/etc/x", "..", "", "x\n", "a\0b", "-x", "x" * 101])
@pytest.mark.parametrize("kind", ["datasets", "mechanisms", "models", "words"])
def test_names_cannot_be_paths(tmp_path: Path, good: dict[str, Any], kind: str, name: str) -> None:
    named = good["words"]["sources"] if kind == "words" else good[kind]
    named[name] = copy.deepcopy(next(iter(named.values())))
    with pytest.raises(UserError, match=r"a name in .* must be letters, digits"):
        read(given(tmp_path, good))


def test_a_cell_cannot_be_named_as_a_path(tmp_path: Path, good: dict[str, Any]) -> None:
    """A cell is named by its parts, and these are names."""
    good["cells"]["queries-../../x"] = good["cells"]["queries-tem"] | {"mechanism": "../../x"}
    with pytest.raises(UserError, match="a name in cells"):
        read(given(tmp_path, good))


def test_data_beside_the_project_must_be_named_as_outside(tmp_path: Path, good: dict[str, Any]) -> None:
    good["datasets"]["queries"]["source"] = "../shared/data/atis.parquet"
    with pytest.raises(UserError, match=r"add `outside: \[../shared/data\]`"):
        read(given(tmp_path, good))
    good["outside"] = ["../shared"]
    assert read(given(tmp_path, good)).datasets["queries"].source == "../shared/data/atis.parquet"
    good["datasets"]["queries"]["source"] = "../shared/../secret.parquet"
    with pytest.raises(UserError, match=r"datasets.queries.source must lie"):
        read(given(tmp_path, good))


def test_an_absolute_path_is_meant(tmp_path: Path, good: dict[str, Any]) -> None:
    good["datasets"]["queries"]["source"] = "/data/texts.parquet"
    good["cells"]["queries-tem"]["resource"] = "/data/vectors.npz"
    assert read(given(tmp_path, good)).cells["queries-tem"].resource == "/data/vectors.npz"


def test_a_run_in_a_folder_of_its_own_reaches_its_project(tmp_path: Path, good: dict[str, Any]) -> None:
    """A profile's `root` is ../..: resources may be the project's, and no others."""
    good["root"] = "../.."
    good["cells"]["queries-tem"]["resource"] = "../../data/vectors/minilm.npz"
    read(given(tmp_path, good))
    good["cells"]["queries-tem"]["resource"] = "../../../data/vectors/minilm.npz"
    with pytest.raises(UserError, match="must lie in the project"):
        read(given(tmp_path, good))


def test_a_link_that_leads_out_is_refused(
    tmp_path: Path, good: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "texts.csv").write_text("text\nsecret\n")
    (project / "texts.csv").symlink_to(tmp_path / "elsewhere" / "texts.csv")
    good["datasets"] = {"queries": {"source": "texts.csv"}}
    good["cells"] = {k: v for k, v in good["cells"].items() if k == "queries-tem"}
    monkeypatch.chdir(project)
    with pytest.raises(UserError, match=r"'texts.csv' is a link that leads out of the project"):
        check(read(given(project, good)))
    good["outside"] = ["../elsewhere"]
    with pytest.raises(UserError) as other:  # a later check of the same file: the link is accepted
        check(read(given(project, good)))
    assert "link" not in str(other.value)
