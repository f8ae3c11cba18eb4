"""The stages sent and reconstruction: their outputs, what they do not rerun, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from epsilometer.auditing.schemas import TRIALS
from epsilometer.core import tables
from epsilometer.corpora.reading import PREPARED
from epsilometer.pipeline.params import read
from epsilometer.pipeline.stages import embed, trials
from epsilometer.report.results import Results
from epsilometer.runtime import resuming
from epsilometer.studies.training import searching
from epsilometer.studies.training.report.section import section
from epsilometer.studies.training.sending import texts
from epsilometer.studies.training.stages import candidates, reconstruction, searches, sent, training_curves
from epsilometer.studies.training.tables import (
    CANDIDATES,
    RECONSTRUCTED,
    RECONSTRUCTION,
    reconstruction_path,
    sent_path,
)
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.tiny_models import save_word_bert

WORDS = ["good", "bad", "food", "service", "the", "was", "soup", "cold", "ann", "lee"]
SENT: dict[str, Any] = {
    "dataset": "songs", "model": "data/models/tiny", "label": "mood", "noise": "gaussian", "levels": [0.1, 5],
    "sizes": [1, 2], "texts": 4, "pool": 12, "length": 16,
}  # fmt: skip
ATTACKS: dict[str, Any] = {
    "guesser.py": {}, "likelihood": {"prior": None, "steps": 2, "starts": ["masks"]},
    "candidates": {"sizes": [2, 8], "trials": 300},
}  # fmt: skip
# A user's own attack: it answers with the first public text, and counts how often it was asked.
GUESSER = """
from epsilometer.studies.training.attacks.reconstruction.shared.attack import Reconstruction
from epsilometer.core.component import component


class Ready:
    def __init__(self, model, public):
        self.model, self._public = model, public

    def reconstruct(self, sent, generator):
        with open("asked.txt", "a") as asked:
            asked.write("x")
        return Reconstruction(tuple(tuple(self._public[0]) for _ in sent.lengths))


@component
class Guesser:
    def prepare(self, model, knowledge):
        return Ready(model, [model.plain(ids) for ids in model.encode(knowledge.public)])
"""


def write(**sections: Any) -> None:
    raw = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text())
    raw["datasets"]["songs"] = {"source": "songs.csv", "labels": ["mood"], "public": True}
    raw["models"]["tiny"] = "tiny"
    raw |= {"sent": {"songs": SENT}, "reconstruction": {"songs": {"sent": "songs", "attacks": ATTACKS}}} | sections
    Path("params.yaml").write_text(yaml.safe_dump(raw, sort_keys=False))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_word_bert(tmp_path_factory.mktemp("tiny"), WORDS)


@pytest.fixture
def project(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty texts of two moods, and a small BERT."""
    monkeypatch.chdir(tmp_path)
    Path("data/models").mkdir(parents=True)
    Path("data/models/tiny").symlink_to(tiny)
    Path("guesser.py").write_text(GUESSER)
    generator = np.random.default_rng(0)
    some = sorted({" ".join(generator.choice(WORDS, 3 + i % 3)) for i in range(45)})[:40]
    columns = {"id": map(str, range(40)), "text": some, "split": "train", "words": [len(t.split()) for t in some]}
    moods = {"mood": ["sad" if "bad" in text else "glad" for text in some]}
    names = {"identifiers": [["ann"] if "ann" in text else [] for text in some]}
    table = pl.DataFrame(columns, schema=dict(PREPARED)).with_columns(
        **{k: pl.Series(v) for k, v in (moods | names).items()}
    )
    tables.write(table, "data/prepared/songs.parquet", PREPARED)
    write()


def reconstruct() -> None:
    """The stages of all entries of `reconstruction`, in DVC's order."""
    params = read()
    for stage, names in (
        (searches, params.searches),
        (candidates, params.choosing),
        (reconstruction, params.searching),
    ):
        for name in names:
            stage.main(name)


def calls() -> int:
    return len(Path("asked.txt").read_text()) if Path("asked.txt").exists() else 0


def written() -> list[bytes]:
    return [reconstruction_path("songs", what).read_bytes() for what in (None, "texts")]


def read_texts() -> pl.DataFrame:
    return tables.read(reconstruction_path("songs", "texts"), RECONSTRUCTED)


@pytest.mark.usefixtures("project")
def test_texts_that_no_cell_audits_are_not_encoded() -> None:
    """Their trials can be drawn all the same."""
    assert "songs" not in read().audited
    embed.main("songs")
    vectors = np.load("data/embeddings/songs.npy")
    assert vectors.shape == (40, 1)
    assert not vectors.any()
    trials.main("songs")
    candidates = np.stack(tables.read("data/trials/songs.parquet", TRIALS)["candidates"].to_list())
    assert (candidates[:, 0] != candidates[:, 1]).all()


