"""The leaderboard through its stages, and a user's own mechanism in it, which takes a file and a line."""

from __future__ import annotations

import json
import math
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from epsilometer.auditing.ceilings.ceiling import share_of_possible
from epsilometer.auditing.ceilings.share import BY_ATTACKS
from epsilometer.auditing.trials.rewriting import rewrite_all
from epsilometer.core import tables
from epsilometer.pipeline.checking import check
from epsilometer.pipeline.params import read
from epsilometer.pipeline.stages import prepare
from epsilometer.project import origin
from epsilometer.project.paths import inside
from epsilometer.report.export import read_table
from epsilometer.report.results import Results
from epsilometer.studies.leaderboard import corpora, measuring
from epsilometer.studies.leaderboard.measuring import PURE, Parts, ceiling
from epsilometer.studies.leaderboard.report.section import section
from epsilometer.studies.leaderboard.report.standing import boards
from epsilometer.studies.leaderboard.stages import leaderboard_cells, leaderboard_corpora, leaderboard_parts
from epsilometer.studies.leaderboard.tables import (
    AVERAGE,
    CORPORA,
    FIGURES,
    PLAIN,
    ROWS,
    TAIL,
    corpora_path,
    figures_path,
    rows_path,
)
from tests.support.places import ROOT
from tests.support.refusals import refused

pytestmark = pytest.mark.usefixtures("_embedded_once")

