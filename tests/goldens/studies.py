"""Projects in temporary folders whose stages run in this process."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Collection, Iterator
from contextlib import chdir
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from dvc.repo import Repo

from epsilometer.pipeline import bodies
from epsilometer.pipeline.params import read
from epsilometer.pipeline.profiles import unwritten
from tests.goldens.recording import recorded, shown
from tests.goldens.texts import write_texts
from tests.goldens.values import of_file
from tests.support.dvc_project import compose
from tests.support.places import ROOT

HERE = Path(__file__).parent
_LEFT_OUT = ("code", "resources", "report")  # records of code and content, and the report's text


def results(study: str) -> dict[str, Any]:
    """Return the guesses in a study's small profile, and the content of each file that its stages write.

    Where no attack guesses sources, as in private training, the files hold all that is measured.
    """
    profile = (HERE / f"profiles/{study}.yaml").read_text(encoding="utf-8")
    records = recorded()
    with TemporaryDirectory() as folder:
        run(Path(folder), yaml.safe_load(profile.replace("ROOT", str(ROOT))))
        data = Path(folder, "data")
        files = {str(path.relative_to(data)): of_file(path) for path in sorted(data.rglob("*")) if path.is_file()}
        return ({"guesses": shown(records)} if records else {}) | files


def run(folder: Path, params: dict[str, Any], only: Collection[str] = ()) -> None:
    """Run the stages that the parameters need, or those of the given names, in the order of DVC's graph.

    The folder gets generated texts, word vectors over their words, and for parameters with models a small BERT, `tiny`.
    """
    file = folder / "params.yaml"
    file.write_text(yaml.safe_dump(params))
    file.write_text(yaml.safe_dump(params | unwritten(read(file))))  # DVC knows no defaults
    with chdir(folder):
        write_texts()
    if "models" in params:
        from tests.support.tiny_models import save_word_bert

        save_word_bert(folder / "tiny", ["the", "a", "and", "was", "is", "good", "great", "bad", "service", "food"])
    subprocess.run(["git", "init", "-q", str(folder)], check=True)  # DVC reads only projects in a Git repository
    (folder / ".dvc").mkdir()
    shutil.copy(ROOT / ".dvc/config", folder / ".dvc")
    compose(folder)
    with chdir(folder):
        for name, *entry in _stages():
            if name not in _LEFT_OUT and (not only or name in only):
                file = bodies()[name].relative_to(ROOT).with_suffix("")
                import_module(".".join(file.parts)).main(*entry)


def _stages() -> Iterator[list[str]]:
    """Yield the words of each stage's command after `epsilometer stage`."""
    graph = Repo(".").index.graph  # an edge leads from a stage to what it depends on
    needs = {stage.addressing: sorted(need.addressing for need in graph[stage]) for stage in graph}
    commands = {stage.addressing: stage.cmd.split() for stage in graph}
    for stage in TopologicalSorter({name: needs[name] for name in sorted(needs)}).static_order():
        yield commands[stage][2:]
