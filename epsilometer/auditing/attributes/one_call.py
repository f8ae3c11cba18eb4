"""One call that takes texts and their rewrites, from any source, and returns the inferences of attackers.

A language model, a product or a person may have rewritten the texts. Retrained attackers need rewrites to learn from.
They learn from the rewrites in `training`. If `training` has no rewrites, they learn from the rewrites of one half of
the texts, and only the other half is tested. Classifiers that learn from clean texts use all texts of `training`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.attributes.attackers import DETECTOR, STATIC, Learned, check_same_classes
from epsilometer.auditing.attributes.measuring import Attacking, attacker_rows, detector_rows, victim_rows
from epsilometer.auditing.attributes.released import Released, check_apart, check_classes, halves, lone_apart
from epsilometer.auditing.attributes.success import edits
from epsilometer.auditing.attributes.tables import ANONYMITY, ATTACKERS
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.file_names import no_column
from epsilometer.core.randomness import Noise
from epsilometer.models.classifier import ENCODER, LINEAR, Classifier, Examples, FineTuning
from epsilometer.models.classifiers.by_kind import train as train_classifier
from epsilometer.models.locate import ENCODER as ENCODER_MODEL
from epsilometer.runtime.progress import note

REWRITE = "rewrite"  # the column with the releases of training texts
_FEWEST = 10  # fewest rewrites to learn from if some training texts have none; fewer may be there by accident

_OF_ATTACKER = [name for name in list(ATTACKERS)[list(ATTACKERS).index("label") :] if name != "hits"]
_OF_VICTIM = [name for name in ANONYMITY if name not in ATTACKERS and name not in ("attribute", "task", "victim")]


@dataclass(frozen=True)
class AnonymityDesign:
    """Settings of the attackers and of their evaluation.

    kinds: kinds of the attackers' classifiers (`models.classifier`); the victims are of the same kinds. seeds: number
    of trainings of each kind. group: the name of a label that dependent rows share, such as the author; None if all
    rows are independent. A row without that label is independent of all others. attacking: the attackers. training:
    settings for training a transformer.
    """

    kinds: Sequence[str] = (LINEAR, ENCODER)
    seeds: int = 1
    group: str | None = None
    attacking: Attacking = field(default_factory=Attacking)
    training: FineTuning = field(default_factory=lambda: FineTuning(ENCODER_MODEL))


STANDARD = AnonymityDesign()


def anonymity(
    originals: Sequence[str],
    rewrites: Sequence[str],
    labels: Mapping[str, Sequence[str | None]],
    training: pl.DataFrame | None = None,
    *,
    attribute: str,
    keep: str | None = None,
    design: AnonymityDesign = STANDARD,
) -> pl.DataFrame:
    """Measure how well rewrites hide an attribute, and what attackers who know the mechanism still infer.

    originals, rewrites: n texts each, in the same order; an unchanged text is its own rewrite. labels: by name, n
    values each, None for a text without that label. attribute, keep: names of the label to hide and of a label to
    preserve. training: other labelled texts, with the columns `text`, the labels and optionally `rewrite`, a rewrite
    made in the same way as `rewrites` (null for a text without one). The victims learn from all of these texts. The
    attribute's victims also serve as the attackers `clean`, who reads the originals, and `static`. Attackers who know
    the mechanism learn from the texts with a rewrite. If some training texts lack a rewrite, at least 10 texts with the
    attribute must have one, and these must include every class. If this condition fails, or if there are no training
    texts, attackers who know the mechanism learn from one half of `rewrites`. Only the other half is then tested; no
    text or group is in both halves.

    Returns a row per attacker, kind and seed; `strongest` and the detectors are last. The columns are those of
    `tables.ATTACKERS` from `label` on, except `hits`, and those of `tables.ANONYMITY` about the victim of the same kind
    and seed (null without such a victim). Losses are in nats; recorded rewrites have no claim. Raises UserError for
    inconsistent texts and labels, before any model loads.
    """
    names = [attribute] if keep is None else [attribute, keep]
    texts = _checked(originals, rewrites, labels, names, group=design.group)
    clean, learned_from, test = _parts(texts, training, names, design)
    for name in names:
        check_classes(test, name, sorted({*clean[name].labels}))

    def train(kind: str, seed: int, examples: Examples) -> Classifier:
        return train_classifier(kind, examples, design.training, Noise.named(1, design.attacking.seed, "learn", seed))

    kinds = [(kind, seed) for kind in design.kinds for seed in range(design.seeds)]
    victims = {
        name: [Learned(train(kind, seed, clean[name]), clean[name], seed) for kind, seed in kinds] for name in names
    }
    alpha = design.attacking.alpha
    of_victim = {
        (row["victim"], row["seed"]): {name: row.get(name) for name in _OF_VICTIM}
        for row, _ in victim_rows(test, [attribute], keep, victims, edits=edits(test), alpha=alpha)
    }
    lines = attacker_rows(
        learned_from, test, attribute, victims[attribute], train=train, settings=design.attacking
    ) + detector_rows(learned_from, test, kinds, train=train, settings=design.attacking)
    columns = [*_OF_ATTACKER, *_OF_VICTIM]
    schema = {name: {**ANONYMITY, **ATTACKERS}[name] for name in columns}
    return pl.DataFrame([{**of_victim.get((row["kind"], row["seed"]), {}), **row} for row in lines], schema=schema)


def _checked(
    originals: Sequence[str],
    rewrites: Sequence[str],
    labels: Mapping[str, Sequence[str | None]],
    names: Sequence[str],
    *,
    group: str | None,
) -> Released:
    """Return the texts with the requested labels as strings. Raises UserError if a label is missing."""
    wanted = [*names] if group is None else [*names, group]
    if len(set(names)) < len(names):
        raise UserError(
            f"label {names[0]!r} cannot be both the attribute to hide and the one to keep; name another", "EPS-S021"
        )
    for name in wanted:
        if name not in labels:
            raise unknown("label", name, labels)
    for what, side in (("originals", originals), ("rewrites", rewrites)):
        if isinstance(side, str) or not all(isinstance(text, str) for text in side):
            raise UserError(f"{what} must be a list of strings; an empty rewrite is the empty string", "EPS-S022")
    sizes = {"rewrites": len(rewrites), **{f"label {name!r}": len(labels[name]) for name in wanted}}
    for what, size in sizes.items():
        if size != len(originals):
            raise UserError(f"{what} must be as many as the originals, {len(originals)}, got {size}", "EPS-S023")
    if not len(originals):
        raise UserError(
            "originals must hold at least one text, got none; give the texts and their rewrites", "EPS-S024"
        )
    values = {name: [None if value is None else str(value) for value in labels[name]] for name in wanted}
    groups = None if group is None else lone_apart(values.pop(group), "test")
    return Released(list(originals), list(rewrites), values, groups=groups)


def _parts(
    texts: Released, training: pl.DataFrame | None, names: Sequence[str], design: AnonymityDesign
) -> tuple[dict[str, Examples], Released, Released]:
    """Return the clean examples by label, the part whose rewrites attackers learn from, and the part to test on."""
    supplied: Released | None = None
    learned_from, test = None, texts
    if training is not None:
        supplied, rewritten = _training(training, names, design.group)
        check_apart(supplied, texts)
        for name in names:  # checks all test texts, before attackers may take half of them to learn from
            check_classes(texts, name, sorted({*supplied.with_labels(name).classes_of(name)}))
        learned_from = _taught_by(supplied, rewritten, names[0])
    if learned_from is None:
        half, other = halves(texts, design.attacking.noise("halves"))
        learned_from, test = texts.take(half), texts.take(other)
        note(f"attackers learn from {len(learned_from)} of the rewrites, and are tested on the other {len(test)}")
    source = learned_from if supplied is None else supplied
    clean = {name: source.with_labels(name).clean(name) for name in names}
    attribute, *_ = names
    if {*design.attacking.attackers} - {STATIC, DETECTOR}:  # all other attackers learn the attribute from rewrites
        check_same_classes(learned_from.with_labels(attribute).classes_of(attribute), clean[attribute].labels)
    return clean, learned_from, test


def _taught_by(supplied: Released, rewritten: NDArray[np.int64], attribute: str) -> Released | None:
    """Return the training texts whose rewrites attackers learn from; None, with a note, if too few have one.

    rewritten: [m], the rows that have a rewrite.
    """
    learned_from = supplied.take(rewritten)
    some, every = (part.with_labels(attribute).classes_of(attribute) for part in (learned_from, supplied))
    if len(some) == len(every):
        return learned_from
    shares = f"{len(some)} of the {len(every)} labelled texts have a rewrite"
    if len(some) >= _FEWEST and {*some} == {*every}:
        note(f"{shares}: attackers learn from these {len(some)}, the classifiers of clean texts from all {len(every)}")
        return learned_from
    if some:
        note(f"{shares}, too few to learn from: at least {_FEWEST} are needed, with every class of {attribute}")
    return None


def _training(table: pl.DataFrame, names: Sequence[str], group: str | None) -> tuple[Released, NDArray[np.int64]]:
    """Return the training texts, and [m] the rows that have a rewrite; the releases of other rows are not used."""
    for column in ("text", *names, *([group] if group else [])):
        if column not in table.columns:
            raise no_column("the table of training texts", "column", column, table.columns)
    columns = {name: table[name].cast(pl.String).to_list() for name in (*names, *([group] if group else []))}
    groups = lone_apart(columns.pop(group), "training") if group else None
    texts = table["text"].to_list()
    rewrites = table[REWRITE].to_list() if REWRITE in table.columns else [None] * len(texts)
    rewritten = np.flatnonzero(np.array([rewrite is not None for rewrite in rewrites], bool))
    released = ["" if rewrite is None else rewrite for rewrite in rewrites]
    return Released(texts, released, columns, groups=groups), rewritten
