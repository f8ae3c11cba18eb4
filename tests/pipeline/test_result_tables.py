"""The tables of an audit as data."""

from __future__ import annotations

import math
import re
from pathlib import Path

import polars as pl
import pytest
import yaml

from epsilometer.auditing.claims.verdicts import NO_CLAIM, NOT_TESTABLE
from epsilometer.auditing.schemas import POSSIBLE
from epsilometer.cells.tables import SIMILARITIES
from epsilometer.pipeline.params import Params, read
from epsilometer.pipeline.reporting import studied, write_tables
from epsilometer.project import times
from epsilometer.report import archive, page
from epsilometer.report.archive import Run
from epsilometer.report.cells import ablations, curves, known_loss, worst_case, worth
from epsilometer.report.cells.results import TextResults
from epsilometer.runtime.machine import hardware
from tests.support.audited import HOSTILE, TEXTS, audit, estimates, frame, settings
from tests.support.places import ROOT
from tests.support.refusals import refused


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a profile's run, with its page. Figures, which no table has, are left empty: they take seconds."""
    for module in (ablations, curves, known_loss, worst_case, worth):
        monkeypatch.setattr(module, "figure", lambda *_, **__: {"concat": []})
    folder = tmp_path / "runs/mine"
    (folder / "data").mkdir(parents=True)
    monkeypatch.chdir(folder)
    page.BODY.write_text("<!-- place: header --><!-- end of place -->")
    page.write()
    return folder


def write(results: TextResults) -> Run:
    assert isinstance(results.params, Params)
    return archive.read(write_tables(results.params, texts=results))


def rows(run: Run, heading: str) -> list[list[str]]:
    """The cells of the table under a heading, its columns first."""
    (grid,) = [grid for grid in run.tables if grid.heading == heading]
    return [grid.columns, *grid.rows]


def headings(run: Run) -> str:
    return " ".join(grid.heading for grid in run.tables)


