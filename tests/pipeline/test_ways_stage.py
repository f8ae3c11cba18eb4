"""Three ways to share labelled texts, through the stages: the worth of each, and the case of nothing to learn."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from epsilometer.auditing.corpora.folds import FOLDS
from epsilometer.cells.params import read
from epsilometer.cells.tables import WAYS, ways_path
from epsilometer.cells.ways import EPSILONS, Split
from epsilometer.core import tables
from epsilometer.pipeline.stages import attack, embed, prepare, rewrite, trials, ways
from epsilometer.project.paths import inside
from tests.support.small_audit import leaks

PARAMS = """\
root: .
audit: {seed: 0}
datasets:
  requests: {source: requests.csv, use: train, labels: [author, topic], group: [author]}
trials: {count: 400, candidates: 2}
words: {sources: {own: requests.csv}}
mechanisms: {}
cells:
  requests-identity: {dataset: requests, mechanism: identity}
  requests-mine: {dataset: requests, mechanism: mine, file: mine.py}
  requests-same: {dataset: requests, mechanism: same, file: same.py}
attacks: {lexical: {}}
utility: {texts: 5, metrics: {}}
"""
TOPICS = {
    "music": ("play the song {}", "put on the album {}", "shuffle tracks by {}"),
    "food": ("book a table at {}", "reserve dinner at {} tonight", "order pasta from {}"),
    "weather": ("will it rain in {}", "what is the forecast for {}", "is it snowing in {}"),
    "travel": ("find a train to {}", "book a flight to {}", "when does the bus to {} leave"),
}
PUBLIC = ["oslo", "lima", "kyoto", "maple"]
WORDS = [*PUBLIC, "river", "stone", "amber", "north", "coral", "delta", "ember", "field", "grove", "haven", "inlet"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """180 requests of 45 authors in four topics, a quarter public; `mine` shows all of a text, `same` nothing."""
    folder = tmp_path_factory.mktemp("ways")
    rows = [
        {"text": form.format(word), "author": f"{word} {i}", "topic": topic}
        for topic, forms in TOPICS.items()
        for word in WORDS
        for i, form in enumerate(forms)
    ]
    split = ["test" if row["author"].startswith(tuple(PUBLIC)) else "train" for row in rows]
    pl.DataFrame(rows).with_columns(split=pl.Series(split)).write_csv(folder / "requests.csv")
    (folder / "params.yaml").write_text(PARAMS)
    leaks(folder, "mine", 1)
    leaks(folder, "same", 0)
    with inside(folder):
        prepare.main("requests")
        embed.main("requests")
        trials.main("requests")
        for cell in ("identity", "mine", "same"):
            rewrite.main(f"requests-{cell}")
            attack.main(f"requests-{cell}")
        ways.main()
    return folder


def test_each_way_has_the_f1_of_what_it_shows(project: Path) -> None:
    """Also a mechanism that publishes texts as they are; the control is left out, and so is the label of authors."""
    with inside(project):
        table = tables.read(ways_path(), WAYS)
    assert table["label"].unique().to_list() == ["topic"]
    assert table["way"].to_list() == ["public", "rewrites", "rewrites", "release", "release"]
    assert table["f1"].list.len().to_list() == [FOLDS] * 5
    assert table["reach"].min() > 0.03  # of a share of 135 texts by Clopper and Pearson, if every guess is right
    table = table.with_columns(pl.col("f1").list.mean())
    public, mine, same, release, larger = table.to_dicts()
    assert public["f1"] > 0.85
    assert mine["choice"] > same["choice"]
    assert (mine["mechanism"], same["mechanism"]) == ("mine", "same")
    assert mine["f1"] > 0.85
    assert same["f1"] < mine["f1"] - 0.3  # one text for all leaves the labels' shares, and a guess which topic is which
    assert (release["epsilon"], larger["epsilon"]) == EPSILONS
    assert (release["loss"], larger["loss"]) == pytest.approx((0.5, 1.0))
    assert larger["f1"] > 0.3


def test_no_text_is_both_learnt_from_and_tested_on_and_authors_are_whole(project: Path) -> None:
    with inside(project):
        split = Split.of(read(), "requests", "topic")
    assert split is not None
    tested = list[str]()
    for ways_of, learnt in zip(split.folds.ways, split.folds.learnt, strict=True):
        parts = [part.texts for part in (ways_of.public, ways_of.private, ways_of.choice, ways_of.tests)]
        assert len({text for part in parts for text in part}) == sum(map(len, parts)) == 180
        tested += ways_of.tests.texts
        author = dict(split._table.select("text", "author").iter_rows())
        groups = [{author[text] for text in part} for part in parts[1:]]
        assert sum(map(len, groups)) == len(set().union(*groups))
        assert [*split._table["text"][learnt.tolist()]] == parts[1]
    assert len(tested) == len(set(tested)) == 180 - len(ways_of.public) - len(ways_of.choice)
    assert 0.05 < len(ways_of.choice) / 180 < 0.2


def test_a_data_set_without_a_label_to_learn_has_no_rows(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its only label names authors; or, without groups, few texts share a label."""
    monkeypatch.chdir(project)
    for change in ("labels: [author], group: [author]", "labels: [author]"):
        Path("params.yaml").write_text(PARAMS.replace("labels: [author, topic], group: [author]", change))
        ways.main()
        assert tables.read(ways_path(), WAYS).is_empty()
    Path("params.yaml").write_text(PARAMS)
