"""Attackers who infer a private attribute from released texts; some of them know the mechanism.

clean:       learned from original texts and reads the originals, so it shows how much there is to hide. All other
             attackers read released texts.
static:      learned from original texts, without any rewrite.
adaptive:    learned from rewrites of original texts (all or some of them), with their true labels.
augmented:   learned from the originals and from the rewrites that the adaptive attacker learns from.
folded:      as augmented, but disguised letters, split words and swaps are undone (`folding`) in all rewrites that the
             attacker learns from and reads.
relabelled:  the static attacker with translated answers. Each answer is translated to the class whose rewritten
             training texts get this answer most often. This undoes a mechanism that exchanges classes.
author:      the adaptive attacker on several texts of one author, with their log-probabilities summed.
llm:         a language model that answers a prompt.
detector:    learned to distinguish texts from their rewrites.

No attacker learns from a test text, or from a text in the group of a test text (`released.check_apart`). Each result
has the hash of the attacker's training texts and labels. An attacker that should have learned from rewrites is compared
with the static attacker, to detect a training that never took place (`check_retrained`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.attributes.folding import Folding
from epsilometer.auditing.attributes.released import Released, check_apart, check_classes, numbered
from epsilometer.core.errors import UserError
from epsilometer.core.file_names import listed
from epsilometer.core.randomness import Noise
from epsilometer.corpora.parts import groups
from epsilometer.models.classifier import Classifier, Examples
from epsilometer.models.classifiers.pairs import single

CLEAN, STATIC, ADAPTIVE, AUGMENTED = "clean", "static", "adaptive", "augmented"
FOLDED, RELABELLED, AUTHOR, LLM, DETECTOR = "folded", "relabelled", "author", "llm", "detector"
LEARNERS = (STATIC, ADAPTIVE, AUGMENTED, FOLDED, RELABELLED, AUTHOR)  # the attackers made from each kind of classifier
REWRITTEN, ORIGINAL = "rewritten", "original"  # the two classes of the detector
UNUSABLE = -1  # a guess that does not name a class

_COMPARED = 500  # number of training texts on which a retrained attacker is compared with the static attacker
_TINY = 1e-300


@dataclass(frozen=True)
class Learners:
    """The attackers made from each kind of classifier. authors: numbers of one author's texts to read together."""

    attackers: Sequence[str] = LEARNERS
    authors: Sequence[int] = (1, 5, 20)


