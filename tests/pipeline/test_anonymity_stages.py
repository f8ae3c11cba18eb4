"""The stages that anonymity needs: parts of a data set, auxiliaries, victims, and rewrites with their outcomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from epsilometer.auditing.trials.rewriting import Job
from epsilometer.core.outcomes import FOUND, NOTHING
from epsilometer.corpora.parts import GROUP
from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Auxiliaries
from epsilometer.models.classifiers.by_kind import load
from epsilometer.pipeline.checking import check
from epsilometer.pipeline.params import read
from epsilometer.pipeline.stages import code, prepare, vectors
from epsilometer.runtime import resuming
from epsilometer.studies.anonymity.stages import anonymize, auxiliaries, classifiers
from epsilometer.studies.anonymity.tables import ANONYMIZED
from tests.support.dvc_project import plain
from tests.support.places import ROOT
from tests.support.refusals import refused

NOUNS = ("film", "song", "plot", "scene", "voice", "role", "story", "end")

SWAPS = '''
from pathlib import Path

import numpy as np

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.outcomes import FOUND, NOTHING, Outcomes
from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Auxiliaries
from epsilometer.models.classifiers.by_kind import load
from epsilometer.models.ledger import Ledger


@component
class Swaps:
    """Swaps `she` and `he` where the auxiliary is then of another opinion, and asks the victim what it thinks."""

    resource: str
    victims: str
    endpoint: bool = False
    has_budget = False

    def check(self, public):
        if self.endpoint and not public:
            raise UserError("an endpoint sees public data sets alone; set public: true", "OWN-1")

    def rewrite(self, texts, epsilon, noise):
        known = Auxiliaries(Path(self.resource))
        known.check(["speaker"], ["mood"], ["linear"])
        auxiliary = Ledger({"speaker": known.classifiers["speaker"]["linear"]}, len(texts))
        victim = Ledger({"speaker": load(Path(self.victims, "speaker-linear-0"))}, len(texts))
        other = {"she": "he", "he": "she"}
        swapped = [" ".join(other.get(word, word) for word in text.split(" ")) for text in texts]
        every = np.arange(len(texts))
        before, after = (auxiliary.probabilities("speaker", some, every).argmax(1) for some in (texts, swapped))
        done = before != after
        victim.probabilities("speaker", swapped, every)
        return Rewrites(
            [new if flips else old for new, old, flips in zip(swapped, texts, done)],
            outcomes=Outcomes(
                [FOUND if flips else NOTHING for flips in done],
                done.astype(np.int64),
                np.array([len(text.split(" ")) for text in texts]),
                auxiliary.questions,
                victim.questions,
            ),
        )

    def guarantee(self, epsilon):
        return None
'''


def songs(count: int = 480) -> pl.DataFrame:
    """Sentences by 120 authors, said by `she` or `he`; every tenth is a copy in other letters, by another author."""
    rows = []
    for i in range(count):
        who, how = ("she", "he")[i % 2], ("good", "bad")[i // 2 % 2]
        nouns = [NOUNS[i // 4 % 8], NOUNS[i // 32 % 8], NOUNS[i // 256 % 8]]
        text = f"{who} sang a {how} {nouns[0]} of {nouns[1]} and {nouns[2]}" if i % 10 else f"no {i // 20} words here"
        rows.append((text if i % 20 else text.upper() + "!", f"author {i // 4}", {"she": "F", "he": "M"}[who], how))
    return pl.DataFrame(rows, ["text", "author", "speaker", "mood"], orient="row")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run's folder with a data set in four parts, prepared, and an anonymiser of one's own."""
    monkeypatch.chdir(tmp_path)
    songs().write_csv("songs.csv")
    words = sorted({word for text in songs()["text"] for word in text.lower().split()})
    Path("vectors.txt").write_text("".join(f"{word} {i} {i * i % 7}\n" for i, word in enumerate(words, 1)))
    pl.DataFrame({"a": ["good"], "b": ["bad"], "relation": ["antonym"], "source": ["me"]}).write_csv("relations.csv")
    Path("swaps.py").write_text(SWAPS)
    Path("upper.py").write_text("def rewrite(text, epsilon, rng):\n    return text.upper() + str(rng.integers(9))\n")
    raw: dict[str, Any] = yaml.safe_load((ROOT / "profiles/generated.yaml").read_text())
    swaps = {"mechanism": "swaps", "file": "swaps.py", "resource": "data/auxiliaries/songs"}
    swaps["settings"] = {"victims": "data/classifiers/songs"}  # type: ignore[assignment]
    upper = {"mechanism": "upper", "file": "upper.py", "epsilons": [1, 2]}
    labels = {"tasks": ["mood"], "attributes": ["speaker"]}
    raw["datasets"] = {
        "songs": {
            "source": "songs.csv",
            "labels": ["speaker", "mood"],
            "group": "author",
            "resplit": {"validation": 0.1, "test": 0.25},
            "public": False,
        }
    }
    raw["words"] = {"sources": {"own": "vectors.txt"}, "lists": 1}
    raw["models"], raw["ablations"], raw["exemplars"], raw["decide"] = {}, {}, {}, {}
    raw["auxiliaries"] = {
        "songs": {**labels, "dataset": "songs", "kinds": ["linear"], "vectors": "own", "relations": "relations.csv"}
    }
    raw["mechanisms"] = {"swaps": swaps, "upper": upper}
    raw["cells"] = {"songs-upper": {**upper, "dataset": "songs"}}
    raw["anonymity"] = {"songs-swaps": {**swaps, "dataset": "songs"}, "songs-upper": {**upper, "dataset": "songs"}}
    raw["classification"] = {
        "labels": {"songs": labels},
        "kinds": ["linear"],
        "texts": {"train": 100, "test": 80, "validation": 20},
        "training": {"batch": 8},
    }
    write(raw)
    return tmp_path


