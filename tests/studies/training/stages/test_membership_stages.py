"""The stages references and membership, on random features, whose labels a head can only memorise."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from numpy.typing import NDArray

from epsilometer.core import tables
from epsilometer.corpora.reading import PREPARED
from epsilometer.pipeline import checking
from epsilometer.pipeline.params import read
from epsilometer.runtime import resuming
from epsilometer.studies.training import members as entries
from epsilometer.studies.training.runs.heads import LastLayers
from epsilometer.studies.training.stages import membership, references
from epsilometer.studies.training.tables import MEMBERSHIP, MEMBERSHIP_AREAS, MEMBERSHIP_CURVES, MEMBERSHIP_RATES
from epsilometer.studies.training.trainings import FEATURED
from tests.support.featured import train
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.tiny_models import save_roberta, save_word_bert

WIDTH, TRAINING, HELD_OUT = 24, 80, 60

SECTIONS: dict[str, Any] = {
    "features": {"random": {"dataset": "reviews", "model": "data/models/minilm-mlm"}},
    "private_training": {
        "long": {"features": "random", "label": "rating", "noise": "none", "batch": 16, "rate": 0.02, "overfit": 3},
        "noisy": {"features": "random", "label": "rating", "noise": "gaussian", "levels": [4], "batch": 16},
    },
    "references": {"halves": {"training": "long", "features": "random", "count": 20}},
    "membership": {
        "long": {
            "training": "long",
            "features": "random",
            "references": "halves",
            "attacks": {
                "population": None, "reference": None, "rmia": None, "lira": None,
                "lira_offline": {"attack": "lira", "online": False},
            },
            "fprs": [0.2],
        },
    },
}  # fmt: skip
SECTIONS["membership"]["noisy"] = SECTIONS["membership"]["long"] | {"training": "noisy"}


def write_params(changes: dict[tuple[str, ...], Any] | None = None) -> None:
    content = (
        yaml.safe_load((ROOT / "profiles/generated.yaml").read_text()) | copy.deepcopy(SECTIONS) | {"root": str(ROOT)}
    )
    for place, value in (changes or {}).items():
        part = content
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = value
    Path("params.yaml").write_text(yaml.safe_dump(content))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with features, and texts whose number is in them."""
    monkeypatch.chdir(tmp_path)
    write_params()
    rng, parts, n = np.random.default_rng(0), [], 0
    for split, count in (("test", HELD_OUT), ("train", TRAINING)):
        tables.write_array(rng.normal(size=(count, WIDTH)).astype(np.float32), f"data/features/random/{split}.npy")
        columns = {"id": [str(n + i) for i in range(count)], "text": [f"text {n + i}" for i in range(count)]}
        labels = rng.choice(["bad", "good"], count)
        parts.append(pl.DataFrame(columns | {"split": [split] * count, "words": [2] * count, "rating": labels}))
        n += count
    table = pl.concat(parts).with_columns(pl.col("words").cast(pl.Int32))
    tables.write(table, "data/prepared/reviews.parquet", PREPARED)
    tables.write(table.select(*FEATURED, "rating"), "data/features/random/texts.parquet", FEATURED)
    LastLayers("bert", WIDTH, 0.3, {"dropout": 0.0}, {}).save(Path("data/features/random/last_layers.safetensors"))
    return tmp_path


def answers() -> NDArray[np.float64]:
    table: NDArray[np.float64] = np.load("data/references/halves/answers.npy")
    return table


