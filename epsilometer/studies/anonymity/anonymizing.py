"""Anonymisation of texts, each with its outcome. Auxiliaries are trained on labelled texts or read from a folder.

Randomness comes from the operating system, as for a publication. With a seed, the result is reproducible.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from epsilometer.auditing import text_audit
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.core.component import find
from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import Mechanism, TakesTruths, build_mechanism
from epsilometer.core.outcomes import COLUMNS
from epsilometer.core.own_folder import own_folder
from epsilometer.core.randomness import Noise
from epsilometer.corpora.reading import prepare, read
from epsilometer.mechanisms.anonymisers.shared.attribution import Attribution, attributions
from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Auxiliaries, Plan, make
from epsilometer.mechanisms.words.shared.embedded import vectors as embedded
from epsilometer.models.classifier import LINEAR
from epsilometer.models.tagging import places
from epsilometer.text.vectors import WordVectors

SAME, GONE, NEW = "same", "gone", "new"
_NAMED = 5  # maximum number of words listed for a label


def over(folder: Path, name: str, settings: Mapping[str, Any]) -> Mechanism:
    """Return a mechanism by name or path.

    The mechanism reads its default resource or, if it has none, the auxiliaries in `folder`.
    """
    if hasattr(find("mechanisms", name, "rewrite"), "default_resource"):
        return text_audit.mechanism(name, settings)
    return build_mechanism(name, settings, str(folder), f"the settings of {name}")


def auxiliaries(
    folder: Path, plan: Plan, labelled: Path | None, vectors: Path | None, columns: Sequence[str]
) -> Auxiliaries:
    """Return the auxiliaries in a folder; if there are none, train them on distinct labelled texts and save them there.

    labelled: the file of labelled texts; columns: the columns of this file that contain the texts.
    vectors: a file of word vectors, by default the embedded ones.
    Raises UserError if input is missing; the message names options of `epsilometer anonymize`.
    """
    labels = plan.labels
    if folder.exists() and not folder.is_dir():
        raise UserError(
            f"--auxiliaries must be a folder, which is created if it is missing, got the file {folder}", "EPS-S001"
        )
    if (folder / "about.json").is_file():
        if vectors is not None:
            raise UserError(
                f"--vectors is for training auxiliaries, and {folder} already contains auxiliaries with vectors; "
                "leave --vectors out, or give another folder as --auxiliaries",
                "EPS-S002",
            )
        there = Auxiliaries(folder)
        there.check(plan.attributes, plan.tasks, plan.kinds)
        return there
    if labelled is None:
        raise UserError(
            "--labelled is missing: a table of texts with the labels, on which auxiliaries are trained; give it, or "
            "give a folder of trained auxiliaries as --auxiliaries",
            "EPS-S003",
        )
    own_folder(folder)
    table = prepare(read(labelled, text=columns, labels=labels, split=None), labels).table
    return make(folder, table, plan, WordVectors.load(vectors or embedded()))


def anonymize(texts: Sequence[str], mechanism: Mechanism, epsilon: float, seed: int | None = None) -> pl.DataFrame:
    """Rewrite texts. Returns a row per text: text, rewrite and the columns of an outcome (`core.outcomes`).

    The columns of the outcome are null if the mechanism reports none. seed: None takes randomness from the operating
    system.
    """
    count = len(texts)
    noise = Noise.operating_system(count) if seed is None else Noise.named(np.arange(count), seed, "anonymize", epsilon)
    job = Job(texts, np.arange(count), [epsilon], [noise])
    (rewrites,) = rewrite_all(mechanism, job, paced=True)
    job.tally.say()
    table = pl.DataFrame({"text": list(texts), "rewrite": list(rewrites.texts)})
    if rewrites.outcomes is None:
        return table.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in COLUMNS.items())
    return table.hstack(rewrites.outcomes.table())


def with_truths(mechanism: Mechanism, texts: Sequence[str], labels: Mapping[str, Sequence[str | None]]) -> Mechanism:
    """Return the mechanism with the true classes of the texts. labels: the classes [n] of the texts, by label.

    Raises UserError if the mechanism does not use true labels, if a text has no class, or if equal texts have different
    classes.
    """
    if not isinstance(mechanism, TakesTruths):
        raise UserError(
            "this mechanism asks no classifier of an attribute, so true labels would not change its rewrites; leave "
            "them out, or use idt, textfooler, textbugger, bae or llm_rewrite",
            "EPS-S004",
        )
    truths: dict[str, dict[str, str]] = {}
    for label, classes in labels.items():
        for i, (text, name) in enumerate(zip(texts, classes, strict=True), 1):
            if not name:
                raise UserError(
                    f"row {i} has no {label}; give every text its true label, or leave the labels out", "EPS-S005"
                )
            if truths.setdefault(text, {}).setdefault(label, name) != name:
                raise UserError(
                    f"row {i} has a different {label} from an equal text before it; anonymise them separately",
                    "EPS-S006",
                )
    return mechanism.with_truths(truths)


def explanations(texts: Sequence[str], rewrites: Sequence[str], folder: Auxiliaries) -> list[dict[str, Any]]:
    """Return, for each text, the words that revealed its attributes and the classifiers' answers before and after.

    Each result has two keys. `gave_away` maps an attribute and a kind of classifier to up to five words with their
    scores, the largest first. `probabilities` maps a label and a kind to the probability of each class, for the text
    ("before") and for the rewrite ("after").
    """
    rows: list[dict[str, Any]] = [{"gave_away": {}, "probabilities": {}} for _ in texts]
    for label, kinds in folder.classifiers.items():
        for kind, classifier in kinds.items():
            before, after = classifier.probabilities(texts), classifier.probabilities(rewrites)
            for row, p, q in zip(rows, before.tolist(), after.tolist(), strict=True):
                row["probabilities"].setdefault(label, {})[kind] = {
                    name: {"before": b, "after": a} for name, b, a in zip(classifier.classes, p, q, strict=True)
                }
            if label in folder.attributes:
                method = Attribution(method="linear") if kind == LINEAR else Attribution()
                for row, scores in zip(rows, attributions(classifier, texts, method).scores, strict=True):
                    row["gave_away"].setdefault(label, {})[kind] = _largest(scores)
    return rows


def with_explanations(table: pl.DataFrame, reasons: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return the table with a column of JSON for each key of the explanations. reasons: one explanation per row."""
    return table.with_columns(
        pl.Series(name, [json.dumps(of_text[name], ensure_ascii=False) for of_text in reasons], pl.String)
        for name in dict.fromkeys(name for of_text in reasons for name in of_text)
    )