@dataclass(frozen=True)
class Learned:
    """A classifier with the examples that it learned from and the seed of its training."""

    classifier: Classifier
    examples: Examples
    seed: int = 0

    @cached_property
    def training(self) -> str:
        """The hash of the texts and labels, in their order."""
        content = json.dumps([list(self.examples.texts), list(self.examples.labels)])
        return hashlib.blake2b(content.encode(errors="surrogatepass"), digest_size=8).hexdigest()

    def log_likelihoods(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return [n, c]: ln P(text | class), up to a constant per text, by Bayes' rule with the training shares."""
        log_posteriors: NDArray[np.float64] = np.log(np.maximum(self.classifier.probabilities(texts), _TINY))
        return log_posteriors - self.log_shares

    @property
    def log_shares(self) -> NDArray[np.float64]:
        """The logarithm of each class's share among the examples [c]."""
        labels = np.asarray(self.examples.labels)
        shares = np.array([(labels == name).mean() for name in self.classifier.classes])
        return np.log(np.maximum(shares, _TINY))


Learn = Callable[[Examples], Classifier]
"""Trains a classifier on examples; kind and seed are fixed."""


class InferringModel(Protocol):
    """A model that answers prompts about the author's attribute."""

    def infer(self, texts: Sequence[str], label: str, classes: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return up to three classes per text, the most likely first; no class for a text whose answer is unusable."""
        ...


@dataclass(frozen=True)
class Inferred:
    """The inferences of one attacker on n units. A unit is a test text, or a set of test texts by one author.

    units: [n, texts per unit], indices of test texts. truth: [n], indices of classes. guesses: [n], the most likely
    classes if classes are as frequent as in the attacker's training. even_guesses: [n], the most likely classes if all
    classes are equally frequent. Both guesses are UNUSABLE for an unusable answer. learned: None for a language model.
    top: [n], the classes that a language model named for each text, the most likely first; None if it named at most one
    class per text.
    """

    attacker: str
    kind: str
    classes: Sequence[str]
    units: NDArray[np.int64]
    truth: NDArray[np.int64]
    guesses: NDArray[np.int64]
    even_guesses: NDArray[np.int64]
    learned: Learned | None = None
    top: Sequence[Sequence[int]] | None = None


def infer(
    training: Released,
    test: Released,
    label: str,
    static: Learned,
    *,
    learn: Learn,
    request: Learners,
    noise: Noise,
) -> Iterator[Inferred]:
    """Yield the inferences, on the test texts, of the attackers with one kind and seed of classifier; `clean` is first.

    training, test: texts that have the label. static: trained on the original training texts, and possibly on other
    texts. learn: trains another classifier like `static`. noise: one stream, which draws the sets of texts by one
    author. A set size is left out if some class has no set of that size. Raises UserError for texts or groups in both
    parts, for a class that is missing from a part, for a classifier that learned other classes, and for a classifier
    that was not trained again.
    """
    check_apart(training, test)
    check_classes(test, label, static.classifier.classes)
    truth = numbered(test.classes_of(label), static.classifier.classes)
    single = np.arange(len(test))[:, None]
    yield _by_scores(CLEAN, static, static.log_likelihoods(test.originals), single, truth=truth)
    released = static.log_likelihoods(test.rewrites)
    clean, origins = _grouped(static.examples, training)
    rewrites = replace(training.rewritten(label), groups=origins)
    if STATIC in request.attackers:
        yield _by_scores(STATIC, static, released, single, truth=truth)
    if RELABELLED in request.attackers:
        scores = confusion(static, rewrites)[released.argmax(axis=1)]
        yield _by_scores(RELABELLED, replace(static, examples=rewrites), scores, single, truth=truth)
    if AUGMENTED in request.attackers:
        learned = _retrained(static, learn, _joined(clean, rewrites), training)
        yield _by_scores(AUGMENTED, learned, learned.log_likelihoods(test.rewrites), single, truth=truth)
    if FOLDED in request.attackers:
        yield _folded(replace(static, examples=clean), learn, rewrites, test, label=label)
    if {ADAPTIVE, AUTHOR} & {*request.attackers}:
        learned = _retrained(static, learn, rewrites, training)
        scores = learned.log_likelihoods(test.rewrites)
        if ADAPTIVE in request.attackers:
            yield _by_scores(ADAPTIVE, learned, scores, single, truth=truth)
        for size in request.authors if AUTHOR in request.attackers else ():
            units = sets_of_one_author(test, label, size, noise)
            if {*truth[units[:, 0]]} == {*truth}:
                yield _by_scores(AUTHOR, learned, scores[units].sum(axis=1), units, truth=truth)


def detect(training: Released, test: Released, learn: Learn, *, seed: int, noise: Noise) -> Inferred:
    """Return the guesses of a detector; a fair coin shows it either the original or the release of each test text.

    noise: one stream, for the coins.
    """
    check_apart(training, test)
    clean, origins = _grouped(Examples(training.originals, [ORIGINAL] * len(training)), training)
    examples = _joined(clean, Examples(training.rewrites, [REWRITTEN] * len(training), origins))
    learned = Learned(learn(examples), examples, seed)
    coins = noise.uniforms(len(test))[0] < 0.5
    shown = [b if coin else a for a, b, coin in zip(test.originals, test.rewrites, coins, strict=True)]
    truth = numbered([REWRITTEN if coin else ORIGINAL for coin in coins], learned.classifier.classes)
    units = np.arange(len(test))[:, None]
    return _by_scores(DETECTOR, learned, learned.log_likelihoods(shown), units, truth=truth)


def ask(model: InferringModel, name: str, test: Released, label: str, *, classes: Sequence[str]) -> Inferred:
    """Return a language model's inferences on the released test texts; an answer without a class is unusable."""
    number_of = {class_: number for number, class_ in enumerate(classes)}
    answers = model.infer(test.rewrites, label, classes)
    named = [[number_of[name] for name in answer if name in number_of] for answer in answers]
    guesses = np.array([numbers[0] if numbers else UNUSABLE for numbers in named], np.int64)
    return Inferred(
        LLM,
        name,
        classes,
        np.arange(len(test))[:, None],
        truth=numbered(test.classes_of(label), classes),
        guesses=guesses,
        even_guesses=guesses,
        top=named if max(map(len, named), default=0) > 1 else None,
    )


def confusion(static: Learned, rewrites: Examples) -> NDArray[np.float64]:
    """Return [c, c]: ln P(static names class a | class b), estimated on rewrites with their true labels.

    An answer is the most likely class under equal prior probabilities. For every class, one right answer is added to
    the counts, so an answer that never occurs is not translated.
    """
    classes = static.classifier.classes
    named = static.log_likelihoods(single(rewrites.texts)).argmax(axis=1)
    counts = np.eye(len(classes))
    np.add.at(counts, (named, numbered(rewrites.labels, classes)), 1)
    log_shares: NDArray[np.float64] = np.log(np.maximum(counts / counts.sum(axis=0), _TINY))
    return log_shares


def sets_of_one_author(test: Released, label: str, size: int, noise: Noise) -> NDArray[np.int64]:
    """Return [n, size]: indices of test texts. All texts of a row have one group and class, and no text is in two rows.

    Without groups, all texts of one class count as texts by one author. noise: one stream, which shuffles the texts.
    """
    shuffled = noise.uniforms(len(test))[0].argsort(kind="stable")
    labels, groups = test.classes_of(label), test.groups or [""] * len(test)
    authors: dict[tuple[str, str], list[int]] = {}
    for text in shuffled.tolist():
        authors.setdefault((groups[text], labels[text]), []).append(text)
    starts = [(texts, i) for texts in authors.values() for i in range(0, len(texts) - size + 1, size)]
    return np.array([texts[i : i + size] for texts, i in starts], np.int64).reshape(-1, size)


def check_same_classes(learned: Sequence[str], clean: Sequence[str]) -> None:
    """Raise UserError unless rewrites and clean texts have the same classes.

    Answers are indices of the clean classes. learned, clean: the classes, or the label of each text.
    """
    of_rewrites, of_clean = ({*labels} for labels in (learned, clean))
    if of_rewrites != of_clean:
        raise UserError(
            f"attackers learn {listed(sorted(of_rewrites), 'class')} from rewrites, and "
            f"{listed(sorted(of_clean), 'class')} from clean texts; both must have the same classes: give more "
            "rewrites to learn from, or leave out or merge rare classes",
            "EPS-S007",
        )


def check_retrained(retrained: Learned, static: Learned, training: Released) -> None:
    """Raise UserError if a classifier that should have learned from rewrites answers as the static classifier does.

    If no training text was changed, there is nothing new to learn and nothing is checked.
    """
    rows = np.flatnonzero(~training.unchanged)[:_COMPARED]
    texts = [*(training.rewrites[i] for i in rows), *(training.originals[i] for i in rows)]
    if texts and np.array_equal(retrained.classifier.probabilities(texts), static.classifier.probabilities(texts)):
        raise UserError(
            f"the attacker that learns from rewrites gives {len(texts)} texts the same probabilities as the one "
            "without rewrites, so it was not trained again; return a newly trained classifier for each set of examples",
            "EPS-S008",
        )


def _retrained(static: Learned, learn: Learn, examples: Examples, training: Released) -> Learned:
    learned = _learned(static, learn, examples)
    check_retrained(learned, static, training)
    return learned


def _learned(static: Learned, learn: Learn, examples: Examples) -> Learned:
    learned = Learned(learn(examples), examples, static.seed)
    check_same_classes(learned.classifier.classes, static.classifier.classes)
    return learned


def _folded(static: Learned, learn: Learn, rewrites: Examples, test: Released, *, label: str) -> Inferred:
    """Return the folded attacker's inferences, without a check that it was retrained.

    If folding undoes every edit, this attacker learns the originals twice, and may answer like the static attacker.
    """
    folding = Folding(single(static.examples.texts))
    read = replace(rewrites, texts=[folding.fold(text) for text in single(rewrites.texts)])
    examples = _joined(static.examples, read)
    learned = _learned(static, learn, examples)
    scores = learned.log_likelihoods([folding.fold(text) for text in test.rewrites])
    truth = numbered(test.classes_of(label), learned.classifier.classes)
    return _by_scores(FOLDED, learned, scores, np.arange(len(test))[:, None], truth=truth)


def _grouped(clean: Examples, training: Released) -> tuple[Examples, list[str]]:
    """Return the clean examples with their groups, and the groups [n] of the training texts and their rewrites.

    A text, its rewrite, equal texts and texts of one author are in one group.
    """
    texts = [text.encode(errors="backslashreplace").decode() for text in (*single(clean.texts), *training.originals)]
    authors: list[str | None] = []
    for part in (clean, training):
        authors += [None] * len(part) if part.groups is None else part.groups
    table = pl.DataFrame({"text": texts, "author": authors}, schema={"text": pl.String, "author": pl.String})
    names = [str(number) for number in groups(table, ["author"])]
    return replace(clean, groups=names[: len(clean)]), names[len(clean) :]


def _joined(first: Examples, second: Examples) -> Examples:
    together = None if first.groups is None or second.groups is None else [*first.groups, *second.groups]
    return Examples([*first.texts, *second.texts], [*first.labels, *second.labels], together)


def _by_scores(
    attacker: str, learned: Learned, scores: NDArray[np.float64], units: NDArray[np.int64], *, truth: NDArray[np.int64]
) -> Inferred:
    """Return the inferences. scores: [n, c], log-likelihoods of the units. truth: the class of each test text."""
    return Inferred(
        attacker,
        learned.classifier.kind,
        learned.classifier.classes,
        units,
        truth=truth[units[:, 0]],
        guesses=(scores + learned.log_shares).argmax(axis=1),
        even_guesses=scores.argmax(axis=1),
        learned=learned,
    )