def test_who_learnt_by_heart_is_told(project: Path) -> None:
    """Of 60 members and 60 others, where nothing can be learnt but by heart: areas far beyond chance without noise.

    The interval of an area of .5 reaches .64 at an error of .01; with sigma 4 nobody is beyond that but by chance,
    .01 an attack.
    """
    for cell in ("long", "noisy"):
        train(cell)
    references.main("halves")
    for name in ("long", "noisy"):
        membership.main(name)
    by_name = {name: tables.read(f"data/membership/{name}.parquet", MEMBERSHIP) for name in ("long", "noisy")}
    names = ["lira", "lira_offline", "population", "reference", "rmia", "strongest"]
    for table in by_name.values():
        assert table["attack"].to_list() == names
        strongest = table.row(by_predicate=pl.col("attack") == "strongest", named=True)
        assert strongest["best_attack"] in names[:-1]
        assert strongest["alpha"] == pytest.approx(0.01 / 5)
        assert strongest["auc"] == table["auc"].max()
        assert {*table["references"]} == {20}
        assert (table["auc_low"] <= table["auc"]).all()
        assert (table["delta"] == 1 / TRAINING).all()
    long, noisy = by_name["long"], by_name["noisy"]
    members = long["members"][0]
    assert 50 <= members == long["others"][0] <= HELD_OUT
    assert {*long["overfit"]} == {3}
    assert {*long["level"]} == {None}
    assert {*noisy["level"]} == {4.0}
    assert long.filter(attack="population")["auc_low"].item() > 0.6
    assert long["gap"][0] > 0.3
    assert long["gap_low"][0] > 0
    assert long.filter(attack="population")["leakage"].item() > 0.2
    assert noisy.filter(attack="population")["auc"].item() < 0.75
    rates = tables.read("data/membership/long.rates.parquet", MEMBERSHIP_RATES)
    assert rates["at"].to_list() == [0.2] * 5
    assert (rates["set_on"] + rates["others"] == members).all()
    curves = tables.read("data/membership/long.roc.parquet", MEMBERSHIP_CURVES)
    first = curves.filter(attack="population")
    area = np.trapezoid(first["tpr"], first["fpr"])
    assert area == pytest.approx(long.filter(attack="population")["auc"].item())
    areas = tables.read("data/membership/long.areas.parquet", MEMBERSHIP_AREAS)
    assert areas["attack"].to_list() == [name for name in long["attack"] if name != "strongest"]
    assert areas["auc"].to_list() == pytest.approx(long["auc"].to_list()[:-1])
    assert not list(Path("data/begun").glob("*"))


def test_a_level_that_is_added_changes_nothing_that_references_depend_on(project: Path) -> None:
    write_params()
    before = {name: excerpt for name, _, excerpt in read().excerpts()}
    noisy = ("private_training", "noisy")
    write_params({(*noisy, "levels"): [2, 4], (*noisy, "seeds"): 3, (*noisy, "test"): "train"})
    after = {name: excerpt for name, _, excerpt in read().excerpts()}
    assert [name for name in after if after[name] != before[name]] == ["private_training/noisy"]
    write_params({(*noisy, "rate"): 0.5})
    after = {name: excerpt for name, _, excerpt in read().excerpts()}
    assert [name for name in after if after[name] != before[name]] == ["private_training/noisy", "recipes/noisy"]


def test_killed_references_continue_to_the_same_bytes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    references.main("halves")
    whole = answers()
    trained: list[int] = []
    real = references.train_together

    def once(*arguments: Any, settings: Any) -> Any:
        if trained:
            raise KeyboardInterrupt
        trained.append(len(arguments[3]))
        return real(*arguments, settings=settings)

    def again(*arguments: Any, settings: Any) -> Any:
        trained.append(len(arguments[3]))
        return real(*arguments, settings=settings)

    with resuming.running("references", "halves", lambda: "same"):
        monkeypatch.setattr(references, "train_together", once)
        with pytest.raises(KeyboardInterrupt):
            references.main("halves")
        assert trained == [references.BLOCK]
        trained.clear()
        monkeypatch.setattr(references, "train_together", again)
        references.main("halves")
    assert sum(trained) == 20 - references.BLOCK
    assert answers().tobytes() == whole.tobytes()
    assert not Path("data/begun").exists()


