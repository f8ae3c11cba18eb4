"""Trials of sets through the stages: utility, loss and ceiling on the same trials, by law and by attacks."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from epsilometer.auditing.schemas import CEILINGS, ESTIMATES, EXACT, POSSIBLE, SETS
from epsilometer.cells.reading import trials as read_trials
from epsilometer.cells.tables import exact_path, possible_path, sets_path
from epsilometer.core import tables
from epsilometer.pipeline.params import read
from epsilometer.pipeline.stages import attack, ceilings, embed, estimate, exact, prepare, rewrite, similarity, trials
from epsilometer.project.paths import inside
from tests.support.refusals import refused
from tests.support.small_audit import leaks

SETS_DRAWN = 30
PARAMS = """\
root: .
audit: {seed: 0}
datasets:
  songs: {source: songs.csv, use: train, public: true, sets: {size: 6, count: 30}}
trials: {count: 400, candidates: 2}
words: {sources: {own: songs.csv}}
mechanisms: {}
cells:
  songs-coin: {dataset: songs, mechanism: coin, epsilons: [1, 3], resource: data/prepared/songs.parquet}
  songs-identity: {dataset: songs, mechanism: identity}
  songs-mine: {dataset: songs, mechanism: mine, file: mine.py}
attacks: {lexical: {}}
utility: {texts: 5, metrics: {}}
"""
CELLS = ("songs-coin", "songs-identity", "songs-mine")


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """Forty songs, thirty of them audited; `mine` shows half of the texts and has no law."""
    folder = tmp_path_factory.mktemp("sets")
    things = ("tea", "rain", "a train", "the sea", "old maps", "bread", "two dogs", "night shifts")
    songs = [
        f"please play a song about {what} by {who}" for what in things for who in ("Ann", "Bob", "Cy", "Di", "Eve")
    ]
    split = ["train"] * 30 + ["test"] * 10
    pl.DataFrame({"text": songs, "split": split}).write_csv(folder / "songs.csv")
    (folder / "params.yaml").write_text(PARAMS)
    leaks(folder, "mine", 0.5)
    with inside(folder):
        prepare.main("songs")
        embed.main("songs")
        trials.main("songs")
        for cell in CELLS:
            rewrite.main(cell)
            attack.main(cell)
            exact.main(cell)
        estimate.main()
        similarity.main()
        ceilings.main()
    return folder


def test_each_set_has_a_trial_of_two_of_its_texts(project: Path) -> None:
    with inside(project):
        sets, drawn_trials = tables.read(sets_path("songs"), SETS), read_trials("songs")
        assert len(sets) == len(drawn_trials.target) == SETS_DRAWN
        for texts, pair in zip(sets["texts"].to_list(), drawn_trials.candidates.tolist(), strict=True):
            assert len(set(texts)) == 6
            assert set(pair) <= set(texts)
        assert (tables.read(exact_path("songs-coin"), EXACT).filter(pairs="all")["compared"] > 25).all()


def test_worth_stands_beside_the_loss_of_the_same_trials(project: Path) -> None:
    """The coin's loss is its budget; where a law is known the share is exact, by attacks it is an upper end."""
    with inside(project):
        table = tables.read(possible_path(), POSSIBLE)
        estimates = tables.read("data/estimates.parquet", ESTIMATES)
    rows = {(row["mechanism"], row["epsilon"]): row for row in table.to_dicts()}
    assert list(rows) == [("coin", 1.0), ("coin", 3.0), ("identity", None), ("mine", None)]
    for nats in (1.0, 3.0):
        coin = rows["coin", nats]
        assert coin["loss"] == pytest.approx(nats, abs=0.05)
        assert (coin["by"], coin["share_is"], coin["sets"]) == ("law", "=", SETS_DRAWN)
        assert coin["one_text"] < coin["ceiling"] <= 1 + 1e-6
        assert coin["pure_epsilon"] is None, "its claim has a delta"
        assert coin["proved"] <= nats
    assert rows["coin", 1.0]["ceiling"] < rows["coin", 3.0]["ceiling"]
    identity, mine = rows["identity", None], rows["mine", None]
    assert identity["worth"] == pytest.approx(1, abs=1e-5)
    assert (mine["by"], mine["share_is"]) == ("attacks", "≤")
    strongest = estimates.filter(attack="strongest", mechanism="mine")["loss"].item()
    assert mine["loss"] == strongest
    assert mine["worth_low"] <= mine["worth"] <= mine["worth_high"]


def test_the_ceilings_rise_with_the_loss(project: Path) -> None:
    with inside(project):
        curve = tables.read("data/ceilings.parquet", CEILINGS)
    assert curve["dataset"].unique().to_list() == ["songs"]
    assert curve["ceiling"].is_sorted()
    assert 0 < curve["ceiling"][0] < 1


def test_an_audit_of_pairs_has_no_ceilings(project: Path) -> None:
    with inside(project):
        content = Path("params.yaml").read_text()
        Path("params.yaml").write_text(content.replace(", sets: {size: 6, count: 30}", ""))
        try:
            ceilings.main()
            assert tables.read("data/ceilings.parquet", CEILINGS).is_empty()
            assert tables.read(possible_path(), POSSIBLE).is_empty()
        finally:
            Path("params.yaml").write_text(content)
            ceilings.main()


@pytest.mark.parametrize(
    ("before", "after", "refusal"),
    [
        ("candidates: 2", "candidates: 3", ("EPS-P060", "trials.candidates", "2", "datasets.songs.sets")),
        ("size: 6", "size: 13", ("EPS-P060", "datasets.songs.sets.size", "13")),
        ("size: 6", "size: 1", ("EPS-P060", "datasets.songs.sets.size", "1")),
    ],
)
def test_sets_that_no_ceiling_is_known_for_are_refused(
    project: Path, tmp_path: Path, before: str, after: str, refusal: tuple[str, ...]
) -> None:
    (tmp_path / "params.yaml").write_text((project / "params.yaml").read_text().replace(before, after))
    with refused(*refusal):
        read(tmp_path / "params.yaml")


def test_fresh_trials_of_a_gate_are_like_those_of_sets(project: Path) -> None:
    with inside(project):
        params = read()
        assert (params.temperature("songs"), params.trial_count("songs")) == (0.0, SETS_DRAWN)
