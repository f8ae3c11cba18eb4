"""Preparation of a text before a search: its classes, the words that may change, and their replacements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.mechanism import Truths
from epsilometer.mechanisms.anonymisers.shared.attribution import Attribution, attributions
from epsilometer.mechanisms.anonymisers.shared.judges import Panel
from epsilometer.mechanisms.anonymisers.shared.source import SourceText
from epsilometer.mechanisms.anonymisers.shared.word_edits import Spans, spans
from epsilometer.models.classifier import Classifier, HasWindow

MOST = 64  # most words of a text that may change (those with the largest scores), which limits searches in long texts
_ASKING = ("occlusion", "lime")  # attributions that classify perturbed texts, too
# Function that maps texts, and the words of each that may change, to the options of each word.
Options = Callable[[Sequence[Spans], Sequence[Sequence[str]]], Sequence[Sequence[Sequence[str]]]]


@dataclass(frozen=True)
class PreparedText:
    """A prepared text.

    classes:  the class of each attribute: the true one if it is given, else the predicted one.
    owners:   numbers in the ledger that the text's questions count for.
    cut:      True if a classifier truncates the text.
    labelled: True if a true class is given.
    """

    source: SourceText
    classes: Sequence[int]
    owners: Sequence[int]
    cut: bool
    labelled: bool = False


@dataclass(frozen=True, eq=False)
class Label:
    """A label with its panel and the classifiers in it. The first classifier computes the attributions."""

    name: str
    panel: Panel
    classifiers: Sequence[Classifier]


def prepare(
    texts: Mapping[str, Sequence[int]],
    attributes: Sequence[Label],
    tasks: Sequence[Label],
    attribution: Attribution,
    *,
    options: Options,
    ignore_utility: bool = False,
    truths: Truths,
) -> list[PreparedText]:
    """Return the prepared texts.

    texts: distinct texts, each with the numbers in the ledger that its questions count for; truths: true classes of
    some texts. The words that may change have a positive score for an attribute. Unless `ignore_utility` is set, they
    also have no positive score for a task.
    """
    every = [spans(text) for text in texts]
    classes = {label: _classes(label, texts, truths) for label in (*attributes, *tasks)}
    hidden = {label.name for label in attributes}
    private = [_scores(label, texts, attribution) for label in attributes]
    useful = [] if ignore_utility else [_scores(label, texts, attribution) for label in tasks]
    words = [
        influential([scores[i] for scores in private], [scores[i] for scores in useful]) for i in range(len(every))
    ]
    cut = cut_by([classifier for label in classes for classifier in label.classifiers], list(texts))
    prepared = []
    for i, (of_text, chosen, of_words) in enumerate(zip(every, words, options(every, words), strict=True)):
        with_options = [(word, list(some)) for word, some in zip(chosen, of_words, strict=True) if some]
        source = SourceText(
            of_text,
            words=[word for word, _ in with_options],
            options=[some for _, some in with_options],
            answers=[int(classes[task][i]) for task in tasks],
        )
        own, labelled = [int(classes[label][i]) for label in attributes], bool(hidden & {*truths.get(of_text.text, ())})
        beyond = cut is not None and bool(cut[i])
        prepared.append(PreparedText(source, own, texts[of_text.text], cut=beyond, labelled=labelled))
    return prepared


def cut_by(classifiers: Sequence[Classifier], texts: Sequence[str]) -> NDArray[np.bool_] | None:
    """Return [n]: True for each text that a classifier truncates; None if no classifier has a window."""
    windows = [classifier for classifier in classifiers if isinstance(classifier, HasWindow)]
    return np.any([classifier.cuts(list(texts)) for classifier in windows], axis=0) if windows else None


def influential(private: Sequence[Mapping[str, float]], useful: Sequence[Mapping[str, float]]) -> list[str]:
    """Return at most MOST words with a positive score in any of `private` and none of `useful`, by falling score."""
    best: dict[str, float] = {}
    for scores in private:
        for word, score in scores.items():
            best[word] = max(score, best.get(word, 0.0))
    needed = {word for scores in useful for word, score in scores.items() if score > 0}
    words = [word for word, score in best.items() if score > 0 and word not in needed]
    return sorted(words, key=lambda word: (-best[word], word))[:MOST]


def _classes(label: Label, texts: Mapping[str, Sequence[int]], truths: Truths) -> NDArray[np.int64]:
    """Return the class index [n] of each text: of the true class if it is given, else of the predicted one."""
    classes, names = _predicted(label.panel, texts), list(label.classifiers[0].classes)
    for i, text in enumerate(texts):
        if label.name in truths.get(text, ()):
            classes[i] = names.index(truths[text][label.name])
    return classes


def _predicted(panel: Panel, texts: Mapping[str, Sequence[int]]) -> NDArray[np.int64]:
    """Return the class index [n] with the largest mean log-probability over a label's classifiers."""
    rows = panel([(owner, text) for text, owners in texts.items() for owner in owners])
    first = np.cumsum([0, *(len(owners) for owners in texts.values())])[:-1]
    return np.array([rows[i].mean(axis=0).argmax() for i in first], np.int64)


def _scores(label: Label, texts: Mapping[str, Sequence[int]], settings: Attribution) -> Sequence[Mapping[str, float]]:
    """Return the scores of each text's words. Questions about perturbed texts count for the original text."""
    if settings.method not in _ASKING:
        return attributions(label.classifiers[0], list(texts), settings).scores
    return [
        attributions(_Counted(label, owners), [text], settings).scores[0]  # per text, to count for its owners
        for text, owners in texts.items()
    ]


class _Counted:
    """The first classifier of a label, asked through its ledger on behalf of some private texts."""

    def __init__(self, label: Label, owners: Sequence[int]) -> None:
        self._panel, self._owners = label.panel, owners
        self.classes, self.kind = label.classifiers[0].classes, label.classifiers[0].kind

    def probabilities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return probabilities [n, classes]. Each text counts as a question for each of the private texts."""
        owners = np.repeat(np.asarray(self._owners), len(texts))
        rows = self._panel.ledger.probabilities(self._panel.names[0], [*texts] * len(self._owners), owners)
        return rows[: len(texts)]

    def save(self, folder: Any) -> None:
        raise NotImplementedError