def test_it_says_what_the_stages_took_that_ran_here(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (write(audit()).stages, write(audit()).minutes) == (None, None)
    for stage, seconds in (("rewrite@queries-mvc", 90.0), ("attack@queries-mvc", 30.0), ("attack@queries-tem", 120.0)):
        monkeypatch.setattr(times, "spent", lambda seconds=seconds: seconds)
        times.write(stage)
    text = write(audit())
    assert (text.stages, text.minutes) == (3, 4)
    assert rows(text, "What the stages took")[1:] == [["attack", "2", "150"], ["rewrite queries-mvc", "1", "90"]]


def test_the_tables_are_those_of_the_audit_with_where_they_come_from(run: Path) -> None:
    text = write(audit(settings(downstream=settings().cells)))
    assert (run / "results/mine/run.json").is_file()
    assert (text.title, text.profile) == ("mine: An audit & its page", "mine")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", text.date)
    assert (text.commit, text.hardware) == ("without a git commit", hardware())
    head, *losses = rows(text, "Losses on queries")
    assert head[:3] == ["mechanism", "epsilon", "strongest"]
    cells = {(row[0], row[1]): dict(zip(head, row, strict=True)) for row in losses}
    assert len(cells) == 1 + 3 * 3
    assert cells["identity", "1"]["embedding"] == "ceiling"  # all 1,000 right
    assert cells["mvc", "0.5"]["strongest is"] == "length"  # the length is right 800 times, the embedding 700 times
    assert cells["mvc", "5"]["strongest is"] == "embedding"  # right 820 times
    assert cells["mvc", "5"]["claim"] == NOT_TESTABLE
    low, high = map(float, cells["mvc", "5"]["embedding"].split(" to "))
    assert low < math.log(820 / 180) < high
    assert len(rows(text, "Claims against their worst case")) > 1
    head, majority, baselines, *learnt = rows(text, "What classifiers learn on queries")
    assert majority[head.index("intent, majority")] == "0.01"
    assert baselines[head.index("intent, clean")] == "0.80 ± 0.02"
    assert {row[0]: row for row in learnt if row[1] == "0.5"}["mvc"][head.index("intent, private")] == "0.60 ± 0.02"
    assert "What rewrites keep" not in headings(text), "a section without rows is left out"


def test_exact_losses_stand_beside_sampled_ones_with_the_order_by_either(run: Path) -> None:
    text = write(audit())
    head, *laws = rows(text, "Exact losses on queries")
    cells = {(row[0], row[1]): dict(zip(head, row, strict=True)) for row in laws}
    assert len(cells) == 6
    assert cells["mvc", "5"]["average"] == "8.00 ± 0.01"
    assert cells["mvc", "5"]["average, all"] == "10.00 ± 0.01"
    assert (cells["mvc", "5"]["95 %"], cells["mvc", "5"]["worst pair"]) == ("16", "24")
    assert cells["mvc", "5"]["relative epsilon"] == "80"
    assert cells["mvc", "5"]["rank exact"] == "–"  # no trial has texts of equal length
    some = audit(estimates=estimates().with_columns(equal_trials=100, equal_loss=0.5 + pl.col("epsilon") / 2500))
    head, *laws = rows(write(some), "Exact losses on queries")
    ranks = {row[1]: row[head.index("rank sampled")] + row[head.index("rank exact")] for row in laws if row[0] == "mvc"}
    assert ranks == {"0.5": "33", "5": "22", "2,500": "11"}


def test_what_is_possible_has_a_table_with_its_ends(run: Path) -> None:
    row = {
        "dataset": "queries", "mechanism": "mvc", "epsilon": 0.5, "sets": 100, "worth": 0.4, "worth_low": 0.3,
        "worth_high": 0.5, "loss": 1.0, "by": "attacks", "ceiling": 0.7191, "one_text": 0.2, "share": 0.3853,
        "share_is": "≤", "proved": 0.128,
    }  # fmt: skip
    out = write(audit(possible=pl.DataFrame([row], schema=dict(POSSIBLE))))
    head, shown = rows(out, "How good it can be on queries")
    cells = dict(zip(head, shown, strict=True))
    assert (cells["loss"], cells["ceiling"]) == ("≥ 1", "0.72")
    assert cells["share of the possible"] == "≤ 0.39"
    head, *losses = rows(out, "Losses on queries")
    certified = {(row[0], row[1]): row[head.index("worth")] for row in losses}
    assert certified["mvc", "0.5"] == "at least 0.12", "beside the attacks"
    assert {loss for cell, loss in certified.items() if cell != ("mvc", "0.5")} == {""}
    assert "worth" not in rows(write(audit()), "Losses on queries")[0]
    assert "How good it can be" not in headings(write(audit()))


def test_a_cell_with_a_law_has_no_ceiling(run: Path) -> None:
    table = frame(*(("queries", name, 5.0, "embedding", 1000, None, NO_CLAIM) for name in ("mvc", "dp_bart", HOSTILE)))
    head, *losses = rows(write(audit(estimates=table)), "Losses on queries")
    ends = {row[0]: row[head.index("embedding")] for row in losses}
    assert (ends["dp_bart"], ends["mvc"]) == ("ceiling", "at least 5.23")


def test_a_run_from_before_exact_losses_has_its_tables(run: Path) -> None:
    results = audit()
    for path in [path for path in results.held if path.startswith("data/exact/")]:
        del results.held[path]
    text = write(results)
    assert "Exact losses" not in headings(text)
    assert rows(text, "Losses on queries")


def test_similarity_is_a_mean_over_texts_and_no_text_is_shown(run: Path) -> None:
    each = [("queries", "mvc", 5.0, i, i, metric, i / 4) for metric in ("cosine", "jaccard") for i in range(5)]
    text = write(audit(similarities=pl.DataFrame(each, schema=dict(SIMILARITIES), orient="row")))
    (head, row) = rows(text, "What rewrites keep")
    assert head == ["data set", "mechanism", "epsilon", "cosine", "jaccard"]
    assert row[:3] == ["queries", "mvc", "5"]
    assert row[3].startswith("0.500 (")
    assert row[4] == "0.500"
    others = [shown for shown in TEXTS if shown != HOSTILE]
    assert not [shown for shown in others if re.search(rf"\b{re.escape(shown)}\b", str(text))]


def test_data_sets_of_which_nothing_is_studied_are_not_named(run: Path) -> None:
    """What ran: the data sets of cells, of the leaderboard, of trainings and of gradients; of a cut file no others."""
    whole = settings()
    assert [*whole.datasets] == ["queries", "letters"]
    assert studied(whole) == ["queries"]
    assert write(audit(whole)).about[0].startswith("Data sets: queries. T = 1,000,")
    swept = whole.model_copy(
        update={"sweeps": {"one": whole.cells["queries-mvc"].model_copy(update={"dataset": "letters"})}}
    )
    assert studied(swept) == ["queries", "letters"]


def test_trainings_and_gradients_name_their_data_sets(tmp_path: Path) -> None:
    raw = yaml.safe_load((ROOT / "profiles/training_figures.yaml").read_text())
    shared = ("outside", "audit", "datasets", "models", "features", "private_training", "sent")
    own = {"root": str(ROOT)} | {name: raw[name] for name in shared}
    for trained, sent, names in (
        ("cola-bert-none", "cola-plain", ["cola"]),
        ("sst2-bert-none", "cola-plain", ["cola", "sst2"]),
        ("cola-bert-none", "imdb-plain", ["cola", "imdb"]),
    ):
        cut = {"private_training": trained, "sent": sent}
        cut = {section: {name: raw[section][name]} for section, name in cut.items()}
        (tmp_path / "params.yaml").write_text(yaml.safe_dump(own | cut))
        assert studied(read(tmp_path / "params.yaml")) == names


def test_without_a_finished_audit_nothing_is_written(run: Path) -> None:
    page.PAGE.unlink()
    with refused("EPS-R018"):
        write(audit())
    assert not Path("results").exists()
