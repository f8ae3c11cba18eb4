from __future__ import annotations

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from epsilometer.pipeline import checking
from epsilometer.pipeline.downloads import downloads, packaged
from epsilometer.pipeline.params import params_type, read
from epsilometer.project.references import EXAMPLE
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.shipped_profiles import shipped


@pytest.fixture
def good() -> dict[str, Any]:
    return shipped("full")


def written(folder: Path, content: Any) -> Path:
    path = folder / "params.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.parametrize("file", ["params.yaml", *(f"profiles/{p.name}" for p in (ROOT / "profiles").glob("*.yaml"))])
def test_what_is_shipped_is_valid(file: str) -> None:
    params = read(ROOT / file)
    measured = ("cells", "downstream", "anonymity", "private_training", "reconstruction", "leaderboard_cells")
    assert any(getattr(params, section) for section in measured)


@pytest.mark.parametrize(
    ("place", "value", "refusal"),
    [
        (("mechanisms", "dp_mlm", "epsilons"), [1, 2, -1.0], ("EPS-P060", "-1.0", "mechanisms.dp_mlm.epsilons[2]")),
        (
            ("mechanisms", "dp_mlm", "epsilons"),
            [float("nan")],
            ("EPS-P060", "mechanisms.dp_mlm.epsilons[0]", "nan"),
        ),
        (("cells", "queries-tem", "epsilons"), [0], ("EPS-P060", "cells.queries-tem.epsilons[0]", "0.0")),
        (("trials", "candidates"), 1, ("EPS-P060", "trials.candidates", "2", "1")),
        (("trials", "count"), 0, ("EPS-P060", "trials.count", "0")),
        (("audit", "alpha"), 1.0, ("EPS-P060", "audit.alpha", "1.0")),
        (("audit", "alpa"), 0.01, ("EPS-P060", "audit", "alpa", "alpha")),
        (("trails",), {}, ("EPS-P060", "trails", "trials")),
        (("datasets", "queries", "txt"), "a", ("EPS-P060", "datasets.queries", "'txt'", "text")),
        (
            ("cells", "queries-tem", "dataset"),
            "querys",
            ("EPS-P060", "cells.queries-tem.dataset", "querys", "'queries'"),
        ),
        (("ablations", "queries-tem", "epsilon"), -5, ("EPS-P060", "-5.0", "ablations.queries-tem.epsilon")),
        (
            ("ablations", "queries-tem", "epsilons"),
            [3],
            ("EPS-P060", "ablations.queries-tem.epsilons", "cells.queries-tem", "5.0", "(3.0,)"),
        ),
        (
            ("cells", "queries-tem", "file"),
            "mine.py",
            ("EPS-P060", "ablations.queries-tem.file", "cells.queries-tem", "None"),
        ),
        (
            ("audit", "seed"),
            10**30,
            ("EPS-P060", "audit.seed", "9007199254740991", "1000000000000000000000000000000"),
        ),
        (("audit", "round"), -1, ("EPS-P060", "audit.round", "0", "-1")),
        (("device",), "tpu", ("EPS-P060", "device", "'cpu'", "cuda", "auto", "'tpu'")),
        (("embedding", "device"), "cuda", ("EPS-P060", "embedding.device", "`device`")),
        (
            ("cells", "queries-tem", "epsilons"),
            [1e300],
            ("EPS-P060", "cells.queries-tem.epsilons[0]", "1e-09", "1e+09", "1e+300"),
        ),
        (
            ("cells", "queries-tem", "epsilons"),
            [1, 1e-320],
            ("EPS-P060", "1e-09", "1e+09", "cells.queries-tem.epsilons[1]"),
        ),
        (("instrument", "epsilons"), [1e10], ("EPS-P060", "1e-09", "1e+09", "instrument.epsilons[0]", "1e+10")),
        (
            ("title",),
            "\ud83d",
            ("EPS-P059", "title", "\\ud83d", "UTF-8"),
        ),
        (
            ("ablations", "queries-tem", "candidates"),
            [1],
            ("EPS-P060", "ablations.queries-tem.candidates[0]", "2", "1"),
        ),
        (("attacks",), {}, ("EPS-P060", "attacks: {embedding: {}}")),
        (("audit", "seed"), -1, ("EPS-P060", "audit.seed", "0", "-1")),
        (("trials", "count"), 7, ("EPS-P060", "trials.count", "8", "7")),
        (
            ("cells", "queries-tem", "mechanism"),
            "tem.py",
            ("EPS-P060", "cells.queries-tem.mechanism", "tem.py", "`file`", "&mine"),
        ),
        (
            ("cells", "queries-tem", "file"),
            "tem",
            ("EPS-P060", "cells.queries-tem.file", "'tem'", "&mine"),
        ),
        (
            ("mechanisms", "tem"),
            {"file": "mine.py", "epsilons": [1]},
            ("EPS-P060", "tem.mechanism", "&mine"),
        ),
        (("cells",), {}, ("EPS-P060", "ablations", "queries-diffractor")),
    ],
)
def test_bad_values_name_place_rule_and_value(
    tmp_path: Path, good: dict[str, Any], place: tuple[str, ...], value: Any, refusal: tuple[str, ...]
) -> None:
    bad = copy.deepcopy(good)
    section = bad
    for key in place[:-1]:
        section = section[key]
    section[place[-1]] = value
    with refused(*refusal):
        read(written(tmp_path, bad))


