"""The texts, splits, training settings and attacks of the entries of `references` and `membership`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path, PurePath

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.core.component import build, find
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.project.paths import prepared
from epsilometer.runtime.progress import track
from epsilometer.studies.training.membership import Compares, Evidence, Loads, MembershipAttack, losses
from epsilometer.studies.training.params import (
    MEMBERSHIP,
    FeaturesEntry,
    MembershipEntry,
    ReferencesEntry,
    TrainingParams,
)
from epsilometer.studies.training.runs import features
from epsilometer.studies.training.runs.features import BLOCK, Frozen
from epsilometer.studies.training.runs.heads import Head, load, load_last_layers
from epsilometer.studies.training.runs.noise import NoNoise
from epsilometer.studies.training.runs.private import Settings
from epsilometer.studies.training.runs.shadows import answers
from epsilometer.studies.training.runs.splits import Split, disjoint, overlapping
from epsilometer.studies.training.tables import features_path, head_path, references_path
from epsilometer.studies.training.trainings import (
    TRAIN,
    LabelledTexts,
    classes,
    featured,
    labelled,
    noise,
    schedule,
    stream_seed,
    training_texts,
)

ANSWERS = "answers.npy"  # file in the folder of references: log probabilities [references, examples, classes]


@dataclass(frozen=True)
class GameTexts:
    """All texts of a membership game: the training texts of a cell, followed by other texts of the same classes.

    training: the number of training texts.
    places:   [n], the split of each text and its row number there.
    states:   [n, width], the features of each text.
    labels:   [n], the index of each text's class.
    """

    training: int
    places: list[tuple[str, int]]
    states: NDArray[np.float32]
    labels: NDArray[np.int64]


def game_texts(params: TrainingParams, name: str) -> GameTexts:
    """Return the training texts of a cell of `private_training`, and other texts.

    The other texts are the texts of the train split that the cell is not trained on. If these are too few, texts of
    other splits are added, which may differ from the training texts in more than membership.
    """
    cell = params.private_training[name]
    training = training_texts(params, name)
    parts = [(TRAIN, training), (TRAIN, _others(params, name, TRAIN, training.rows))]
    if len(parts[1][1]) < len(training):
        for split in sorted({*featured(cell.features)["split"]} - {TRAIN}):
            parts.append((split, _others(params, name, split, np.empty(0, np.int64))))
    return GameTexts(
        training=len(training),
        places=[(split, row) for split, part in parts for row in part.rows.tolist()],
        states=np.concatenate([part.states for _, part in parts]),
        labels=np.concatenate([part.labels for _, part in parts]),
    )


def texts_of(params: TrainingParams, name: str, of: GameTexts, numbers: NDArray[np.integer]) -> list[str]:
    """Return the texts with these indices in the game of a cell, as strings. of: the texts of the game."""
    table = prepared(params.features[params.private_training[name].features].dataset)
    by_split = {split: table.filter(split=split)["text"] for split in {split for split, _ in of.places}}
    return [by_split[split][row] for split, row in (of.places[i] for i in numbers)]


def split(params: TrainingParams, name: str, of: GameTexts) -> Split:
    """Return the asked texts and the training sets of references. Raises UserError for too few texts."""
    entry = params.references[name]
    rng = Noise.named(1, params.audit.seed, "references", entry.training, entry.split).generator(0)
    cut = overlapping if entry.split == "overlapping" else disjoint
    return cut(of.labels, of.training, entry.count, rng, place=f"references.{name}")


def first_heads(params: TrainingParams, name: str, numbers: NDArray[np.integer]) -> Head:
    """Return the initial heads of these references as one stacked head.

    Weights that the checkpoint lacks are sampled for each reference.
    """
    entry = params.references[name]
    layers = load_last_layers(features_path(entry.features) / features.LAYERS)
    count = len(classes(params, entry.training))
    heads = [
        layers.head(count, Noise.named(1, stream_seed(params, int(n), "reference"), "training", "head"))
        for n in numbers
    ]
    return replace(heads[0], vector=np.stack([head.vector for head in heads]))


def reference_settings(params: TrainingParams, name: str, number: int, texts: int) -> Settings:
    """Return the training settings of reference `number`: the cell's settings, without noise if `level` is null.

    texts: the number of the reference's training texts.
    """
    entry = params.references[name]
    cell = params.private_training[entry.training]
    return Settings(
        schedule=schedule(cell, texts),
        noise=NoNoise(None) if entry.level is None else noise(cell.noise, entry.level),
        rate=cell.rate,
        optimizer=cell.optimizer,
        seed=stream_seed(params, number, "reference"),
    )


def attacks(entry: MembershipEntry, place: str) -> dict[str, MembershipAttack]:
    """Build the attacks of an entry, by name. Raises UserError for wrong settings."""
    return {
        name: build(find(MEMBERSHIP, module, "score"), settings, f"{place}.attacks.{name}")
        for name, (module, settings) in entry.modules.items()
    }


def models(params: TrainingParams) -> Iterator[str]:
    """Yield the masked language models of attacks, except models made by a stage, which may not exist yet."""
    of_stages = {f"data/models/{name}" for name in params.models}
    for name, entry in params.membership.items():
        for attack in attacks(entry, f"membership.{name}").values():
            if (model := getattr(attack, "masked_lm", None)) and str(model) not in of_stages:
                yield str(model)


def check_references(entry: ReferencesEntry, compared: dict[str, MembershipAttack], place: str) -> None:
    """Raise UserError, before any training, if an attack cannot use the references. compared: attacks by name."""
    numbers = np.arange(entry.count)[:, None]
    members = (numbers % 2 == [[0, 1]]) if entry.split == "overlapping" else np.zeros((entry.count, 2), bool)
    for name, attack in compared.items():
        if isinstance(attack, Compares):
            try:
                attack.check_references(members)
            except UserError as error:
                raise error.at(f"{place}.attacks.{name}") from None


def check_models(entry: MembershipEntry, built: dict[str, MembershipAttack], place: str) -> None:
    """Raise UserError, before references are trained, if an attack cannot use its own model.

    A model that a later stage makes is not checked.
    """
    for name, attack in built.items():
        model = entry.modules[name][1].get("masked_lm")
        awaited = model is not None and PurePath(model).parent == PurePath("data/models") and not Path(model).exists()
        if isinstance(attack, Loads) and not awaited:
            try:
                attack.check_model()
            except UserError as error:
                raise error.at(f"{place}.attacks.{name}: the attack cannot use its model {model!r}") from None


@dataclass(frozen=True)
class MembershipGame:
    """A membership game on the models of a cell.

    models:   the level and the seed of each target.
    training: the number of training texts.
    inside:   bool [q], whether each asked example is a member.
    """

    models: list[tuple[float | None, int]]
    training: int
    inside: NDArray[np.bool_]
    evidence: Evidence


def game(params: TrainingParams, name: str) -> MembershipGame:
    """Return the game of an entry of `membership`. Callers replace its `evidence.noise` per attack."""
    entry = params.membership[name]
    cell = params.private_training[entry.training]
    models = list(product(cell.steps, range(cell.seeds)))
    heads = [load(head_path(entry.training, level, seed)) for level, seed in models]
    together = replace(heads[0], vector=np.stack([head.vector for head in heads]))
    texts = game_texts(params, entry.training)
    cut = split(params, entry.references, texts)
    own, labels = slice(0, texts.training), texts.labels[cut.examples]
    evidence = Evidence(
        texts=texts_of(params, entry.training, texts, cut.examples),
        labels=labels,
        targets=answers(together, texts.states[cut.examples]),
        training_losses=losses(answers(together, texts.states[own]), texts.labels[own]).mean(axis=1),
        asked=cut.questioned,
        references=np.load(references_path(entry.references) / ANSWERS, allow_pickle=False),
        members=cut.members,
        answers=_Asked(together, params.features[cell.features]),
        noise=Noise.named(len(cut.questioned), name),
    )
    return MembershipGame(models, texts.training, cut.inside, evidence)


@dataclass(frozen=True)
class _Asked:
    """The targets' answers on the adversary's own texts, computed by the frozen network and the heads."""

    heads: Head
    entry: FeaturesEntry

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float64]:
        frozen, distinct = Frozen(self.entry.model, self.entry.length), list(dict.fromkeys(texts))
        starts = range(0, len(distinct), BLOCK)
        states = [frozen.states(distinct[start : start + BLOCK]) for start in track(starts, len(starts), "neighbours")]
        place = {text: i for i, text in enumerate(distinct)}
        stacked = np.concatenate(states)[[place[text] for text in texts]]
        return answers(self.heads, stacked)


def _others(params: TrainingParams, name: str, split: str, taken: NDArray[np.int64]) -> LabelledTexts:
    """Return the texts of a split that have one of the cell's classes, except the rows numbered in `taken`."""
    cell = params.private_training[name]
    eligible = pl.col(cell.label).is_in(classes(params, name)) & ~pl.col("row").is_in(taken)
    return labelled(params, name, split, featured(cell.features, split).filter(eligible))