PARAMS = """\
audit: {seed: 0}
datasets:
  requests:
    source: synthetic.py
    part: queries
    count: 560
    labels: [intent]
    public: true
    public_part: 0.15
leaderboard:
  losses: [1, 2]
  datasets: {requests: {task: intent, texts: 60, tested: 20, sets: 3}}
  mechanisms:
    coin: {resource: texts, epsilons: [0.001, 10]}
    exemplars: {resource: public, epsilons: [0.05, 20], settings: {m: 64}}
    mine: {file: mine.py, epsilons: [0.1, 20]}
    many: {file: MECHANISMS/selection/exemplars.py, resource: public, epsilons: [0.05, 20], settings: {m: 500}}
    never: {file: never.py, epsilons: [1, 2]}
"""
# Randomised response between two sentences, chosen by the number of words. The law has two outputs.
MINE = """
import numpy as np
from epsilometer.core.component import component
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import TEXT, UNITS, Rewrites
from epsilometer.core.ragged import Ragged

SAID = ("something short", "something that is rather long")


@component
class Mine:
    releases = frozenset({TEXT, UNITS})

    def laws(self, texts):
        rows = np.array([int(sum(map(ord, text)) % 2) for text in texts])

        def log_probabilities(rows, epsilons):
            for epsilon in epsilons:
                yield np.where(rows[:, None] == np.arange(2), 0.0, -epsilon) - np.log1p(np.exp(-epsilon))

        return Laws(Ragged.single(rows), 2, log_probabilities)

    def rewrite(self, texts, epsilon, noise):
        (units,) = sample(self.laws(texts), np.arange(len(texts)), [epsilon], [noise])
        return Rewrites([SAID[i] for i in units.values], units)

    def guarantee(self, epsilon):
        return Guarantee(epsilon, Granularity.DOCUMENT, Neighbours.ANY)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("leaderboard")
    shutil.copy(ROOT / "epsilometer/corpora/synthetic.py", folder)
    (folder / "mine.py").write_text(MINE)
    (folder / "never.py").write_text("def rewrite(text, rng):\n    return text\n")
    (folder / "params.yaml").write_text(PARAMS.replace("MECHANISMS", str(ROOT / "epsilometer/mechanisms")))
    with inside(folder):
        prepare.main("requests")
        leaderboard_parts.main("requests")
        for name in ("coin", "exemplars", "mine"):
            leaderboard_cells.main(f"requests-{name}-1")
    return folder


BOTH = {*product(("any", "equal"), (AVERAGE, TAIL))}


def rows_of(name: str) -> dict[tuple[str, str], dict]:
    table = tables.read(rows_path(f"requests-{name}-1"), ROWS)
    return {(row["lengths"], row["budget"]): row for row in table.to_dicts()}


def test_the_coin_is_as_its_formula_says(project: Path) -> None:
    with inside(project):
        rows = rows_of("coin")
        assert rows.keys() == BOTH
        for (_, budget), row in rows.items():
            assert row["control"]
            assert row["average"] == pytest.approx(row["epsilon"], rel=1e-6)
            assert row["delta_at_4"] == pytest.approx(math.tanh(row["epsilon"] / 2))
            if budget == AVERAGE:
                assert row["average"] == pytest.approx(1.0, rel=0.01)
                assert row["cosine"] > row["one_text"] - 0.1  # 46 % of the texts are published unchanged
            else:
                assert row["delta_at_4"] <= 0.01


def test_one_nat_is_one_nat_and_the_second_budget_has_little_tail(project: Path) -> None:
    with inside(project):
        for name in ("exemplars", "mine"):
            rows = rows_of(name)
            assert rows.keys() == BOTH
            assert all(row["reason"] is None and row["epsilon"] is not None for row in rows.values())
            for (_, budget), row in rows.items():
                if budget == AVERAGE:
                    assert row["average"] == pytest.approx(1.0, rel=0.01)
                else:
                    assert row["delta_at_4"] <= 0.01
                    assert row["average"] <= 1.01
                    assert row["cosine"] <= row["ceiling"]


def test_whole_corpora_stand_beside_local_releases_of_the_same_public_texts(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By pure epsilon and by average loss; local ones at the budgets of their cells, after the same post-processing."""
    monkeypatch.setattr(corpora, "EPSILONS", (0.5,))
    shutil.copytree(project, tmp_path / "again")
    with inside(tmp_path / "again"):
        leaderboard_corpora.main("requests")
        table = tables.read(corpora_path("requests"), CORPORA)
        votes = corpora.Votes(Parts.read("requests"), 0)
        shown = section(Results(read()))
        local = rows_of("exemplars")["equal", TAIL]
    whole = table.filter("whole")
    stated, met = whole.filter(pl.col("loss").is_null()), whole.drop_nulls("loss")
    assert stated["epsilon"].unique().sort().to_list() == [*corpora.EPSILONS]
    assert met["average"].to_list() == pytest.approx(met["loss"].to_list(), rel=1e-4)
    assert met["loss"].unique().sort().to_list() == [1, 2]
    assert all(row["average"] <= row["epsilon"] / 2 + 1e-9 for row in whole.to_dicts())
    assert votes.meeting(30) is None or votes._differing(40) == 1
    rows = table.filter(~pl.col("whole"))
    assert rows["mechanism"].to_list() == ["exemplars"] * 2
    assert rows["epsilon"].to_list() == [local["epsilon"]] * 2
    assert rows["texts"].to_list() == [60, 180]
    assert all(len(values) == 5 for name in ("plain", "spread") for values in table[name])
    assert shown is not None
    (grid,) = [each for each in shown.tables if each.heading == "Whole corpora on requests"]
    assert len(grid.rows) == len(table)
    assert len(grid.columns) <= 7


def test_local_releases_that_show_all_teach_what_votes_without_noise_teach(project: Path) -> None:
    """The same post-processing on both sides: each text votes for its exemplar."""
    with inside(project):
        votes = corpora.Votes(Parts.read("requests"), 0)
        texts = votes.parts.rewritten.take(votes.parts.blocks(0, 3))
        local = votes.spread(texts, 0)
        central = votes.of(None, 1000.0)
        assert local == pytest.approx(next(row for row in central if row["texts"] == 180)["spread"][0], abs=0.15)
        assert local > 0.3


def test_where_the_tail_binds_the_row_at_another_loss_is_the_same_to_the_bit(project: Path, tmp_path: Path) -> None:
    """Its budget, its rewrites and all that is measured of them; the speed alone is a clock's."""
    shutil.copytree(project, tmp_path / "again")
    with inside(tmp_path / "again"):
        leaderboard_cells.main("requests-coin-2")
        rows = [tables.read(rows_path(f"requests-coin-{loss}"), ROWS).filter(budget=TAIL) for loss in (1, 2)]
        figures = [tables.read(figures_path(f"requests-coin-{loss}"), FIGURES).filter(budget=TAIL) for loss in (1, 2)]
    assert len(rows[0]) == 2
    assert rows[0]["epsilon"].null_count() == 0
    first, second = (row.drop("loss", "words_a_second") for row in rows)
    assert first.equals(second)
    assert figures[0].equals(figures[1])