def _largest(scores: Mapping[str, float]) -> dict[str, float]:
    ordered = sorted(((score, word) for word, score in scores.items() if score > 0), reverse=True)
    return {word: score for score, word in ordered[:_NAMED]}


def difference(text: str, rewrite: str) -> list[tuple[str, str]]:
    """Return the parts of a text and its rewrite in order, each as SAME, GONE or NEW and its characters."""
    parts: list[tuple[str, str]] = []
    for kind, gone, new in _differences(text, rewrite):
        if kind == "equal":
            parts.append((SAME, _cut(rewrite, new)))
            continue
        parts += [(GONE, _cut(text, gone))] if gone else []
        parts += [(NEW, _cut(rewrite, new))] if new else []
    return parts


def changed_share(text: str, rewrite: str) -> float:
    """Return the share of a text's words and punctuation marks that a rewrite removes."""
    gone = sum(len(of_text) for kind, of_text, _ in _differences(text, rewrite) if kind != "equal")
    return gone / max(sum(1 for _ in places(text)), 1)


Units = Sequence[tuple[int, int]]  # words and punctuation marks, each as the positions of its start and its end


def _differences(text: str, rewrite: str) -> Iterator[tuple[str, Units, Units]]:
    """Yield each edit from a text to its rewrite: difflib's name, the text's units, the rewrite's units."""
    a, b = list(places(text)), list(places(rewrite))
    words = [[whole[start:end] for start, end in units] for whole, units in ((text, a), (rewrite, b))]
    for kind, i, j, k, m in difflib.SequenceMatcher(a=words[0], b=words[1], autojunk=False).get_opcodes():
        yield kind, a[i:j], b[k:m]


def _cut(text: str, units: Units) -> str:
    return text[units[0][0] : units[-1][1]]
