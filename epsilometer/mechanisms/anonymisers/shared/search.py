"""Search for a few replacements after which classifiers of an attribute err, and those of a task predict as before.

An edit is a set of replacements. A replacement changes all occurrences of a word to one of the word's options. The size
of an edit is its number of different words. Searches propose edits of size 1, 2, ... The attributes' classifiers judge
each edit first. Edits that reach the aim (the attributes' classifiers err) are then checked, best first: by the tasks'
classifiers, by the tagger, which reads only changed sentences, and by the guards (`shared/guards.py`). A search is a
generator (`in_step`), so that edits of many texts are judged in one pass.

The strategies are:

- sampled: q random edits of every size.
- beam: the q best edits of every size, each extended by the best replacements of one more word.
- exhaustive: all edits of a size, until their total number exceeds a limit; after that, beam search.
- `as_published` (Faustini, Tonni, McIver, Xu and Dras, Computational Linguistics 2025, algorithm 1): q chains of every
  size. A chain samples different words, and an option for each word. It makes one replacement after another, and
  reverts replacements that change the text's tags. Every intermediate text is a candidate.

The choice `fewest` takes the most confident edit of the smallest size at which an edit passes all checks. For
`exhaustive`, up to its limit, this edit is minimal: no smaller edit of these words by these options reaches the aim and
passes all checks. `confidence` and `similarity` try all sizes, and take the most confident or the most similar edit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from heapq import nlargest
from itertools import combinations, product
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epsilometer.mechanisms.anonymisers.shared.in_step import Search, ask
from epsilometer.mechanisms.anonymisers.shared.judges import Aim, Judges, Panel
from epsilometer.mechanisms.anonymisers.shared.source import Edit, SourceText

Choice = Literal["fewest", "confidence", "similarity"]
Strategy = Literal["sampled", "beam", "exhaustive"]

_BEST = 32  # number of edits nearest to the aim that are stored, in case no edit reaches it
_OPTIONS = 2  # options per word with which a beam extends edits
_DECOYS = 64  # edits that `decoy` samples
_ROUND = 4  # candidates in the first round of checks; each further round doubles the number


class Candidate(NamedTuple):
    """A judged edit: distance from the aim (0: reached, else negative), confidence, and a random number for ties."""

    edit: Edit
    progress: float
    confidence: float
    tie: float


class Trial(NamedTuple):
    """The number of a private text in the ledger, and its random stream."""

    owner: int
    stream: np.random.Generator


class TextSearch:
    """The search in one text for one trial.

    lost:    True if a candidate that reached the aim was rejected by a task's classifiers.
    minimal: True if all edits of all sizes so far were judged.
    """

    def __init__(self, source: SourceText, aims: Sequence[Aim], judges: Judges, trial: Trial) -> None:
        self.source, self.aims, self.judges, self.owner, self.stream = source, aims, judges, *trial
        self.lost, self.minimal = False, False
        self._swaps: list[tuple[int, int]] = []
        self._singles: list[Candidate] = []
        self._last: list[Candidate] = []
        self._nearest: list[Candidate] = []
        self._start = Candidate((), -math.inf, -math.inf, 0.0)

    def begin(self) -> Search[bool]:
        """Return True if the text already reaches the aim."""
        (self._start,) = yield from self._judge([()])
        self._nearest.clear()
        return self._start.progress >= 0

    def published(self, draws: int) -> Search[Edit | None]:
        """Return the most confident edit that reaches the aim and passes all checks, from `draws` chains per size."""
        chains = self._chains(draws)
        edits: list[Edit] = [()] * len(chains)
        reached: list[Candidate] = []
        judged: set[Edit] = {()}
        for step in range(len(self.source.words)):
            longer = [i for i, chain in enumerate(chains) if len(chain) > step]
            tried = [_with(edits[i], chains[i][step]) for i in longer]
            for i, edit, equal in zip(longer, tried, (yield from self._tags_equal(tried)), strict=True):
                edits[i] = edit if equal else edits[i]
            new = [edit for edit in dict.fromkeys(edits[i] for i in longer) if edit not in judged]
            judged.update(new)
            candidates = yield from self._judge(new)
            reached += [candidate for candidate in candidates if candidate.progress >= 0]
        return (yield from self._first(self._ranked(reached)))

    def search(self, strategy: Strategy, choose: Choice, draws: int, candidates: int) -> Search[Edit | None]:
        """Return the edit chosen among those that reach the aim and pass all checks; None if there are none.

        draws: number of edits per size that are sampled, or that a beam holds; candidates: most edits that `exhaustive`
        may judge in total.
        """
        reached: list[Candidate] = []
        left = candidates
        self.minimal = strategy == "exhaustive"
        for size in range(1, len(self.source.words) + 1):
            left -= self._count(size)
            self.minimal = self.minimal and left >= 0
            if self.minimal:
                edits = list(self._all(size))
            else:
                edits = self._sampled(size, draws) if strategy == "sampled" else (yield from self._grown(size, draws))
            self._last = yield from self._judge(edits)
            self._singles = self._last if size == 1 else self._singles
            reached += [candidate for candidate in self._last if candidate.progress >= 0]
            if choose == "fewest":
                best = yield from self._first(self._ranked(reached))
                if best is not None:
                    return best
                reached.clear()
        if choose == "similarity":
            reached = yield from self._by_similarity(reached)
        return (yield from self._first(self._ranked(reached)))

    def nearest(self) -> Search[Edit | None]:
        """Return the judged edit nearest to the aim that passes all checks; None if none improves on the original."""
        return (yield from self._first([candidate for candidate in self._nearest if candidate[1:3] > self._start[1:3]]))

    def decoy(self, edit: Edit, aims: Sequence[Aim]) -> Search[Edit | None]:
        """Return the most confident sampled edit of these words that reaches `aims` and passes all checks, or None."""
        self.aims = aims
        yield from self.begin()
        words = np.array([word for word, _ in edit])
        edits = dict.fromkeys(self._pick(words, row) for row in self.stream.random((_DECOYS, len(words))))
        judged = yield from self._judge(list(edits))
        return (yield from self._first(self._ranked([candidate for candidate in judged if candidate.progress >= 0])))

    # Proposals

    def _chains(self, draws: int) -> list[Edit]:
        """Return `draws` random chains of every size, with replacements in the order in which they are tried."""
        chains = []
        for size in range(1, len(self.source.words) + 1):
            words = self.stream.random((draws, len(self.source.words))).argsort(axis=1)[:, :size]
            chains += [self._pick(row, u) for row, u in zip(words, self.stream.random((draws, size)), strict=True)]
        return chains

    def _sampled(self, size: int, draws: int) -> list[Edit]:
        words = np.sort(self.stream.random((draws, len(self.source.words))).argsort(axis=1)[:, :size], axis=1)
        uniforms = self.stream.random((draws, size))
        return list(dict.fromkeys(self._pick(row, u) for row, u in zip(words, uniforms, strict=True)))

    def _pick(self, words: NDArray[np.integer], uniforms: NDArray[np.float64]) -> Edit:
        """Return the edit that replaces these words by options sampled uniformly, with one uniform per word."""
        return tuple((w, int(u * len(self.source.options[w]))) for w, u in zip(words.tolist(), uniforms, strict=True))

    def _count(self, size: int) -> int:
        """Return the number of edits of this size."""
        counts = [1] + [0] * size
        for options in self.source.options:
            for i in range(size, 0, -1):
                counts[i] += counts[i - 1] * len(options)
        return counts[size]

    def _all(self, size: int) -> Iterator[Edit]:
        for words in combinations(range(len(self.source.words)), size):
            for picked in product(*(range(len(self.source.options[word])) for word in words)):
                yield tuple(zip(words, picked, strict=True))

    def _grown(self, size: int, width: int) -> Search[list[Edit]]:
        """Return the best edits of the previous size, each extended by one of the best replacements of another word."""
        if size == 1:
            return list(self._all(1))
        if not self._swaps:
            self._swaps = yield from self._best_swaps(self._singles)
        best = yield from self._keeping_tasks(sorted(self._last, key=_rank, reverse=True)[: 2 * width])
        edits = (
            _with(candidate.edit, swap)
            for candidate in best[:width]
            for swap in self._swaps
            if swap[0] not in dict(candidate.edit)
        )
        return list(dict.fromkeys(edits))

    def _best_swaps(self, singles: Sequence[Candidate]) -> Search[list[tuple[int, int]]]:
        """Return the best few replacements (word, option) of each word: those nearest to the aim by themselves.

        A replacement must improve on the original text and preserve its tags. The word and its options are also tagged
        without context. Options with the word's tag are tried first.
        """
        helpful = [
            candidate for candidate in sorted(singles, key=_rank, reverse=True) if candidate[1:3] > self._start[1:3]
        ]
        alike = yield from self._alike([candidate.edit[0] for candidate in helpful])
        of_word: dict[int, list[Candidate]] = {}
        for _, candidate in sorted(zip(alike, helpful, strict=True), key=lambda pair: not pair[0]):
            of_word.setdefault(candidate.edit[0][0], []).append(candidate)
        best: dict[int, list[tuple[int, int]]] = {word: [] for word in of_word}
        for start in range(0, 2 * _OPTIONS, _OPTIONS):
            short = [word for word in best if len(best[word]) < _OPTIONS]
            trying = [candidate for word in short for candidate in of_word[word][start : start + _OPTIONS]]
            for candidate in (yield from self._tags(trying)):
                best[candidate.edit[0][0]].append(candidate.edit[0])
        return [swap for swaps in best.values() for swap in swaps[:_OPTIONS]]

    def _alike(self, swaps: Sequence[tuple[int, int]]) -> Search[list[bool]]:
        """Return, for each replacement, True if word and option have the same tag without context."""
        if self.judges.tags is None:
            return [True] * len(swaps)
        words = [(self.source.words[word],) for word, _ in swaps]
        options = [(self.source.options[word][option],) for word, option in swaps]
        answers = yield from ask(self.judges.tags, [*words, *options], self.source.at_once)
        return [a == b for a, b in zip(answers[: len(swaps)], answers[len(swaps) :], strict=True)]

    # Judgements

    def _judge(self, edits: Sequence[Edit]) -> Search[list[Candidate]]:
        """Return the edits as judged candidates."""
        progress, confidence = np.zeros(len(edits)), np.full(len(edits), np.inf)
        if not edits:
            return []
        for panel, aim in zip(self.judges.attributes, self.aims, strict=True):
            rows = yield from self._rows(panel, edits)
            excess, sure = aim.judge(rows)
            # At least `enough` classifiers must reach the aim, so the value of the `enough`-th best one counts.
            progress += np.minimum(np.sort(excess, axis=1)[:, -panel.enough], 0)
            confidence = np.minimum(confidence, np.sort(sure, axis=1)[:, -panel.enough])
        ties = self.stream.random(len(edits))
        columns = zip(edits, progress.tolist(), confidence.tolist(), ties.tolist(), strict=True)
        judged = [Candidate(*row) for row in columns]
        self._nearest = nlargest(_BEST, [*self._nearest, *judged], key=_rank)
        return judged

    def _rows(self, panel: Panel, edits: Sequence[Edit]) -> Search[NDArray[np.float64]]:
        """Return log-probabilities [n, classifiers, classes] for the edited texts."""
        questions = [(self.owner, self.source.text(edit)) for edit in edits]
        return np.stack((yield from ask(panel, questions, self.source.at_once)))

    def _ranked(self, reached: Sequence[Candidate]) -> list[Candidate]:
        """Return candidates sorted by confidence, then by fewest changed words, then by random number."""
        return sorted(
            reached, key=lambda candidate: (-candidate.confidence, self.source.changed(candidate.edit), candidate.tie)
        )

    def _by_similarity(self, reached: Sequence[Candidate]) -> Search[list[Candidate]]:
        assert self.judges.similarity is not None
        pairs = [(self.source.spans.text, self.source.text(candidate.edit)) for candidate in reached]
        answers = yield from ask(self.judges.similarity, pairs, self.source.at_once)
        return [candidate._replace(confidence=answer) for candidate, answer in zip(reached, answers, strict=True)]

    def _first(self, ranked: Sequence[Candidate]) -> Search[Edit | None]:
        """Return the edit of the first candidate that passes all checks. Successive rounds double in size."""
        start, count = 0, _ROUND
        while start < len(ranked):
            passing = yield from self._keeping_tasks(ranked[start : start + count])
            passing = yield from self._tags(passing)
            for guard in self.judges.guards:
                pairs = [(self.source.spans.text, self.source.text(candidate.edit)) for candidate in passing]
                answers = yield from ask(guard, pairs, self.source.at_once)
                passing = [candidate for candidate, passes in zip(passing, answers, strict=True) if passes]
            if passing:
                return passing[0].edit
            start, count = start + count, 2 * count
        return None

    def _keeping_tasks(self, candidates: Sequence[Candidate]) -> Search[list[Candidate]]:
        """Return the candidates for which the classifiers of every task predict the class in `source.answers`."""
        for panel, answer in zip(self.judges.tasks, self.source.answers, strict=True):
            if not candidates:
                return []
            rows = yield from self._rows(panel, [candidate.edit for candidate in candidates])
            stays = (rows.argmax(axis=-1) == answer).sum(axis=-1) >= panel.enough
            self.lost |= any(
                candidate.progress >= 0 and not same for candidate, same in zip(candidates, stays, strict=True)
            )
            candidates = [candidate for candidate, same in zip(candidates, stays, strict=True) if same]
        return list(candidates)

    def _tags(self, candidates: Sequence[Candidate]) -> Search[list[Candidate]]:
        """Return the candidates that do not change the text's tags."""
        equal = yield from self._tags_equal([candidate.edit for candidate in candidates])
        return [candidate for candidate, same in zip(candidates, equal, strict=True) if same]

    def _tags_equal(self, edits: Sequence[Edit]) -> Search[list[bool]]:
        if self.judges.tags is None:
            return [True] * len(edits)
        return (yield from self.source.tags_equal(edits, self.judges.tags))


def _with(edit: Edit, swap: tuple[int, int]) -> Edit:
    """Return the edit extended by a replacement."""
    return tuple(sorted((*edit, swap)))


def _rank(candidate: Candidate) -> tuple[float, float, float]:
    """Return the sort key of a candidate: distance from the aim, then confidence, then random number."""
    return candidate.progress, candidate.confidence, candidate.tie