def test_where_the_tail_binds_the_texts_are_rewritten_once(project: Path, tmp_path: Path, monkeypatch) -> None:
    """Under a runner, which records what a cell depends on. At two losses there are three budgets, not four."""
    shutil.copytree(project, tmp_path / "again")
    rewritten: list[list[float]] = []

    def counted(mechanism, job):
        if len(job.texts) > 100:  # leaves out the calls that measure the speed
            rewritten.append(list(job.epsilons))
        return rewrite_all(mechanism, job)

    monkeypatch.setattr(measuring, "rewrite_all", counted)
    with inside(tmp_path / "again"):
        for loss in (1, 2):
            for kind, record in (("code", {"files": {}}), ("resources", {"files": {}, "cell": {"loss": loss}})):
                path = Path(f"data/{kind}/leaderboard_cells/requests-coin-{loss}.json")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(record))
        once = [tables.read(rows_path("requests-coin-1"), ROWS), tables.read(figures_path("requests-coin-1"), FIGURES)]
        for loss in (1, 2):
            leaderboard_cells.main(f"requests-coin-{loss}")
        again = [tables.read(rows_path("requests-coin-1"), ROWS), tables.read(figures_path("requests-coin-1"), FIGURES)]
        second = tables.read(rows_path("requests-coin-2"), ROWS)
        assert len({*map(tuple, rewritten)}) == len(rewritten) == 2
        assert [len(epsilons) for epsilons in rewritten] == [2, 1]
        tail = again[0].filter(budget=TAIL)
        assert tail.drop("loss", "words_a_second").equals(second.filter(budget=TAIL).drop("loss", "words_a_second"))
        assert once[0].drop("words_a_second").equals(again[0].drop("words_a_second"))
        assert once[1].equals(again[1])

        (damaged,) = {path.parent for path in Path("data/leaderboard_budgets").glob(f"*/{tail['epsilon'][0]!r}/*.npy")}
        (damaged / "figures.json").write_text("{}")
        leaderboard_cells.main("requests-coin-2")
        assert rewritten[2] == [tail["epsilon"][0]], "what is damaged is measured again"
        assert second.drop("words_a_second").equals(
            tables.read(rows_path("requests-coin-2"), ROWS).drop("words_a_second")
        )


def test_one_sentence_for_all_has_share_zero(project: Path) -> None:
    with inside(project):
        parts = Parts.read("requests")
        frontier, one_text = ceiling(parts, "any")
        assert share_of_possible(one_text, 0.0, frontier, one_text) == 0
        public = parts.of("public").vectors
        sources = parts.rewritten.vectors[np.concatenate(parts.sets.filter(lengths="any")["texts"].to_list())]
        assert one_text == pytest.approx((public @ sources.T).mean(axis=1).max())
        plain = tables.read("data/leaderboard_parts/requests/plain.parquet", PLAIN)
        f1 = {row["row"]: np.mean(row["values"]) for row in plain.filter(learner="words").to_dicts()}
        assert f1["one sentence"] < 0.3 < f1["clean texts"]
        assert f1["one sentence"] < f1["public only, all"]


def test_public_texts_are_none_of_those_compared(project: Path) -> None:
    with inside(project):
        texts = Parts.read("requests").texts
        assert texts["text"].n_unique() == len(texts)
        assert 50 < len(texts.filter(part="public")) < 120


def test_a_mechanism_of_ones_own_gets_the_same_row(project: Path) -> None:
    """A file and a line: its law gives its losses, its two outputs a channel, and its claim a class."""
    with inside(project):
        own, ours = ({**rows_of(name)} for name in ("mine", "exemplars"))
        assert own.keys() == ours.keys()
        shown = next(row for row in own.values() if row["epsilon"] is not None)
        assert {name for name, value in shown.items() if value is None} <= {"reason", "share"}
        assert shown["claim_class"] == PURE
        figures, others = (tables.read(figures_path(f"requests-{name}-1"), FIGURES) for name in ("mine", "exemplars"))
        assert {*figures["figure"]} == {*others["figure"]} == {"cosine", "task"}
        assert others["by_law"].any()
        assert not figures["by_law"].any()  # it lists no inputs, so learners do not know its channel


