"""The search that TextFooler, TextBugger and BAE share. It replaces one word after another, the most important first.

The importance of a word is 1 - p(y) with the word deleted, where y is the class that the queried classifier predicts
for the original text. At each word, the classifier is queried about candidates within the limits (`EditLimits`). The
search ends at the first word with candidates that change the prediction, and takes the most similar of these
candidates. At other words it takes the candidate with the smallest p(y), if that is below the current p(y). No word is
changed twice, and stop-words are never changed.

This is GreedyWordSwapWIR of TextAttack 0.3.11, with which the published comparisons were run. (The authors of
TextFooler compare with p(y) of the original text instead, so a later replacement may undo progress.) Differences:

- y is the true class only if it is given (`truths.py`), since a user's text may have none; a text with a given class is
  released unchanged if it already deceives the classifier;
- equally important words are tried in the text's order;
- if the search does not deceive the classifier, its last state is released with status `part`, whereas TextAttack
  reports a failure.

The published Universal Sentence Encoder is on a model hub; **MiniLM replaces it here**, with the published thresholds.
`similarity: free` drops the limit on similarity, and takes the most confident of several successes.

A ledger counts queries, each distinct text once. If a victim is queried, or queries have a budget, queries are
expensive. Candidates are then checked against the limits before the query. Otherwise candidates are checked after the
query, since querying the user's own auxiliaries is cheaper than running the tagger and the encoder. The order changes
the counts, but not the rewrites. All searches run concurrently (`in_step`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.outcomes import FOUND, MISSED, NOTHING, PART
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Auxiliaries
from epsilometer.mechanisms.anonymisers.shared.draft import Draft
from epsilometer.mechanisms.anonymisers.shared.in_step import Asker, Search, ask, in_step
from epsilometer.mechanisms.anonymisers.shared.limits import EditLimits, Inspector
from epsilometer.mechanisms.anonymisers.shared.neighbours import NearestWords
from epsilometer.mechanisms.anonymisers.shared.release import Release, rewrites
from epsilometer.mechanisms.anonymisers.shared.truths import WithTruths
from epsilometer.mechanisms.anonymisers.shared.word_edits import spans
from epsilometer.models.classifier import Classifier
from epsilometer.models.classifiers.by_kind import load
from epsilometer.models.ledger import Ledger
from epsilometer.text.words import STOP_WORDS

# Most texts per ledger, and the largest sum of their squared lengths. These limit memory and do not change results.
_TOGETHER = 256
_SQUARED = 10**8
_ROUND = 4  # candidates that do not change the prediction, checked at a time, best first


@component
class WordSearch(WithTruths):
    """Base class of mechanisms that search word by word.

    resource:     a folder of auxiliaries: classifiers and word vectors (`shared/auxiliaries.py`).
    attribute:    the label to hide; required if the auxiliaries have several.
    kind:         kind of classifier to query; None: the first kind.
    asks:         the classifier to query: the auxiliary, or the victim, which is the first classifier of this kind in
                  `victims`.
    victims:      a folder of victims such as data/classifiers/DATASET.
    query_budget: most queries per text; None: no limit.
    similarity:   `kept` to limit the similarity, `free` for no limit.
    as_published: True to reproduce details of TextAttack's recipe that change results.
    """

    has_budget: ClassVar[bool] = False
    stop_words: ClassVar[frozenset[str]] = STOP_WORDS
    draws: ClassVar[bool] = False  # True if candidates are random

    resource: Path
    attribute: str | None = None
    kind: str | None = None
    asks: Literal["auxiliaries", "victim"] = "auxiliaries"
    victims: Path | None = None
    query_budget: Annotated[int, Field(ge=1)] | None = None
    similarity: Literal["kept", "free"] = "kept"
    as_published: bool = False

    @property
    @abstractmethod
    def limits(self) -> EditLimits:
        """The limits on replacements."""

    @abstractmethod
    def candidates(self, draft: Draft, position: int) -> Search[list[str]]:
        """Return the candidates to replace the word at a position. Of equally good ones, the first is preferred."""

    @cached_property
    def _inspector(self) -> Inspector:
        return Inspector(self.limits)

    @cached_property
    def auxiliaries(self) -> Auxiliaries:
        """The auxiliaries in the folder `resource`."""
        return Auxiliaries(self.resource)

    def check_auxiliaries(self, auxiliaries: Auxiliaries) -> None:
        """Raise UserError if the label to hide is ambiguous, or if the auxiliaries lack the label or kind."""
        if self.asks == "victim":
            if self.victims is None:
                raise UserError(
                    "asks: victim needs `victims`, a folder of victims such as data/classifiers/DATASET", "EPS-M028"
                )
            self._label(auxiliaries)
        else:
            auxiliaries.check([self._label(auxiliaries)], [], [] if self.kind is None else [self.kind])

    @cached_property
    def classifier(self) -> Classifier:
        """The queried classifier. Raises UserError if it does not exist."""
        auxiliaries = self.auxiliaries
        self.check_auxiliaries(auxiliaries)
        label = self._label(auxiliaries)
        if self.victims is not None and self.asks == "victim":
            return self._victim(self.victims, label)
        return auxiliaries.classifiers[label][self.kind or auxiliaries.kinds[0]]

    def _label(self, auxiliaries: Auxiliaries) -> str:
        if self.attribute is not None:
            return self.attribute
        if len(auxiliaries.attributes) > 1:
            names = ", ".join(auxiliaries.attributes)
            raise UserError(
                f"the auxiliaries hide {names}, but this search hides a single attribute; set `attribute` to it",
                "EPS-M029",
            )
        return auxiliaries.attributes[0]

    def _victim(self, victims: Path, label: str) -> Classifier:
        wanted = f"{label}-{self.kind or '*'}-*"
        folders = sorted(victims.glob(wanted))
        if not folders:
            raise UserError(
                f"{victims} does not contain the victim {wanted}; run stage classifiers, or set another kind",
                "EPS-M030",
            )
        return load(folders[0])

    @cached_property
    def neighbours(self) -> NearestWords:
        """Nearest words by the auxiliaries' vectors, which are counter-fitted if there are word relations."""
        auxiliaries = self.auxiliaries
        return NearestWords(auxiliaries.vectors if auxiliaries.relations is None else auxiliaries.counter_fitted)

    def classes_of(self) -> Mapping[str, Sequence[str]]:
        """Return the auxiliaries' classes by label, and the queried classifier's classes for the label to hide."""
        return {**self.auxiliaries.about["classes"], self._label(self.auxiliaries): self.classifier.classes}

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Nothing is claimed."""
        return None

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the rewrites. Searches run concurrently, one per distinct text unless candidates are random."""
        first = {text: i for i, text in reversed(list(enumerate(texts)))}
        rows = list(range(len(texts))) if self.draws else sorted(first.values())
        done: dict[int, Release] = {}
        for part in _parts(rows, texts):
            ledger = Ledger({"asked": self.classifier}, len(part), self.query_budget)
            drafts = (Draft(owner, spans(texts[i]), noise.generator(i)) for owner, i in enumerate(part))

            def questions(items: Sequence[tuple[int, str]], ledger: Ledger = ledger) -> list[NDArray[np.float64]]:
                return list(ledger.probabilities("asked", [text for _, text in items], [owner for owner, _ in items]))

            releases = in_step(self._release(draft, questions, ledger) for draft in drafts)
            done.update(zip(part, releases, strict=True))
        return rewrites([done[i if self.draws else first[text]] for i, text in enumerate(texts)], self.asks == "victim")

    def _release(self, draft: Draft, questions: Asker, ledger: Ledger) -> Search[Release]:
        """Return a search in one text, whose result is the release."""
        yield from self._search(draft, questions)
        count = int(ledger.questions[draft.owner])
        status = FOUND if draft.fooled else PART if draft.edits else MISSED if count else NOTHING
        status = NOTHING if draft.spared else status
        return Release(draft.text(), status, len(draft.edits), words=len(draft.spans.words), questions=count)

    def _search(self, draft: Draft, questions: Asker) -> Search[None]:
        """Change the text until the classifier's prediction changes, or until no word or query is left."""
        tokens = draft.spans.tokens
        positions = [i for i in draft.spans.words if tokens[i].lower() not in self.stop_words]
        if not positions:
            return
        (row,) = yield questions, [(draft.owner, draft.spans.text)]
        truths = self.truths.get(draft.spans.text)
        own = truths.get(self._label(self.auxiliaries)) if truths else None
        draft.answer = int(np.argmax(row)) if own is None else list(self.classifier.classes).index(own)
        if draft.answer != int(np.argmax(row)):
            draft.spared = True
            return
        draft.score = float(1 - row[draft.answer])
        deleted = [(draft.owner, draft.text({i: ""})) for i in positions]
        rows = yield from ask(questions, deleted, draft.at_once)
        importance = 1 - np.array([row[draft.answer] for row in rows])
        if np.isnan(importance).any():
            return  # the budget is spent
        for i in np.argsort(-importance, kind="stable"):
            position = positions[i]
            proposed = yield from self.candidates(draft, position)
            fresh = [token for token in dict.fromkeys(proposed) if token != tokens[position]]
            if fresh and (yield from self._swap(draft, position, fresh, questions)):
                return

    def _swap(self, draft: Draft, position: int, tokens: list[str], questions: Asker) -> Search[bool]:
        """Replace a word by the best candidate if that is an improvement; return True if the search is over."""
        similar: dict[str, float | None] = {}
        if self.asks == "victim" or self.query_budget is not None:
            similar = yield from self._inspector.similarities(draft, position, tokens)
            tokens = [token for token in tokens if similar[token] is not None]
        items = [(draft.owner, draft.text({position: token})) for token in tokens]
        rows = yield from ask(questions, items, draft.at_once)
        scores = {t: float(1 - row[draft.answer]) for t, row in zip(tokens, rows, strict=True) if row[0] == row[0]}
        wrong = {t for t, row in zip(tokens, rows, strict=True) if t in scores and np.argmax(row) != draft.answer}
        order = sorted(scores, key=lambda t: -scores[t])
        successes = [t for t in order if t in wrong]
        similar |= yield from self._inspector.similarities(draft, position, [t for t in successes if t not in similar])
        best = max((t for t in successes if similar[t] is not None), key=lambda t: similar[t] or 0.0, default=None)
        better = iter([t for t in order if t not in wrong and scores[t] > draft.score])
        while best is None and (round_ := list(islice(better, _ROUND))):
            new = [t for t in round_ if t not in similar]
            similar |= yield from self._inspector.similarities(draft, position, new)
            best = next((t for t in round_ if similar[t] is not None), None)
        if best is not None:
            draft.edits[position], draft.score, draft.fooled = best, scores[best], best in wrong
        return draft.fooled or len(scores) < len(tokens)


def _parts(rows: Sequence[int], texts: Sequence[str]) -> Iterator[list[int]]:
    """Yield the rows in parts of at most _TOGETHER texts, with squared lengths that sum to at most _SQUARED."""
    part: list[int] = []
    size = 0
    for row in rows:
        squared = len(texts[row]) ** 2
        if part and (len(part) == _TOGETHER or size + squared > _SQUARED):
            yield part
            part, size = [], 0
        part.append(row)
        size += squared
    if part:
        yield part