@pytest.mark.parametrize("kind", ["ablations", "sweeps"])
def test_what_is_varied_is_a_cell(tmp_path: Path, good: dict[str, Any], kind: str) -> None:
    entry = {**good["cells"]["queries-tem"], "epsilon": 5, **({"vary": {"epsilon": [5]}} if kind == "sweeps" else {})}
    good[kind] = {"queries-tem": entry}
    assert [*getattr(read(written(tmp_path, good)), kind)] == ["queries-tem"]
    good[kind] = {"queries-temm": entry}
    with refused("EPS-P060", kind, "queries-temm"):
        read(written(tmp_path, good))


def test_a_cell_is_named_by_its_parts(tmp_path: Path, good: dict[str, Any]) -> None:
    good["cells"]["mine"] = good["cells"].pop("queries-tem")
    with refused("EPS-P060"):
        read(written(tmp_path, good))


def test_files_that_are_not_parameters(tmp_path: Path, good: dict[str, Any]) -> None:
    with refused("EPS-P055"):
        read(tmp_path / "nothing.yaml")
    del good["audit"]
    with refused("EPS-P060"):
        read(written(tmp_path, good))
    (tmp_path / "list.yaml").write_text("- 1")
    with refused("EPS-P057"):
        read(tmp_path / "list.yaml")
    (tmp_path / "twice.yaml").write_text("audit: {seed: 1}\ntrials: {count: 10}\naudit: {seed: 2}\n")
    with refused("EPS-P056", "audit", "<unicode string>", "3"):
        read(tmp_path / "twice.yaml")
    (tmp_path / "broken.yaml").write_text("a: [1")
    with refused("EPS-P056"):
        read(tmp_path / "broken.yaml")


def test_a_merged_mapping_may_be_merged_again_and_overridden_each_time(tmp_path: Path, good: dict[str, Any]) -> None:
    entries = {name: json.dumps(entry) for name, entry in good.pop("datasets").items()}
    lines = [
        *(f"{name}: &{name} {entry}" for name, entry in entries.items()),
        "some: &some {<<: *queries, rows: 20}",
        "few: &few {<<: *some, rows: 10}",
        "fewest: {<<: *few, rows: 5}",
    ]
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(good) + "\n  ".join(["datasets:", *lines]))
    datasets = read(tmp_path / "params.yaml").datasets
    assert [datasets[name].rows for name in ("queries", "some", "few", "fewest")] == [None, 20, 10, 5]
    assert len({datasets[name].part for name in ("queries", "some", "few", "fewest")}) == 1