@pytest.mark.usefixtures("project")
def test_what_is_sent_and_what_is_found() -> None:
    sent.main("songs")
    chosen = texts("songs")
    attacked, public = (set(chosen.filter(use=use)["text"]) for use in ("attacked", "public"))
    assert len(attacked) == 4
    assert not attacked & public
    pool = chosen.filter(use="pool")
    assert len(pool) == 12
    assert pool["label"].n_unique() == 1
    grams = np.load(sent_path("songs") / "gram.npy")
    assert grams.shape == (1, 12, 12)
    reconstruct()
    every = tables.read(reconstruction_path("songs", "texts"), RECONSTRUCTED)
    # 4 texts at 2 sizes: the blind baseline once, and each of 2 attacks at 2 levels.
    assert len(every) == 4 * 2 * (1 + 2 * 2)
    assert set(every["truth"]) == attacked
    by = every.group_by("attack").agg(pl.col("true_log_likelihood").is_null().all()).rows()
    assert dict(by) == {"blind": True, "guesser.py": True, "likelihood": False}
    assert set(every.filter(attack="guesser.py")["found"]) <= public
    summary = tables.read(reconstruction_path("songs"), RECONSTRUCTION)
    bound = summary.filter(attack="bound").select("level", "value").rows()
    assert bound == [(0.1, pytest.approx(50)), (5.0, pytest.approx(0.02))]
    assert set(summary.filter(attack="likelihood")["measure"]) >= {"rouge_l", "truth_less_likely", "in_place"}
    rows = tables.read(reconstruction_path("songs", "candidates"), CANDIDATES)
    assert rows.select("level", "candidates").rows() == [(0.1, 2), (5.0, 2), (0.1, 8), (5.0, 8)]
    assert set(rows["mechanism"]) == {"gradient_gaussian"}

    training_curves.main()
    shown = section(Results(read()))
    assert shown is not None
    rows_by_table = {table.heading: len(table.rows) for table in shown.tables if table.in_results}
    assert rows_by_table.keys() == {"Which of k texts a gradient came from", "Attacks against noise"}
    assert {figure.name for figure in shown.figures} == {"training-attacks"}


@pytest.mark.usefixtures("project")
def test_a_level_or_size_that_is_added_is_a_search_of_its_own() -> None:
    """And changes nothing that texts and inner products depend on; nor does other noise, but draws by parts do."""
    entry = SENT | {"levels": [0.1], "sizes": [2]}
    write(sent={"songs": entry})
    before, excerpts = read().searches, [*read().excerpts()]
    assert [*before] == ["songs-2-0.1"]
    write(sent={"songs": SENT})
    assert [*read().searches] == ["songs-1-0.1", "songs-1-5", "songs-2-0.1", "songs-2-5"]
    assert read().searches["songs-2-0.1"] == before["songs-2-0.1"]
    assert [*read().excerpts()] == excerpts
    write(sent={"songs": SENT | {"noise": "vmf", "levels": [50.0]}})
    assert [*read().excerpts()] == excerpts
    for change in ({"length": SENT["length"] + 1}, {"noise": {"kind": "vmf", "parts": True}, "tensors": "head"}):
        write(sent={"songs": SENT | change})
        assert [*read().excerpts()] != excerpts


