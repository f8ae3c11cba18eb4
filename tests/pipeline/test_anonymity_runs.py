"""DVC runs the stages that anonymity needs, and reruns exactly those that an edit affects."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.support.toy import Toy

WORDS = ("film", "song", "plot", "scene", "voice", "role", "story", "end")

# Replaces every word that has a relation in the auxiliaries by `they`.
SWAPS = """from pathlib import Path

from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites
from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Auxiliaries

@component
class Swaps:
    resource: str
    has_budget = False

    def rewrite(self, texts, epsilon, noise):
        known = Auxiliaries(Path(self.resource))
        gone = {one for relation in (known.relations.rows() if known.relations is not None else []) for one in relation}
        return Rewrites([" ".join('they' if w in gone else w for w in text.split()) for text in texts])

    def guarantee(self, epsilon):
        return None
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    stages = ("code", "resources", "prepare", "vectors", "auxiliaries", "classifiers", "anonymize")
    sandbox = Toy(tmp_path_factory.mktemp("anonymity"), stages=stages)
    rows = [
        (f"{('she', 'he')[i % 2]} sang a {('good', 'bad')[i // 2 % 2]} {WORDS[i // 4 % 8]} of {WORDS[i // 32]}", *who)
        for i in range(128)
        for who in [(("F", "M")[i % 2], ("up", "down")[i // 2 % 2], f"author {i // 4}")]
    ]
    pl.DataFrame(rows, ["text", "speaker", "mood", "author"], orient="row").write_csv(sandbox.folder / "songs.csv")
    vocabulary = ["she", "he", "sang", "a", "good", "bad", "of", *WORDS]
    lines = (f"{word} {i} {i * i % 7}\n" for i, word in enumerate(vocabulary, 1))
    (sandbox.folder / "vectors.txt").write_text("".join(lines))
    (sandbox.folder / "relations.csv").write_text("a,b,relation\nshe,he,antonym\n")
    (sandbox.folder / "swaps.py").write_text(SWAPS)
    labels = {"attributes": ["speaker"], "tasks": ["mood"]}
    swaps = {"mechanism": "swaps", "file": "swaps.py", "resource": "data/auxiliaries/songs"}
    sandbox.params["datasets"]["songs"] |= {
        "source": "songs.csv",
        "labels": ["speaker", "mood"],
        "group": "author",
        "resplit": {"validation": 0.1, "test": 0.25},
    }
    sandbox.params["auxiliaries"] = {
        "songs": {**labels, "dataset": "songs", "kinds": ["linear"], "vectors": "own", "relations": "relations.csv"}
    }
    del sandbox.params["cells"]  # no text is audited
    sandbox.params["words"] = {"sources": {"own": "vectors.txt"}, "lists": 1}
    sandbox.params["anonymity"] = {"songs-swaps": {**swaps, "dataset": "songs"}}
    sandbox.params["classification"] = {
        "labels": {"songs": labels},
        "kinds": ["linear"],
        "texts": {"train": 50, "test": 50},
        "training": {"batch": 8},
    }
    sandbox.write_params()
    return sandbox


def repro(toy: Toy) -> set[str]:
    """The stages that ran, but for those that always do."""
    lines = toy.run("dvc", "repro").splitlines()
    return {line.split("'")[1] for line in lines if line.startswith("Running stage")} - {"code", "resources"}


@pytest.mark.slow
def test_the_stages_run_and_an_edit_reruns_what_it_touches(toy: Toy) -> None:
    table = toy.folder / "data/anonymized/songs-swaps/none.parquet"
    assert repro(toy) == {"prepare@songs", "vectors@own", "auxiliaries@songs", "classifiers", "anonymize@songs-swaps"}
    before = pl.read_parquet(table)
    assert all("they sang" in text for text in before["text"])
    assert {*before["split"]} == {"train", "test"}
    (toy.folder / "relations.csv").write_text("a,b,relation\ngood,bad,antonym\n")
    assert repro(toy) == {"auxiliaries@songs", "anonymize@songs-swaps"}
    after = pl.read_parquet(table)
    assert after["row"].to_list() == before["row"].to_list()
    assert all("a they" in text for text in after["text"])
    assert Path(toy.folder / "data/classifiers/songs/mood-linear-0/classifier.json").is_file()