def test_the_example_of_an_entry_is_valid(tmp_path: Path, good: dict[str, Any]) -> None:
    """What messages show can be pasted into a file like the default one."""
    text, _, rest = (ROOT / "profiles/full.yaml").read_text().partition("\nmechanisms:\n")
    example = EXAMPLE.partition("\n")[2].split("\n")
    rest = rest.replace("\ncells:\n", f"\ncells:\n{example[3]}\n")
    path = tmp_path / "params.yaml"
    path.write_text(f"{text}\nmechanisms:\n{example[1]}\n{rest}")
    cell = read(path).cells["queries-mine"]
    assert (cell.file, cell.epsilons) == ("mine.py", (1, 10))
    assert read(path).cells.keys() - good["cells"].keys() == {"queries-mine"}


def test_an_own_key_stands_in_place_of_a_merged_one(tmp_path: Path, good: dict[str, Any]) -> None:
    text = (ROOT / "profiles/full.yaml").read_text()
    path = tmp_path / "params.yaml"
    path.write_text(
        text.replace(
            "reviews-tem: {dataset: reviews, <<: *tem}", "reviews-tem: {dataset: reviews, epsilons: [3], <<: *tem}"
        )
    )
    assert read(path).cells["reviews-tem"].epsilons == (3,)


@pytest.mark.parametrize(
    ("place", "refusal"),
    [
        (
            ("trials", "count"),
            ("EPS-P008", "trials.count", "1,000,000,000,000", "26,077.0", "2.0"),
        ),
        (("datasets", "queries", "count"), ("EPS-P008", "datasets.queries.count", "1,000,000,000,000", "931,322.6")),
        (("instrument", "trials"), ("EPS-P008", "instrument.trials", "1,000,000,000,000")),
        (("ablations", "queries-tem", "trials"), ("EPS-P008", "ablations.queries-tem.trials", "1,000,000,000,000")),
    ],
)
def test_what_does_not_fit_into_memory_is_refused(
    monkeypatch: pytest.MonkeyPatch, good: dict[str, Any], place: tuple[str, ...], refusal: tuple[str, ...]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=2**31))
    section = good
    for key in place[:-1]:
        section = section[key]
    section[place[-1]] = int(1e12)
    with refused(*refusal) as error:
        checking.check(params_type().model_validate(good))
    assert "; give at most " in str(error.value)


def test_the_full_report_has_lambda_0_beside_its_own() -> None:
    """At its own few texts serve as distractors; at 0 all do."""
    params = read(ROOT / "profiles/full.yaml")
    assert len(params.ablations) >= 3
    for ablation in params.ablations.values():
        assert ablation.dataset == "queries"
        assert set(ablation.temperatures) == {params.trials.temperature, 0}


ENTRIES = 40  # each takes about a second


def test_the_default_audit_has_few_entries_and_shows_every_loss() -> None:
    """Five budgets a mechanism on messages; every trial of equal length; who wrote them, also of texts as they are."""
    params = read(ROOT / "params.yaml")
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    entries = []
    for stage in stages.values():
        over = stage.get("foreach", [None])
        section = raw_section(over) if isinstance(over, str) else over
        entries += [*section]
    assert len(entries) <= ENTRIES
    assert {len(cell.budgets) for cell in params.cells.values() if cell.dataset == "messages"} == {5}
    assert {params.match(name) for name in params.datasets} == {"words"}
    of_messages = {(entry.question, entry.mechanism) for entry in params.questions.values()}
    assert of_messages == {(kind, name) for kind in ("authorship", "linking") for name in ("identity", "tem")}
    assert not params.datasets["messages"].public, "examples are screened, and no endpoint sees them"
    assert params.datasets["messages"].screened


def test_the_audit_without_a_network_reads_no_package_and_no_hub() -> None:
    params = read(ROOT / "profiles/generated.yaml")
    assert {dataset.source for dataset in params.datasets.values()} == {"epsilometer/corpora/synthetic.py"}
    assert downloads(params) == packaged(params) == []


def raw_section(over: str) -> dict[str, Any]:
    """The section of params.yaml that a stage of dvc.yaml loops over, `${cells}`."""
    section: Any = yaml.safe_load((ROOT / "params.yaml").read_text())
    for key in over.removeprefix("${").removesuffix("}").split("."):
        section = section[key]
    return section