def test_tables_name_what_has_not_run_and_give_controls_no_tier(project: Path) -> None:
    with inside(project):
        results = Results(read())
        (board,) = boards(results)
        assert ("mine", 2.0) in board.absent
        assert ("never", 1.0) in board.absent
        assert ("mine", 1.0) not in board.absent
        tiers = dict(board.rows.filter(budget=TAIL, lengths="any").select("mechanism", "tier").iter_rows())
        assert tiers["coin"] is None
        assert tiers["exemplars"] == 1
        shown = section(results)
        assert shown is not None
        (main, *others), (figure,) = shown.tables, shown.figures
        assert "at 2 all mechanisms" in main.caption
        assert "many, never" in main.caption
        assert "released in the clear" in main.caption
        assert {"one sentence (60 texts)", "coin (control)", "exemplars", "mine"} <= {r["mechanism"] for r in main.rows}
        assert main.grid().picture == f"{figure.name}.svg"
        assert max(len(table.columns) for table in (main, *others)) <= 13
        for table in (main, *others):  # no row lacks a column, because a missing column looks like an empty cell
            assert all([*row] == table.columns for row in table.rows), table.heading


def test_rows_are_exported_with_their_tails(project: Path) -> None:
    table = read_table(project, "leaderboard")
    assert set(table["mechanism"]) == {"coin", "exemplars", "mine"}
    assert {"average", "delta_at_4", "share"} <= {*table.columns}


def test_rows_name_the_commit_that_they_were_measured_by(project: Path) -> None:
    """Also in a folder that has only what git keeps: tables are written from these, and from nothing else."""
    with inside(project):
        origin.write(
            "leaderboard_cells@requests-mine-1",
            map(str, (rows_path("requests-mine-1"), figures_path("requests-mine-1"))),
        )
        in_git = [*Path("data/leaderboard").glob("*"), *Path("data/origins").rglob("*.json"), Path("params.yaml")]
        in_git += [Path(f"data/leaderboard_parts/requests/{name}.parquet") for name in ("plain", "frontiers")]
    clone = project.parent / "clone"
    for file in in_git:
        (clone / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(project / file, clone / file)
    for name in ("synthetic.py", "mine.py", "never.py"):
        shutil.copy(project / name, clone / name)
    with inside(clone):
        shown = section(Results(read()))
        assert shown is not None
        tables = {table.heading: table for table in shown.tables}
        commits = {row["mechanism"]: row["processor, s"] for row in tables["How requests was measured"].rows}
        assert commits["exemplars"] == "–"
        assert commits["mine"] != "–"
        requests, total = tables["What cells took"].rows
        assert requests["origin is known"] == "1"
        assert requests["run"] == str(len(commits))
        assert total == {**requests, "data set": "all"}


def test_what_attacks_find_is_shown_for_texts_of_equal_length_alone(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not look at the length, by which texts of other lengths are told apart."""
    table = Results.tables

    def by_attacks(results: Results, paths: list[str], schema: dict) -> pl.DataFrame:
        of_cells = table(results, paths, schema)
        return of_cells.with_columns(by=pl.lit(BY_ATTACKS)) if "by" in of_cells.columns else of_cells

    monkeypatch.setattr(Results, "tables", by_attacks)
    with inside(project):
        (board,) = boards(Results(read()))
    assert board.rows["lengths"].unique().to_list() == ["equal"]


def test_more_exemplars_than_public_texts_and_no_budget_are_refused(project: Path) -> None:
    with inside(project):
        with refused("EPS-M065", "81", "500"):
            leaderboard_cells.main("requests-many-1")
        with refused("EPS-S049"):
            leaderboard_cells.main("requests-never-1")
        with refused("EPS-S049"):
            check(read())