def write(raw: dict[str, Any]) -> None:
    Path("params.yaml").write_text(yaml.safe_dump(raw))


def run_until_victims() -> None:
    prepare.main("songs")
    vectors.main("own")
    auxiliaries.main("songs")
    classifiers.main()


def test_vectors_of_a_pinned_model_are_those_of_its_revision(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They had been those of the newest."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    raw = yaml.safe_load(Path("params.yaml").read_text())
    Path("pin.json").write_text('{"model": "nobody/nothing", "revision": "v1"}')
    raw["words"]["sources"]["pinned"] = "pin.json"
    write(raw)
    with refused("EPS-C087"):
        vectors.main("pinned")


def test_the_four_parts_and_what_is_trained_on_them(project: Path) -> None:
    run_until_victims()
    texts = pl.read_parquet("data/prepared/songs.parquet")
    parts, victims = (
        Auxiliaries(Path("data/auxiliaries/songs")),
        json.loads(Path("data/classifiers/songs/about.json").read_text()),
    )
    part = {**dict(texts.select("id", "split").iter_rows()), **dict.fromkeys(parts.seen, "auxiliaries")}
    assert {part[text] for text in victims["texts"]} == {"train"}
    assert {*part.values()} == {"train", "auxiliaries", "validation", "test"}
    of_part = texts.with_columns(pl.col("id").replace_strict(part).alias("part"))
    assert of_part.group_by("author").agg(pl.n_unique("part"))["part"].max() == 1
    assert of_part.group_by(GROUP).agg(pl.n_unique("part"))["part"].max() == 1
    plain = of_part.with_columns(pl.col("text").str.to_lowercase().str.strip_chars("!"))
    assert plain["text"].n_unique() < len(plain)
    assert plain.group_by("text").agg(pl.n_unique("part"))["part"].max() == 1
    assert parts.relations is not None
    assert parts.relations.rows() == [("good", "bad", "antonym")]
    assert victims["labels"]["mood"] == {
        "role": "task",
        "classes": ["bad", "good"],
        "accuracy": {"linear": victims["labels"]["mood"]["accuracy"]["linear"]},
    }
    for label in ("mood", "speaker"):
        assert load(f"data/classifiers/songs/{label}-linear-0").classes == victims["labels"][label]["classes"]
        assert victims["labels"][label]["accuracy"]["linear"][0] > 0.8  # a tenth of the texts do not reveal the label
    clean = pl.read_parquet("data/downstream/clean.parquet").filter(setting="clean")
    assert dict(clean.select("label", "accuracy").iter_rows()) == {
        label: victims["labels"][label]["accuracy"]["linear"][0] for label in ("mood", "speaker")
    }


def test_rewrites_are_kept_with_their_outcomes(project: Path) -> None:
    run_until_victims()
    for name in ("swaps", "upper"):
        anonymize.main(f"songs-{name}")
    assert not any(Path("data/begun").iterdir())
    texts = pl.read_parquet("data/prepared/songs.parquet")
    table = pl.read_parquet("data/anonymized/songs-swaps/none.parquet")
    assert dict(table.schema) == ANONYMIZED
    assert table["split"].value_counts().sort("split").rows() == [("test", 80), ("train", 100)]
    sources = texts[table["row"]]
    assert sources["split"].to_list() == table["split"].to_list()
    says = np.array([" sang " in text.lower() for text in sources["text"]])
    assert (np.array([status == FOUND for status in table["status"]]) <= says).all()
    assert ((table["text"] != sources["text"]) == (table["status"] == FOUND)).all()
    assert ((table["text"] == sources["text"]) == (table["status"] == NOTHING)).all()
    assert (table["status"] == FOUND).mean() > 0.8
    assert table["words"].to_list() == [len(text.split()) for text in sources["text"]]
    # A text that a swap does not change counts as one question; the victim is asked once per text.
    assert table.filter(pl.col("status") == FOUND)["asked"].unique().to_list() == [2]
    assert table["asked_victim"].unique().to_list() == [1]
    seen = {*Auxiliaries(Path("data/auxiliaries/songs")).seen}
    assert not seen & {*sources["id"]}
    first, two = (pl.read_parquet(f"data/anonymized/songs-upper/{epsilon}.parquet") for epsilon in (1, 2))
    assert first["row"].to_list() == table["row"].to_list()
    assert first["status"].null_count() == len(first)
    assert first["text"].to_list() != two["text"].to_list()


def test_fewer_training_texts_may_be_rewritten_than_victims_see(project: Path) -> None:
    raw = yaml.safe_load(Path("params.yaml").read_text())
    raw["classification"]["texts"]["rewritten"] = 30
    write(raw)
    run_until_victims()
    anonymize.main("songs-swaps")
    victims = json.loads(Path("data/classifiers/songs/about.json").read_text())
    table = pl.read_parquet("data/anonymized/songs-swaps/none.parquet")
    assert table["split"].value_counts().sort("split").rows() == [("test", 80), ("train", 30)]
    ids = pl.read_parquet("data/prepared/songs.parquet")["id"][table.filter(split="train")["row"]]
    assert len(victims["texts"]) == 100
    assert {*ids} < {*victims["texts"]}
    raw["classification"]["texts"]["rewritten"] = 7
    write(raw)
    with refused("EPS-S015", "7", "8"):
        check(read())


def test_where_nobody_learns_from_rewrites_test_texts_alone_are_rewritten(project: Path) -> None:
    """So that few training texts, of which a class may have none, are no obstacle; what is released stays the same."""
    run_until_victims()
    anonymize.main("songs-swaps")
    path = Path("data/anonymized/songs-swaps/none.parquet")
    before = pl.read_parquet(path).filter(split="test")
    raw = yaml.safe_load(Path("params.yaml").read_text())
    raw["attackers"] = {"names": ["static"]}
    raw["classification"]["texts"]["rewritten"] = 1
    write(raw)
    check(read())
    anonymize.main("songs-swaps")
    assert pl.read_parquet(path).equals(before)


def test_of_validation_texts_alone_nothing_else_is_rewritten(project: Path) -> None:
    raw = yaml.safe_load(Path("params.yaml").read_text())
    raw["anonymity"]["songs-upper"]["part"] = "validation"
    write(raw)
    prepare.main("songs")
    anonymize.main("songs-upper")
    assert pl.read_parquet("data/anonymized/songs-upper/1.parquet")["split"].value_counts().rows() == [
        ("validation", 20)
    ]
    raw["datasets"]["songs"]["resplit"] = {"validation": 0, "test": 0.25}
    write(raw)
    prepare.main("songs")
    with refused("EPS-S044", "validation"):
        anonymize.main("songs-upper")


def test_a_stopped_run_goes_on_with_its_own_slices_only(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare.main("songs")
    anonymize.main("songs-upper")
    whole = Path("data/anonymized/songs-upper/2.parquet").read_bytes()
    monkeypatch.setattr("epsilometer.studies.anonymity.privatizing.SLICE", 50)
    once, rows = Job.run, []

    def run(job: Job, mechanism: Any, part: Any) -> Any:
        if len(rows) == 2:
            raise KeyboardInterrupt
        rows.append(len(part))
        return once(job, mechanism, part)

    monkeypatch.setattr(Job, "run", run)
    with resuming.running("anonymize", "songs-upper", lambda: "same"):
        with pytest.raises(KeyboardInterrupt):
            anonymize.main("songs-upper")
        assert rows == [50, 50]
        monkeypatch.setattr(Job, "run", lambda *arguments: rows.append(len(arguments[2])) or once(*arguments))
        anonymize.main("songs-upper")
    assert sum(rows) == 180
    assert Path("data/anonymized/songs-upper/2.parquet").read_bytes() == whole


def test_an_endpoint_sees_public_data_sets_alone(project: Path) -> None:
    raw = yaml.safe_load(Path("params.yaml").read_text())
    raw["anonymity"]["songs-swaps"]["settings"]["endpoint"] = True
    write(raw)
    prepare.main("songs")
    with refused("OWN-1"):
        anonymize.main("songs-swaps")
    with refused("OWN-1"):
        check(read())


def test_the_record_of_auxiliaries_knows_their_relations(project: Path) -> None:
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": {"auxiliaries": plain("auxiliaries")}}))
    path = Path("data/code/auxiliaries/songs.json")

    def files() -> dict[str, str]:
        written = code.records(read())
        paths = written[Path("data/code/paths.json")]
        return {name: key for key in written[path]["files"] for name in paths[key]}

    before = files()
    assert any(name.endswith("shared/auxiliaries.py") for name in before)
    Path("relations.csv").write_text("a,b,relation\nbig,large,synonym\n")
    after = files()
    assert {name for name in before if before[name] != after[name]} == {"relations.csv"}
    Path("relations.csv").write_text("a,b\nbig,large\n")
    with refused("EPS-M022"):
        check(read())


@pytest.mark.parametrize(
    ("entry", "changes", "refusal"),
    [
        ("auxiliaries", {"attributes": ["mood"]}, ("EPS-P060", "auxiliaries.songs: 'mood'")),
        ("auxiliaries", {"attributes": ["age"]}, ("EPS-P060", "auxiliaries.songs", "'age'")),
        ("auxiliaries", {"dataset": "queries"}, ("EPS-P060", "auxiliaries.songs", "queries")),
        ("auxiliaries", {"vectors": "owns"}, ("EPS-P060", "auxiliaries.songs.vectors", "'own'", "owns")),
        ("auxiliaries", {"kinds": []}, ("EPS-P060", "auxiliaries.songs.kinds", "1", "[]")),
        ("auxiliaries", {"share": 1}, ("EPS-P060", "auxiliaries.songs.share", "1")),
        (
            "auxiliaries",
            {"tasks": [], "attributes": ["speaker", "mood"]},
            ("EPS-P060", "anonymity.songs-swaps.resource", "(mood)"),
        ),
        ("auxiliaries", {"relations": "../theirs.csv"}, ("EPS-P060", "auxiliaries.songs.relations", "../theirs.csv")),
        ("datasets", {"resplit": {"validation": 0.6, "test": 0.4}}, ("EPS-P060", "datasets.songs.resplit", "1")),
        (
            "anonymity",
            {"resource": "data/auxiliaries/song"},
            ("EPS-P060", "anonymity.songs-swaps.resource", "'songs'", "'song'"),
        ),
        ("anonymity", {"part": "train"}, ("EPS-P060", "anonymity.songs-swaps.part", "test", "validation", "train")),
    ],
)
def test_parameters_that_cannot_be_meant_are_refused(
    project: Path, entry: str, changes: dict[str, Any], refusal: tuple[str, ...]
) -> None:
    raw = yaml.safe_load(Path("params.yaml").read_text())
    name = "songs-swaps" if entry == "anonymity" else "songs"
    raw[entry][name] |= changes
    write(raw)
    with refused(*refusal):
        read()


def test_a_check_lists_the_models_that_transformers_start_from(project: Path) -> None:
    raw = yaml.safe_load(Path("params.yaml").read_text())
    pinned = {"training": {"model": "distilbert/distilroberta-base@fb53ab8802853c8e4fbdbcd0529f21fc6f459b2b"}}
    raw["auxiliaries"]["songs"] |= pinned
    write(raw)
    assert check(read()) == []
    raw["auxiliaries"]["songs"]["kinds"] = ["linear", "transformer"]
    write(raw)
    assert [str(download.repository) for download in check(read())] == [f"model {pinned['training']['model']}"]


def test_a_check_finds_parts_that_cannot_be_used_before_anything_runs(project: Path) -> None:
    assert check(read()) == []
    raw = yaml.safe_load(Path("params.yaml").read_text())
    table = songs().with_columns(
        split=pl.when(pl.int_range(pl.len()) % 3 > 0).then(pl.lit("train")).otherwise(pl.lit("test"))
    )
    table.write_csv("songs.csv")
    raw["datasets"]["songs"]["resplit"] = None
    write(raw)
    with refused("EPS-D036", "group"):
        check(read())
    prepare.main("songs")
    vectors.main("own")
    with refused("EPS-D036", "group"):
        auxiliaries.main("songs")
    rare = pl.when(pl.int_range(pl.len()) == 7).then(pl.lit("rare")).otherwise("mood")
    songs().with_columns(rare.alias("mood")).write_csv("songs.csv")
    raw["datasets"]["songs"]["resplit"] = {"validation": 0.1, "test": 0.25}
    write(raw)
    with refused("EPS-S035", "auxiliaries", "rare", "mood"):
        check(read())


@pytest.mark.parametrize(
    ("mechanism", "settings", "refusal"),
    [
        (
            "textfooler",
            {},
            ("EPS-M029", "attribute"),
        ),
        ("textbugger", {"attribute": "mod"}, ("EPS-M021", "attribute", "mood")),
        ("textbugger", {"attribute": "mood", "kind": "transformer"}, ("EPS-M021", "transformer")),
        ("bae", {"attribute": "mood", "asks": "victim"}, ("EPS-M028", "victims")),
        ("bae", {"asks": "victim", "victims": "data/classifiers/songs"}, ("EPS-M029", "attribute")),
        ("idt", {"enough": 2}, ("EPS-M007", "enough", "2", "1")),
        ("idt", {"aim": "random"}, ("EPS-M005", "2")),
        ("idt", {"candidates": "counter_fitted"}, ("EPS-M008", "candidates", "counter_fitted")),
    ],
)
def test_a_check_refuses_what_does_not_fit_auxiliaries_that_are_yet_to_be_made(
    project: Path, mechanism: str, settings: dict[str, Any], refusal: tuple[str, ...]
) -> None:
    raw = yaml.safe_load(Path("params.yaml").read_text())
    raw["auxiliaries"]["songs"] |= {"attributes": ["speaker", "mood"], "tasks": [], "relations": None}
    raw["classification"]["labels"]["songs"] = {"attributes": ["speaker", "mood"], "tasks": []}
    entry = {"mechanism": mechanism, "resource": "data/auxiliaries/songs", "settings": settings}
    entry |= {"epsilons": [1]} if settings.get("aim") == "random" else {}
    raw["mechanisms"], raw["anonymity"] = {mechanism: entry}, {}
    raw["cells"] = {f"songs-{mechanism}": {**entry, "dataset": "songs"}}
    write(raw)
    with refused(*refusal, f"mechanisms.{mechanism}.settings", whole=False):
        check(read())
    for each in (raw["mechanisms"][mechanism], raw["cells"][f"songs-{mechanism}"]):
        each |= {"settings": {} if mechanism == "idt" else {"attribute": "mood"}, "epsilons": None}
    write(raw)
    assert check(read()) == []
    assert not Path("data").exists()


def test_a_check_refuses_values_of_a_sweep_that_do_not_fit_auxiliaries(project: Path) -> None:
    raw = yaml.safe_load(Path("params.yaml").read_text())
    idt = {"mechanism": "idt", "resource": "data/auxiliaries/songs", "epsilons": [1], "settings": {"aim": "random"}}
    raw["mechanisms"], raw["anonymity"] = {"idt": idt}, {}
    raw["cells"] = {"songs-idt": {**idt, "dataset": "songs"}}
    raw["sweeps"] = {"songs-idt": {**raw["cells"]["songs-idt"], "epsilon": 1, "vary": {"enough": [1, 2]}, "trials": 20}}
    write(raw)
    with refused("EPS-M007", "2", "1"):
        check(read())


def test_rare_classes_may_be_left_out(project: Path) -> None:
    rare = pl.when(pl.int_range(pl.len()) == 7).then(pl.lit("rare")).otherwise("mood")
    songs().with_columns(rare.alias("mood")).write_csv("songs.csv")
    raw = yaml.safe_load(Path("params.yaml").read_text())
    raw["datasets"]["songs"]["classes"] = {"mood": ["good", "bad"]}
    write(raw)
    assert check(read()) == []
    prepare.main("songs")
    assert pl.read_parquet("data/prepared/songs.parquet")["mood"].null_count() == 1
    raw["datasets"]["songs"]["classes"] = {"mood": ["good", "bat"]}
    write(raw)
    with refused("EPS-C022", "bat", "bad"):
        check(read())


def test_several_epochs_need_texts_that_can_be_held_out(project: Path) -> None:
    raw = yaml.safe_load(Path("params.yaml").read_text())
    raw["classification"]["training"]["epochs"] = 2
    raw["classification"]["texts"]["train"] = 8
    write(raw)
    assert check(read()) == []  # classifiers without epochs hold out no texts
    raw["classification"]["kinds"] = ["linear", "transformer"]
    write(raw)
    with refused("EPS-S048", "epochs is 2", "of 8"):
        check(read())
    prepare.main("songs")
    with refused("EPS-S048", "epochs is 2", "of 8"):
        classifiers.main()