def test_a_killed_game_goes_on_with_the_next_attack(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train("long")
    references.main("halves")
    membership.main("long")
    paths = sorted(Path("data/membership").iterdir())
    whole = [path.read_bytes() for path in paths]
    scored: list[str] = []
    real = membership.attacks

    class Noted:
        def __init__(self, name: str, attack: Any) -> None:
            self.name, self.attack = name, attack

        def __getattr__(self, name: str) -> Any:
            return getattr(self.attack, name)

        def score(self, evidence: Any) -> Any:
            scored.append(self.name)
            if len(scored) == 2:
                raise KeyboardInterrupt
            return self.attack.score(evidence)

    monkeypatch.setattr(
        membership, "attacks", lambda *of: {name: Noted(name, attack) for name, attack in real(*of).items()}
    )
    with resuming.running("membership", "long", lambda: "same"):
        with pytest.raises(KeyboardInterrupt):
            membership.main("long")
        membership.main("long")
    assert scored == ["lira", "lira_offline", "lira_offline", "population", "reference", "rmia"]
    assert [path.read_bytes() for path in paths] == whole


def test_private_references_have_the_noise_of_the_recipe(project: Path) -> None:
    """They are not the models without privacy, and none is the target's training repeated."""
    change = {("references", "halves", "training"): "noisy", ("membership",): {}}
    write_params(change)
    references.main("halves")
    plain = answers()
    write_params(change | {("references", "halves", "level"): 4})
    references.main("halves")
    assert np.abs(answers() - plain).min(axis=(1, 2)).max() > 0
    params = read("params.yaml")
    seeds = {entries.reference_settings(params, "halves", number, TRAINING).seed for number in range(20)}
    assert len(seeds) == 20
    assert entries.reference_settings(params, "halves", 3, TRAINING).noise.sigma == 4


def test_texts_that_the_cell_leaves_out_are_asked_about_first(project: Path) -> None:
    """They are of the same split: nothing but membership tells them from the training texts."""
    cells = {("private_training", cell, "texts"): 30 for cell in ("long", "noisy")}
    write_params(cells)
    pool = entries.game_texts(read("params.yaml"), "long")
    assert pool.training == 30
    assert {split for split, _ in pool.places} == {"train"}
    assert len({*pool.places}) == len(pool.places) == TRAINING
    write_params(dict.fromkeys(cells, 50))
    pool = entries.game_texts(read("params.yaml"), "long")
    assert [split for split, _ in pool.places].count("test") == HELD_OUT
    assert entries.texts_of(read("params.yaml"), "long", pool, np.array([len(pool.places) - 1])) == ["text 59"]


def test_targets_are_asked_about_other_texts(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the frozen model, each distinct text once."""
    texts_asked: list[str] = []

    class Frozen:
        def __init__(self, model: str, length: int) -> None:
            assert (model, length) == ("data/models/minilm-mlm", 128)

        def states(self, texts: Sequence[str]) -> NDArray[np.float32]:
            texts_asked.extend(texts)
            return np.array([[len(text)] * WIDTH for text in texts], np.float32)

    monkeypatch.setattr(entries, "Frozen", Frozen)
    train("long")
    references.main("halves")
    game = entries.game(read("params.yaml"), "long")
    answered = game.evidence.answers(["a", "bb", "a"])
    assert texts_asked == ["a", "bb"]
    assert answered.shape == (1, 3, 2)
    assert (answered[:, 0] == answered[:, 2]).all()
    assert not (answered[:, 0] == answered[:, 1]).all()
    assert game.evidence.texts[0] in {f"text {i}" for i in range(TRAINING + HELD_OUT)}


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({("references", "halves", "count"): 12}, ("EPS-A018", "long.attacks.reference", "10", "6")),
        (
            {("references", "halves", "split"): "disjoint"},
            ("EPS-A012", "membership.long.attacks.lira", "online: false"),
        ),
        (
            {("membership", "long", "attacks"): {"lira": {"onlin": True}}},
            ("EPS-C022", "membership.long.attacks.lira", "'onlin'", "online"),
        ),
        ({("membership", "long", "attacks"): {"lyra": {}}}, ("EPS-C022", "lyra", "lira")),
    ],
)
def test_bad_entries_are_refused_before_any_model_is_read(
    project: Path, changes: dict, refusal: tuple[str, ...]
) -> None:
    write_params(changes)
    with refused(*refusal, whole=False):
        membership.main("long")


def test_disjoint_references_need_texts(project: Path) -> None:
    write_params({("references", "halves", "split"): "disjoint", ("membership",): {}})
    with refused("EPS-T042", "20", "80"):
        references.main("halves")


@pytest.mark.parametrize(
    ("save", "refusal"),
    [
        (None, ("EPS-N052", "./mlm")),
        (lambda folder: save_word_bert(folder, ["a", "b"]), ("EPS-N055",)),
        (lambda folder: save_roberta(folder, head=False), ("EPS-N057", "lm_head")),
    ],
    ids=["missing", "no mask token", "no head"],
)
def test_a_model_without_masks_is_refused_before_references_are_trained(
    project: Path, save: Callable[[Path], Path] | None, refusal: tuple[str, ...]
) -> None:
    """By `epsilometer pipeline repro` before any stage, and by the stage that would train for it."""
    if save is not None:
        save(project / "mlm")
    write_params({("membership", "long", "attacks"): {"neighbours": {"masked_lm": "./mlm"}}})
    place = "membership.long.attacks.neighbours"
    with refused(*refusal, place):
        checking.check(read())
    with refused(*refusal, place):
        references.main("halves")
    assert not Path("data/references").exists()
    assert not Path("data/begun").exists()


def test_a_model_that_a_stage_has_still_to_make_is_not_looked_at(project: Path) -> None:
    write_params({("membership", "long", "attacks"): {"neighbours": {"masked_lm": "data/models/mlm"}}})
    entry = read().membership["long"]
    entries.check_models(entry, entries.attacks(entry, "membership.long"), "membership.long")