@pytest.mark.usefixtures("project")
def test_a_killed_search_goes_on_after_its_last_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bytes of a run that was not killed, although searches draw random numbers."""
    attacks = {name: of for name, of in ATTACKS.items() if name != "candidates"}
    write(
        sent={"songs": SENT | {"levels": [0.1], "sizes": [2]}},
        reconstruction={"songs": {"sent": "songs", "attacks": attacks}},
    )
    sent.main("songs")
    send, sends = searching.send, []

    def killed(*arguments: Any, **how: Any) -> Any:
        sends.append(arguments)
        if len(sends) == 4:  # the second batch of the second attack
            raise KeyboardInterrupt
        return send(*arguments, **how)

    with monkeypatch.context() as patch, resuming.running("searches", "songs-2-0.1", lambda: "same"):
        patch.setattr(searching, "send", killed)
        with pytest.raises(KeyboardInterrupt):
            reconstruct()
        reconstruct()
    assert len(sends) == 5  # four batches in all, one of them twice
    assert calls() == 2
    resumed = written()
    reconstruct()
    assert calls() == 4
    assert written() == resumed


@pytest.mark.usefixtures("project")
def test_entries_that_differ_in_noise_alone_have_the_same_texts_and_products() -> None:
    write(sent={"songs": SENT, "other": {**SENT, "noise": "vmf", "levels": [50.0]}})
    for name in ("songs", "other"):
        sent.main(name)
    own, other = ({path.name: path.read_bytes() for path in sent_path(n).iterdir()} for n in ("songs", "other"))
    assert len(own) == 3
    assert own == other


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("prior", "code"), [("nowhere", "EPS-C087"), ("data/models/tiny", "EPS-N055")], ids=["missing", "no head"]
)
def test_a_model_that_an_attack_cannot_use_is_refused_before_any_searches(prior: str, code: str) -> None:
    attacks = {"guesser.py": {}, "likelihood": {"prior": prior, "steps": 1}}
    write(reconstruction={"songs": {"sent": "songs", "attacks": attacks}})
    sent.main("songs")
    with refused(code, prior):
        reconstruct()
    assert not calls()


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("noise", "levels"),
    [("vmf", [50.0]), ("scaled", [0.0, 0.5]), ({"kind": "published", "law": "laplace"}, [0.1]), ("none", None)],
)
def test_other_noises(noise: Any, levels: list[float] | None) -> None:
    entry = SENT | {"noise": noise, "sizes": [1], "texts": 2, "tensors": "head"}
    entry = entry | {"levels": levels} if levels else {k: v for k, v in entry.items() if k != "levels"}
    attacks = (
        {"candidates": ATTACKS["candidates"]}
        if noise != {"kind": "published", "law": "laplace"}
        else {"guesser.py": {}}
    )
    write(sent={"songs": entry}, reconstruction={"songs": {"sent": "songs", "attacks": attacks}})
    sent.main("songs")
    reconstruct()
    if "candidates" in attacks:
        rows = tables.read(reconstruction_path("songs", "candidates"), CANDIDATES)
        assert rows["level"].unique().sort().to_list() == (levels or [None])
        assert not reconstruction_path("songs", "texts").exists()  # without a search there is no baseline either
    else:
        assert {*read_texts()["level"].drop_nulls()} == {*(levels or [])}


@pytest.mark.usefixtures("project")
def test_parts_have_products_of_their_own() -> None:
    """The classifier's bias has two numbers, in which eight candidates lie."""
    head = {"noise": {"kind": "vmf", "parts": True}, "levels": [20], "tensors": "head"}
    attacks = {"candidates": {"sizes": [2, 8], "trials": 300}}
    entry = {"sent": "songs", "attacks": attacks}
    write(sent={"songs": SENT | head | {"texts": 2, "sizes": [1]}}, reconstruction={"songs": entry})
    sent.main("songs")
    assert np.load(sent_path("songs") / "gram.npy").shape == (4, 12, 12)
    reconstruct()
    assert tables.read(reconstruction_path("songs", "candidates"), CANDIDATES)["law"].to_list() == [None, None]


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("changes", "attacks", "refusal"),
    [
        ({"texts": 40}, ATTACKS, ("EPS-S110", "40")),
        (
            {"pool": 39},
            ATTACKS,
            ("EPS-S111", "glad", "39", "pool"),
        ),
        ({"pool": 0}, ATTACKS, ("EPS-S112", "sent.songs.pool")),
        ({"sizes": [8]}, ATTACKS, ("EPS-P060", "sent.songs", "sizes", "4", "8")),
        ({"noise": {"kind": "vmf", "parts": True}}, ATTACKS, ("EPS-P060", "sent.songs", "parts", "tensors: head")),
        (
            {"noise": {"kind": "gaussian", "law": "laplace"}},
            ATTACKS,
            ("EPS-P060", "sent.songs.noise", "law", "gaussian"),
        ),
        ({}, {"lampp": {}}, ("EPS-C022", "lampp", "'lamp'")),
        ({}, {"likelihood": {"step": 1}}, ("EPS-C022", "reconstruction.songs.attacks.likelihood", "step")),
        (
            {"noise": {"kind": "published", "law": "laplace"}},
            ATTACKS,
            ("EPS-A020", "OnMean"),
        ),
    ],
)
def test_bad_input_is_refused(changes: dict[str, Any], attacks: dict[str, Any], refusal: tuple[str, ...]) -> None:
    only = {name: of for name, of in attacks.items() if name != "likelihood" or of.get("step")}
    write(sent={"songs": SENT | changes}, reconstruction={"songs": {"sent": "songs", "attacks": only}})

    def run() -> None:
        read()
        sent.main("songs")
        reconstruct()

    with refused(*refusal):
        run()
