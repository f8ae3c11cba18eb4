"""Events that distinguish the outputs of two inputs, learnt from draws. Losses are in nats.

If outputs hardly ever repeat, no single output can prove a loss: a mechanism that returns its input followed by a
random number would look private. So sets of outputs (events) are tested as well. An event is the set of outputs with
some trait, or the set of outputs to which a classifier gives at least some log-odds of one input against another. The
classifier is naive Bayes over the traits. A trait of an output is the output itself, an input that it contains, a word,
its beginning, three characters in a row, or its length. A claim with a delta bounds only the probabilities of events.

One part of the draws trains the classifier. A second part chooses an event for each pair of inputs: the event that
would prove the largest loss. Further draws test the chosen events. So each pair has one test, however many events there
are to choose from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilometer.text.words import words

_LONG = 200  # number of leading characters whose trigrams are traits (every word is a trait)
_GRID = 1e6  # log-odds are rounded to 1 / _GRID: further digits depend on the processor


@dataclass(frozen=True)
class Event:
    """A set of outputs. name: a description, or the output itself. holds: True for each output in the event."""

    name: str
    holds: NDArray[np.bool_]


class Events:
    """Events learnt from draws at a few inputs.

    inputs: n texts. outputs: m distinct texts. draws: indices of the outputs drawn at each input, [n, a] to train the
    classifier and [n, b] to choose events. lower: [b + 1], the lower bound of an event's probability if 0, ..., b draws
    are in the event. delta: the delta of the claim.
    """

    def __init__(
        self,
        inputs: Sequence[str],
        outputs: Sequence[str],
        draws: tuple[NDArray[np.integer], NDArray[np.integer]],
        lower: NDArray[np.float64],
        *,
        delta: float,
    ) -> None:
        from sklearn.feature_extraction.text import CountVectorizer  # loads slowly
        from sklearn.naive_bayes import BernoulliNB

        learn, choose = draws
        self._inputs, self._choose = inputs, choose
        vectorizer = CountVectorizer(analyzer=lambda text: _traits(text, inputs), binary=True)
        vectorizer.fit([outputs[i] for i in np.unique(learn)])
        names = vectorizer.get_feature_names_out()
        rank = dict.fromkeys(map(_containing, inputs), 1) | dict.fromkeys(outputs, 0)  # simplest first
        order = np.argsort([rank.get(name, 2) for name in names], kind="stable")
        self._names, self._traits = names[order], vectorizer.transform(outputs).tocsc()[:, order]
        classifier = BernoulliNB().fit(self._traits[learn.ravel()], np.repeat(np.arange(len(inputs)), learn.shape[1]))
        self._scores = np.round(classifier.predict_joint_log_proba(self._traits) * _GRID) / _GRID
        with np.errstate(divide="ignore"):
            self._gain, self._cost = np.log(np.maximum(lower - delta, 0)), np.log1p(-lower[::-1])
        counts = np.array([np.bincount(row, minlength=len(outputs)) for row in choose])
        self._most = counts.max(axis=1)
        held = np.rint(counts @ self._traits).astype(np.int64)
        self._gains, self._costs = self._gain[held], self._cost[held]

    def best(self, first: int, second: int) -> Event:
        """Return the event that would prove the largest loss of input `first` against input `second` (indices)."""
        proved = self._gains[first] - self._costs[second]
        trait = int(proved.argmax())
        odds = self._scores[:, first] - self._scores[:, second]
        cuts, here, there = (np.sort(part) for part in (odds[self._choose[i]] for i in (first, first, second)))
        often, seldom = (len(part) - np.searchsorted(part, cuts) for part in (here, there))
        above = self._gain[often] - self._cost[seldom]
        if above.max() > proved[trait]:
            cut = cuts[above.argmax()]
            likelier = f"any text that a classifier assigns to {self._inputs[first]} at log-odds >= {cut:.2f}"
            return Event(likelier, odds >= cut)
        return Event(str(self._names[trait]), self._traits[:, [trait]].toarray()[:, 0] > 0)

    def frequency(self, number: int, other: int) -> float:
        """Return the larger of two frequencies at an input.

        One is the frequency of the input's commonest output. The other is the frequency of all outputs that the
        classifier finds likelier at this input than at `other`.
        """
        outputs = self._choose[number]
        likelier = int((self._scores[outputs, number] > self._scores[outputs, other]).sum())
        return max(int(self._most[number]), likelier) / len(outputs)


def _traits(text: str, inputs: Sequence[str]) -> Iterator[str]:
    """Yield the traits of an output as descriptions."""
    yield text
    for source in inputs:
        if source.casefold() in text.casefold():
            yield _containing(source)
    parts = words(text)
    for word in parts:
        yield f"any text with the word {word}"
    for i in range(min(len(text), _LONG) - 2):
        yield _containing(text[i : i + 3])
    for length in (1, 2, 4):
        yield f"any text that begins with {text[:length]}"
    yield f"any text of {len(parts)} word" + "s" * (len(parts) != 1)
    yield f"any text of {len(text)} character" + "s" * (len(text) != 1)


def _containing(part: str) -> str:
    return f"any text with {part} in it"
