"""The composed dvc.yaml contains the stages that params.yaml needs, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from epsilometer.pipeline import composing, dvc_files
from epsilometer.pipeline.params import params_type, read
from epsilometer.pipeline.profiles import copy
from epsilometer.pipeline.stages.code import records
from tests.support.commands import call
from tests.support.places import ROOT
from tests.support.refusals import refused

PROFILES = sorted(path for path in (ROOT / "profiles").glob("*.yaml"))
TRAINING: dict[str, Any] = {
    "audit": {"seed": 0},
    "datasets": {"songs": {"source": "songs.py", "labels": ["mood"]}},
    "models": {"small": "small"},
    "features": {"songs": {"dataset": "songs", "model": "data/models/small"}},
    "private_training": {"songs": {"features": "songs", "label": "mood", "noise": "none"}},
}


def stages(text: str) -> dict[str, Any]:
    return dict(yaml.safe_load(text)["stages"])


def test_the_committed_file_is_the_composed_one() -> None:
    assert (ROOT / "dvc.yaml").read_text() == composing.compose(read(ROOT / "params.yaml"))


def test_a_run_of_one_study_has_the_stages_of_no_other() -> None:
    names = set(stages(composing.compose(params_type().model_validate(TRAINING))))
    shared = {"code", "resources", "prepare", "model", "report"}
    assert names == shared | {"features", "private_training", "training_curves"}


def test_gradients_alone_have_their_curves() -> None:
    raw = {key: TRAINING[key] for key in ("audit", "datasets", "models")} | {
        "sent": {"songs": {"dataset": "songs", "model": "data/models/small", "label": "mood", "noise": "none"}},
        "reconstruction": {"songs": {"sent": "songs", "attacks": {"decepticons": {}}}},
    }
    curves = stages(composing.compose(params_type().model_validate(raw)))["training_curves"]
    assert curves["deps"] == ["data/code/training_curves.json", "data/reconstruction"]


def test_no_stage_depends_on_a_setting_that_is_left_to_its_default() -> None:
    """DVC, which knows no defaults, would fail."""
    raw = yaml.safe_load((ROOT / "params.yaml").read_text())
    assert "decide" in stages(composing.compose(params_type().model_validate(raw)))["decide"]["params"]
    del raw["decide"]
    without = stages(composing.compose(params_type().model_validate(raw)))
    assert without["decide"]["params"] == ["audit.alpha"]
    del raw["datasets"]["queries"]["use"]
    without = stages(composing.compose(params_type().model_validate(raw)))
    assert without["embed"]["do"]["params"] == ["embedding", "datasets.${key}"]
    assert "datasets.${item.dataset}" in without["rewrite"]["do"]["params"]


def test_a_model_in_a_folder_of_ones_own_is_a_dependency_of_whoever_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nothing would be measured again when its files change."""
    run = tmp_path / "project/runs/one"
    (run / "encoder").mkdir(parents=True)
    (tmp_path / "project/classifier").mkdir()
    raw = yaml.safe_load((ROOT / "profiles/anonymize.yaml").read_text()) | {"root": "../.."}
    raw["cells"] = yaml.safe_load((ROOT / "params.yaml").read_text())["cells"]
    raw["datasets"] |= yaml.safe_load((ROOT / "params.yaml").read_text())["datasets"]
    before = stages(composing.compose(params_type().model_validate(raw), run))
    raw |= {"embedding": {"model": "encoder"}}
    raw["classification"]["training"] = {**raw["classification"].get("training", {}), "model": "classifier"}
    params = params_type().model_validate(raw)
    monkeypatch.chdir(tmp_path)
    assert stages(composing.compose(params))["embed"] == before["embed"], "elsewhere these are names of the hub"
    after = stages(composing.compose(params, run))
    added = {}
    for name, stage in after.items():
        of, earlier = (set(each.get("do", each).get("deps", ())) for each in (stage, before[name]))
        if new := of - earlier:
            (added[name],) = new
    assert added == {
        **dict.fromkeys(("embed", "attack", "similarity", "ceilings", "ways"), "encoder"),
        **dict.fromkeys(("classifiers", "anonymity"), "../../classifier"),
    }


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.stem)
def test_no_stage_of_a_profile_is_idle(profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does one depend on what no stage makes, or on a setting that DVC would not find in the profile's copy."""
    monkeypatch.chdir(ROOT)
    copy(profile, tmp_path / "params.yaml")
    settings = yaml.safe_load((tmp_path / "params.yaml").read_text())
    composed = stages((tmp_path / "dvc.yaml").read_text())
    outs = [_fixed(out) for stage in composed.values() for out in _outs(stage)]
    for name, stage in composed.items():
        assert dvc_files.entries(stage, settings) != {}, name
        body = stage.get("do", stage)
        for key in body.get("params", ()):
            assert key.startswith("${item.") or key.partition(".")[0] in settings, (name, key)
        for dep in body.get("deps", ()):
            if dep.startswith("data/"):
                assert any(out.startswith(_fixed(dep)) or _fixed(dep).startswith(out) for out in outs), (name, dep)


def test_stages_that_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either way: a study that params.yaml names and dvc.yaml lacks, and the other way round."""
    monkeypatch.chdir(tmp_path)
    whole = params_type().model_validate(TRAINING)
    without = params_type().model_validate(
        TRAINING | {"one_run": {"canaries": {"training": "songs", "features": "songs", "noise": "none"}}}
    )
    composing.write(whole)
    composing.check(whole)
    with refused("EPS-P017", "one_run", "epsilometer pipeline compose"):
        composing.check(without)
    composing.write(without)
    with refused("EPS-P017"):
        composing.check(whole)


@pytest.mark.parametrize("name", ["prepare", "private_training", "training_curves"])
@pytest.mark.parametrize("edit", ["remove", "change"])
def test_a_stage_taken_away_or_changed_by_hand_is_refused(
    name: str, edit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever depends on it would be stale for ever, and nothing would say so."""
    monkeypatch.chdir(tmp_path)
    whole = params_type().model_validate(TRAINING)
    composing.write(whole)
    file = yaml.safe_load(Path("dvc.yaml").read_text())
    if edit == "remove":
        del file["stages"][name]
    else:
        body = file["stages"][name]
        body.get("do", body)["deps"].pop()
    Path("dvc.yaml").write_text(yaml.safe_dump(file | {"stages": {**file["stages"], "mine": {"cmd": "true"}}}))
    what = "no stage" if edit == "remove" else "other stages"
    with refused("EPS-P017", what, name, "params.yaml"):
        composing.check(whole)
    composing.write(whole)
    composing.check(whole)


def test_writing_what_is_there_already_touches_nothing(tmp_path: Path) -> None:
    whole = params_type().model_validate(TRAINING)
    assert composing.write(whole, tmp_path)
    assert not composing.write(whole, tmp_path)


OWN = """  # What a colleague reads
  mine:
    cmd: |
      echo one

      echo two
    outs: [data/mine.txt]  # small
"""


@pytest.mark.parametrize("beside", ["", "\n  decoy:\n    cmd: epsilometer stage decoy\n"])
def test_stages_of_ones_own_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: str) -> None:
    """Verbatim, comments too; a stage that an earlier version had goes."""
    monkeypatch.chdir(tmp_path)
    params = read(ROOT / "params.yaml")
    Path("dvc.yaml").write_text(f"stages:\n{OWN}{beside}\n  prepare:\n    cmd: other\n")
    assert composing.write(params)
    assert Path("dvc.yaml").read_text() == f"{composing.compose(params)}\n{OWN}"
    assert not composing.write(params)
    composing.check(params)


