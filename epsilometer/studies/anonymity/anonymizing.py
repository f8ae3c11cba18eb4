"""Anonymised texts, each with its outcome, by auxiliaries trained on labelled texts or read from a folder.

Randomness comes from the operating system, as for a publication, or from a seed, so the result can be reproduced.
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
_NAMED = 5  # most words of a label that are listed


def over(folder: Path, name: str, settings: Mapping[str, Any]) -> Mechanism:
    """Return a mechanism by name or path, with its default resource or else with the auxiliaries in a folder."""
    if hasattr(find("mechanisms", name, "rewrite"), "default_resource"):
        return text_audit.mechanism(name, settings)
    return build_mechanism(name, settings, str(folder), f"the settings of {name}")


def auxiliaries(
    folder: Path, plan: Plan, labelled: Path | None, vectors: Path | None, columns: Sequence[str]
) -> Auxiliaries:
    """The auxiliaries in a folder; if there are none, they are trained on distinct labelled texts and written there.

    labelled: the file of these texts, in the columns named; vectors: a file of word vectors, by default the embedded
    ones. Raises UserError, in terms of the options of `epsilometer anonymize`, for missing input.
    """
    labels = plan.labels
    if folder.exists() and not folder.is_dir():
        raise UserError(
            f"--auxiliaries must be a folder, which is made where there is none, got the file {folder}", "EPS-S001"
        )
    if (folder / "about.json").is_file():
        if vectors is not None:
            raise UserError(
                f"--vectors is for auxiliaries that are trained, and {folder} holds some with vectors of their own; "
                "leave it out, or name another folder as --auxiliaries",
                "EPS-S002",
            )
        there = Auxiliaries(folder)
        there.check(plan.attributes, plan.tasks, plan.kinds)
        return there
    if labelled is None:
        raise UserError(
            "--labelled must be given, a table of texts with the labels, to train auxiliaries on; or name a folder "
            "that holds some as --auxiliaries",
            "EPS-S003",
        )
    own_folder(folder)
    table = prepare(read(labelled, text=columns, labels=labels, split=None), labels).table
    return make(folder, table, plan, WordVectors.load(vectors or embedded()))


def anonymize(texts: Sequence[str], mechanism: Mechanism, epsilon: float, seed: int | None = None) -> pl.DataFrame:
    """Return a row per text: text, rewrite and the columns of an outcome, null for a mechanism without outcomes.

    seed: None draws from the operating system.
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
    """Return the mechanism with the true classes of texts; labels: by name, a class per text.

    Raises UserError for a mechanism without true labels, a text without a class, and equal texts of different classes.
    """
    if not isinstance(mechanism, TakesTruths):
        raise UserError(
            "this mechanism asks no classifiers of an attribute, so that true labels do not change what it does; leave "
            "them out, or take idt, textfooler, textbugger, bae or llm_rewrite",
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
                    f"row {i} has another {label} than an equal text before; anonymise them one by one", "EPS-S006"
                )
    return mechanism.with_truths(truths)


def explanations(texts: Sequence[str], rewrites: Sequence[str], folder: Auxiliaries) -> list[dict[str, Any]]:
    """For each text, the words that gave its attributes away, and each classifier's answer on text and rewrite.

    gave_away: by attribute and kind, up to five words with their scores, the largest first; probabilities: by label and
    kind, of each class before and after.
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
    """Return the table with a column of JSON for each part of the explanations, because words differ between rows."""
    return table.with_columns(
        pl.Series(name, [json.dumps(of_text[name], ensure_ascii=False) for of_text in reasons], pl.String)
        for name in dict.fromkeys(name for of_text in reasons for name in of_text)
    )


def _largest(scores: Mapping[str, float]) -> dict[str, float]:
    ordered = sorted(((score, word) for word, score in scores.items() if score > 0), reverse=True)
    return {word: score for score, word in ordered[:_NAMED]}


def difference(text: str, rewrite: str) -> list[tuple[str, str]]:
    """Parts of a text and its rewrite in their order, each SAME, GONE or NEW, with the gaps inside it."""
    parts: list[tuple[str, str]] = []
    for kind, gone, new in _differences(text, rewrite):
        if kind == "equal":
            parts.append((SAME, _cut(rewrite, new)))
            continue
        parts += [(GONE, _cut(text, gone))] if gone else []
        parts += [(NEW, _cut(rewrite, new))] if new else []
    return parts


def changed_share(text: str, rewrite: str) -> float:
    """Return the share of a text's words and marks that a rewrite removes."""
    gone = sum(len(of_text) for kind, of_text, _ in _differences(text, rewrite) if kind != "equal")
    return gone / max(sum(1 for _ in places(text)), 1)


Units = Sequence[tuple[int, int]]  # words and marks, each by its first character and the one after its last


def _differences(text: str, rewrite: str) -> Iterator[tuple[str, Units, Units]]:
    """The steps from a text to its rewrite: difflib's name of each step, and the words and marks on both sides."""
    a, b = list(places(text)), list(places(rewrite))
    words = [[whole[start:end] for start, end in units] for whole, units in ((text, a), (rewrite, b))]
    for kind, i, j, k, m in difflib.SequenceMatcher(a=words[0], b=words[1], autojunk=False).get_opcodes():
        yield kind, a[i:j], b[k:m]


def _cut(text: str, units: Units) -> str:
    return text[units[0][0] : units[-1][1]]