def test_stages_of_ones_own_in_another_layout_stay(tmp_path: Path) -> None:
    params = read(ROOT / "params.yaml")
    (tmp_path / "dvc.yaml").write_text("stages: {mine: {cmd: 'true', outs: [a]}}\n")
    assert composing.write(params, tmp_path)
    assert stages((tmp_path / "dvc.yaml").read_text())["mine"] == {"cmd": "true", "outs": ["a"]}
    assert not composing.write(params, tmp_path)


VARS = """# What my stages say
vars:
- mine: 1
"""
PLOTS = """# Side by side
plots:
- data/mine.csv:
    x: epsilon
metrics: [data/mine.json]
"""


def test_other_keys_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verbatim, comments too, each on its side of `stages`; wherever the comment of ours stood."""
    monkeypatch.chdir(tmp_path)
    params = read(ROOT / "params.yaml")
    composed = composing.compose(params)
    about, _, _ = composed.partition("stages:")
    for head in (about + VARS.partition("\n")[2], f"{VARS}\n{about}"):
        Path("dvc.yaml").write_text(f"{head}stages:\n{OWN}{PLOTS}")
        composing.write(params)
        first, _, last = Path("dvc.yaml").read_text().partition(composed)
        assert first.endswith("vars:\n- mine: 1\n\n")
        assert first in f"{VARS}\n"
        side_by_side, _, metrics = PLOTS.partition("metrics")
        assert last == f"\n{OWN}\n{side_by_side}\nmetrics{metrics}"
        assert not composing.write(params)
        composing.check(params)


def test_other_keys_stay_where_there_are_no_stages_yet_and_in_another_layout(tmp_path: Path) -> None:
    params = read(ROOT / "params.yaml")
    for text in ("plots: [a.csv]\n", "{plots: [a.csv], stages: {}}", "plots: [a.csv]\nstages:\n"):
        (tmp_path / "dvc.yaml").write_text(text)
        composing.write(params, tmp_path)
        written = (tmp_path / "dvc.yaml").read_text()
        assert yaml.safe_load(written) == {"plots": ["a.csv"], **yaml.safe_load(composing.compose(params))}
        assert not composing.write(params, tmp_path)


def _outs(stage: Mapping[str, Any]) -> list[str]:
    body = stage.get("do", stage)
    listed = [*body.get("outs", ()), *body.get("metrics", ()), *body.get("plots", ())]
    outs = [out if isinstance(out, str) else next(iter(out)) for out in listed]
    if not isinstance(entries := stage.get("foreach"), dict):
        return outs
    return [out.replace("${item.section}", entry.get("section", "")) for out in outs for entry in entries.values()]


def _fixed(path: str) -> str:
    return path.partition("${")[0]


def test_check_names_the_command_that_composes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    composing.write(params_type().model_validate(TRAINING))
    run = {"training": "songs", "features": "songs", "noise": "none"}
    Path("params.yaml").write_text(yaml.safe_dump(TRAINING | {"one_run": {"canaries": run}}))
    code, _, said = call(capsys, "check", "params")
    assert (code, "`epsilometer pipeline compose` writes the stages" in said) == (2, True)
    assert call(capsys, "pipeline", "compose")[0] == 0
    assert "one_run" in stages(Path("dvc.yaml").read_text())


def test_what_is_built_has_dependencies_and_code_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit of one kind's module, or of another's texts, must not train the others again for hours."""
    monkeypatch.chdir(tmp_path)
    Path("songs.py").write_text("")
    settings = TRAINING | {
        "root": ".",
        "triples": {"own": {"corpus": {"source": "songs.py", "count": 10}, "clusters": [2]}},
        "autoencoders": {"own": {"corpus": {"source": "elsewhere.txt"}}},
    }
    whole = params_type().model_validate(settings)
    Path("params.yaml").write_text(yaml.safe_dump(settings))
    composing.write(whole)
    deps, params = dvc_files.listed("build@triples-own", settings)
    assert deps == [
        "data/code/build/triples-own.json",
        "songs.py",
        "data/embedded/models/minilm-heads",
    ]
    assert params == ["triples.own", "audit.seed", "datasets"]
    assert dvc_files.listed("build@autoencoders-own", settings)[0][1:] == ["elsewhere.txt"]
    written = records(whole)
    paths = written[Path("data/code/paths.json")]
    files = {
        key: [path for hashed in written[Path(f"data/code/build/{key}.json")]["files"] for path in paths[hashed]]
        for key in ("triples-own", "autoencoders-own")
    }
    building = "epsilometer/cells/building"
    assert f"{building}/triples.py" in files["triples-own"]
    assert "songs.py" in files["triples-own"]
    assert f"{building}/triples.py" not in files["autoencoders-own"]


def test_records_of_entries_that_are_no_more_count_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as that of a cell whose folder now has one for each level: it would seem damaged for ever."""
    monkeypatch.chdir(tmp_path)
    composing.write(params_type().model_validate(TRAINING))
    Path("params.yaml").write_text(yaml.safe_dump(TRAINING))
    outs = {
        "private_training@songs": "data/trained/songs",
        "private_training@songs-none": "data/trained/songs/none",
        "features@other": "data/features/other",
        "budgets": "data/budgets.parquet",
        "training_curves": "data/training_curves.parquet",
    }
    records = {address: {"outs": [{"path": path, "md5": "a"}]} for address, path in outs.items()}
    Path("dvc.lock").write_text(yaml.safe_dump({"stages": records}))
    assert [*dvc_files.recorded("outs")] == ["data/trained/songs/none", "data/training_curves.parquet"]
