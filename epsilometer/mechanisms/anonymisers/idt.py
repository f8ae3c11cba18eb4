"""IDT: replaces a few words so that classifiers of a private attribute err, and classifiers of a useful task do not.

In plain words it replaces a few words so that classifiers no longer recognise a private attribute and still recognise a
useful one.

The mechanism is algorithm 1 of Faustini, Tonni, McIver, Xu and Dras, "IDT", Computational Linguistics 2025. It makes no
claim: nothing is proved about the released text, and an attacker trained on rewrites recovers much of the attribute.

As in the paper, a text's classes are the true ones if they are given (`shared/truths.py`). Otherwise the mechanism's
own classifiers, the auxiliaries, predict the classes. A text whose binary attribute is mispredicted is then edited
towards the true class. A text with a given class is released unchanged if it already deceives the auxiliaries.

1. Compute attributions of the predicted class of every label (`shared/attribution.py`).
2. Let W be the words with a positive score for an attribute and no positive score for a task. With `ignore_utility`
   (the paper's IDT_u), scores for tasks do not matter.
3. For each word in W, take the k nearest words, or other replacements as set by `candidates`, in the word's letter
   case.
4. Try edits of 1, 2, ..., |W| words (`shared/search.py`). An edit replaces all occurrences of its words as whole
   tokens, and changes no other byte. The text's part-of-speech tags must not change, except that under `swap` (IDT_s)
   NOUN and VERB may replace each other.
5. Release an edit under which the prediction changes for every attribute and stays the same for every task.

`as_published: true` uses the paper's search. It samples random chains of replacements, and releases the candidate with
the largest probability of a wrong class; ties go to fewer changed words, then to chance. The default search instead
tries edits in the order of their size, and stops at the fewest words. It checks the tasks' predictions for every edit,
so it may also change words that tasks use; `ignore_utility: false` excludes these words.

`aim: random` makes the classifiers predict a class t that is sampled by k-ary randomised response. Given the predicted
class y, one of c classes,

    P(t | y) = e^(epsilon [t = y]) / (e^epsilon + c - 1)   (Kairouz, Bonawitz and Ramage 2016),

so P(t | x) <= e^epsilon P(t | x') for any two texts x and x': the class t is epsilon-locally private. But the released
text depends on more than t, and the outcome reveals whether an edit reached t. So nothing is claimed for the text. If t
is the text's own class, the mechanism still changes the words that it would change for another class; otherwise a
changed text would reveal that its own class is not t.

`aim: hide` brings the log-probabilities of every auxiliary within `margin` of the logarithms of the class shares.

The paper does not state k and q (defined at `IDT`). The defaults come from 100 generated validation reviews, with
linear victims that classify 73 of them correctly, linear auxiliaries trained on other texts, and GloVe 50d. RS_all, the
share of rewrites that hide the attribute and keep the task, was .40 at k = 50 and q = 10, with 2.1 changed words per
success. At q = 1 RS_all was .21, .23, .22 and .30 for k = 5, 10, 20 and 50. So more options and a wider beam find more
edits. The tagger takes most of the running time, and the number of sentences that the tagger reads hardly grows (28 to
38 per text). As published, RS_all was 0 to .03 at q = 1, .04 to .07 at q = 5 and .04 to .10 at q = 10, with 1.7 to 2.5
changed words; RS_all was highest for few options (k of 5 or 10). As published, the tagger reads 29, 42, 54 and 66
sentences per text at q = 10, for k = 5, 10, 20 and 50. The standard error of a share is about .04.

The paper leaves some choices open. Here a word is replaced where it occurs in the original text, and not where another
replacement inserted it. Only the 64 words of W with the largest scores are used. The tagger is the embedded one. The
paper's algorithm queries the victim once per text and task. Here that query is part of the evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Guarantee
from epsilometer.core.laws import Laws, sample
from epsilometer.core.mechanism import Rewrites, Unread
from epsilometer.core.outcomes import CUT, FOUND, MISSED, NOTHING, PART, UTILITY_LOST, WITHHELD
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.shared.attribution import GRADIENTS, Attribution
from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Auxiliaries
from epsilometer.mechanisms.anonymisers.shared.guards import Antonyms, Fluency, Similarity, names
from epsilometer.mechanisms.anonymisers.shared.in_step import Asker, Search, in_step
from epsilometer.mechanisms.anonymisers.shared.integrated_gradients import PUBLISHED_STEPS, STEPS
from epsilometer.mechanisms.anonymisers.shared.judges import Aim, Judges, Panel, Tags
from epsilometer.mechanisms.anonymisers.shared.neighbours import NearestWords
from epsilometer.mechanisms.anonymisers.shared.preparing import Label, PreparedText, cut_by, prepare
from epsilometer.mechanisms.anonymisers.shared.release import Release, rewrites
from epsilometer.mechanisms.anonymisers.shared.search import Choice, Strategy, TextSearch, Trial
from epsilometer.mechanisms.anonymisers.shared.truths import WithTruths
from epsilometer.mechanisms.anonymisers.shared.word_edits import Spans, is_word, spans
from epsilometer.models.embedded import masked_lm
from epsilometer.models.fill_mask import FillMask, Place
from epsilometer.models.ledger import Ledger
from epsilometer.models.tagging import Tagger

_GROUP = 64  # distinct texts that are prepared together
_READ = 1 << 15  # sentences whose tags are cached; does not change results
_NEAR = 0.25  # default `margin` under `hide`, in nats; for two equal classes, probabilities of .39 to .61
_SPARE = 2  # predictions of a masked model per candidate, since the word itself and marks are not candidates


@component
class IDT(WithTruths):
    """The IDT mechanism. Brackets contain the defaults of settings that are None.

    resource:                 the folder of auxiliaries.
    attributes, tasks, kinds: which of the auxiliaries' attributes, tasks and kinds of classifiers to use [all].
                              Attributions come from the first kind.
    enough:                   number of kinds that must err on the attributes, and predict the tasks as before [all].
    k:                        number of options for a word.
    q:                        number of edits per size that are sampled, or that a beam holds.
    candidates:               source of a word's options.
    steps:                    steps of integrated gradients, before any doubling [16; 50 as published].
    margin:                   log-odds, in nats, by which every auxiliary must err [0]. Under `hide`: largest distance,
                              in nats, of an auxiliary's log-probabilities from the logarithms of the class shares
                              [0.25].
    most:                     most edits that `exhaustive` may judge.
    names:                    `kept` excludes proper nouns and identifiers from changes.
    antonyms:                 `refused` excludes antonyms, by the folder's word relations.
    similarity:               smallest cosine of the text, and of every changed sentence, with the original [no limit].
    fluency:                  largest decrease of a changed word's log-probability, in nats [no limit].
    unsaved:                  text to release if the aim is not reached.
    """

    resource: Path
    attributes: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    enough: Annotated[int, Field(ge=1)] | None = None
    k: Annotated[int, Field(ge=1)] = 50
    q: Annotated[int, Field(ge=1)] = 10
    candidates: Literal["vectors", "counter_fitted", "masked_lm"] = "vectors"
    attribution: str = GRADIENTS
    steps: Annotated[int, Field(ge=1)] | None = None
    aim: Literal["flip", "hide", "random"] = "flip"
    margin: Annotated[float, Field(ge=0)] | None = None
    choose: Choice = "fewest"
    search: Strategy = "beam"
    most: Annotated[int, Field(ge=1)] = 10_000
    as_published: bool = False
    swap: bool = False
    ignore_utility: bool | None = None
    names: Literal["kept", "free"] = "free"
    antonyms: Literal["refused", "free"] = "free"
    similarity: Annotated[float, Field(ge=-1, le=1)] | None = None
    fluency: Annotated[float, Field(ge=0)] | None = None
    unsaved: Literal["best", "original", "withhold"] = "best"

    @property
    def has_budget(self) -> bool:
        """True if epsilon has an effect: only under `aim: random`, on the class to show."""
        return self.aim == "random"

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """None: under `aim: random` the class to show is private, but the text is not."""
        return None

    def classes_of(self) -> Mapping[str, Sequence[str]]:
        """Return the classes that the auxiliaries know, by label."""
        classes: Mapping[str, Sequence[str]] = self._auxiliaries.about["classes"]
        return classes

    def unread(self, texts: Sequence[str]) -> Unread:
        """Return the numbers of texts that a classifier truncates, and of out-of-vocabulary words.

        Out-of-vocabulary words stay unchanged. Under `candidates: masked_lm` they are not counted.
        """
        labels = (*self._hidden, *self._tasks)
        cut = cut_by([self._auxiliaries.classifiers[label][kind] for label in labels for kind in self._kinds], texts)
        limited = Unread() if cut is None else Unread(cut=int(cut.sum()), texts=len(texts))
        if self.candidates == "masked_lm":
            return limited
        words = [word for text in texts for word in spans(text).places]
        return limited + Unread(unknown=int((~self._neighbours.has(words)).sum()), words=len(words))

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the rewrites. Searches in all texts run concurrently. Raises UserError for bad settings."""
        self.check_auxiliaries(self._auxiliaries)
        rows: dict[str, list[int]] = {}
        for i, text in enumerate(texts):
            rows.setdefault(text, []).append(i)
        releases = in_step(self._searches(rows, epsilon, noise))
        order = np.argsort([row for of_text in rows.values() for row in of_text])
        return rewrites([releases[i] for i in order])

    # Settings

    @cached_property
    def _auxiliaries(self) -> Auxiliaries:
        return Auxiliaries(self.resource)

    def check_auxiliaries(self, auxiliaries: Auxiliaries) -> None:
        """Raise UserError for settings that do not fit each other, or do not fit the auxiliaries."""
        hidden = auxiliaries.attributes if self.attributes is None else self.attributes
        kinds = auxiliaries.kinds if self.kinds is None else self.kinds
        if self.aim == "random" and len(hidden) != 1:
            raise UserError(
                f"aim: random needs exactly one attribute, got {len(hidden)}; set attributes to one label",
                "EPS-M005",
            )
        if self.aim == "hide" and self.margin == 0:
            raise UserError(
                "aim: hide needs a margin above 0; set margin to the largest distance, in nats, of the auxiliaries' "
                "log-probabilities from the logarithms of the class shares",
                "EPS-M006",
            )
        if self.enough is not None and self.enough > len(kinds):
            raise UserError(
                f"enough is {self.enough}, but there are only {len(kinds)} kinds of classifier; add kinds, or lower "
                "enough",
                "EPS-M007",
            )
        auxiliaries.check(hidden, self.tasks or (), kinds)
        by_relations = [("antonyms", self.antonyms, "refused"), ("candidates", self.candidates, "counter_fitted")]
        for setting, value, needs in by_relations:
            if value == needs and not auxiliaries.related:
                raise UserError(
                    f"{setting}: {value} needs word relations, but {self.resource} has none; set `relations` to a file "
                    "of relations in the entry under `auxiliaries`",
                    "EPS-M008",
                )

    @property
    def _margin(self) -> float:
        if self.margin is None:
            return _NEAR if self.aim == "hide" else 0.0
        return self.margin

    @property
    def _hidden(self) -> Sequence[str]:
        return self._auxiliaries.attributes if self.attributes is None else self.attributes

    @property
    def _tasks(self) -> Sequence[str]:
        return self._auxiliaries.tasks if self.tasks is None else self.tasks

    @property
    def _kinds(self) -> Sequence[str]:
        return self._auxiliaries.kinds if self.kinds is None else self.kinds

    def _label(self, label: str, ledger: Ledger) -> Label:
        names = [f"{label}-{kind}" for kind in self._kinds]
        panel = Panel(ledger, names, self.enough or len(names))
        return Label(label, panel, [self._auxiliaries.classifiers[label][kind] for kind in self._kinds])

    def _ledger(self, texts: int) -> Ledger:
        of = self._auxiliaries.classifiers
        labels = (*self._hidden, *self._tasks)
        return Ledger({f"{label}-{kind}": of[label][kind] for label in labels for kind in self._kinds}, texts)

    @cached_property
    def _tagger(self) -> Tagger:
        return Tagger()

    @cached_property
    def _tags(self) -> Tags:
        """A function that tags sentences; under `swap` nouns and verbs get the same tag."""
        same = {"VERB": "NOUN"} if self.swap else {}
        read: dict[tuple[str, ...], tuple[str, ...]] = {}  # cache: other texts request the same sentences

        def tags(sentences: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
            new = [words for words in sentences if words not in read]
            for words, upos in zip(new, self._tagger.upos(new), strict=True):
                read[words] = tuple(same.get(tag, tag) for tag in upos)
            answers = [read[words] for words in sentences]
            for words in [*islice(read, max(len(read) - _READ, 0))]:  # the oldest
                del read[words]
            return answers

        return tags

    # Texts

    def _searches(self, rows: Mapping[str, Sequence[int]], epsilon: float, noise: Noise) -> Iterator[Search[Release]]:
        """Yield a search for each trial. Texts are prepared in groups, just before their searches are needed."""
        distinct = list(rows)
        for start in range(0, len(distinct), _GROUP):
            group = {text: rows[text] for text in distinct[start : start + _GROUP]}
            trials = [row for of_text in group.values() for row in of_text]
            ledger = self._ledger(len(trials))
            numbers = iter(range(len(trials)))
            owners = {text: [next(numbers) for _ in of_text] for text, of_text in group.items()}
            attributes = [self._label(label, ledger) for label in self._hidden]
            tasks = [self._label(label, ledger) for label in self._tasks]
            steps = self.steps or (PUBLISHED_STEPS if self.as_published else STEPS)
            prepared = prepare(
                owners,
                attributes,
                tasks,
                Attribution(self.attribution, steps),
                options=self._options,
                ignore_utility=not self.as_published if self.ignore_utility is None else self.ignore_utility,
                truths=self.truths,
            )
            judges = Judges(
                [classified.panel for classified in attributes],
                [classified.panel for classified in tasks],
                tags=self._tags,
                guards=self._guards,
                similarity=self._cosines,
            )
            own = np.array([case.classes[0] for case in prepared for _ in case.owners], np.int64)
            shown = self._shown(own, epsilon, noise[np.array(trials)])
            for case in prepared:
                for owner in case.owners:
                    trial = Trial(owner, noise.generator(trials[owner]))
                    yield self._release(case, judges, trial, shown[owner])

    def _shown(self, own: NDArray[np.int64], epsilon: float, noise: Noise) -> list[int | None]:
        """Return the class of the first attribute that each text must show; None unless `aim` is `random`.

        own: [n], the texts' own classes.
        """
        if self.aim != "random":
            return [None] * len(own)
        count = len(self._auxiliaries.shares[self._hidden[0]])

        def log_probabilities(rows: NDArray[np.integer], epsilons: Sequence[float]) -> Iterator[NDArray[np.float64]]:
            for budget in epsilons:
                law = np.full((len(rows), count), -np.logaddexp(budget, np.log(count - 1)))
                law[np.arange(len(rows)), rows] += budget
                yield law

        laws = Laws(Ragged.single(own), count, log_probabilities)
        (responses,) = sample(laws, np.arange(len(own)), [epsilon], [noise])
        return list(responses.values.tolist())

    def _aims(self, case: PreparedText, shown: int | None) -> list[Aim]:
        """Return the aim for each attribute."""
        if self.aim == "hide":
            shares = [self._auxiliaries.shares[label] for label in self._hidden]
            return [Aim(near=np.log(share), margin=self._margin) for share in shares]
        if shown is not None:
            return [Aim(toward=shown, margin=self._margin)]
        return [Aim(away=own, margin=self._margin) for own in case.classes]

    def _release(self, case: PreparedText, judges: Judges, trial: Trial, shown: int | None) -> Search[Release]:
        """Return a search in one text, whose result is the release."""
        source, ledger = case.source, judges.attributes[0].ledger

        def release(text: str, status: str, changed: int = 0) -> Release:
            status = CUT if case.cut and status in (MISSED, NOTHING, PART) else status
            words, questions = len(source.spans.words), int(ledger.questions[trial.owner])
            return Release(text, status, changed, words=words, questions=questions)

        if not source.words:
            return release(source.spans.text, NOTHING)
        decoy = shown == case.classes[0]
        if decoy:
            count = len(self._auxiliaries.shares[self._hidden[0]])
            other = int(trial.stream.integers(count - 1))
            search = TextSearch(source, self._aims(case, other + (other >= case.classes[0])), judges, trial)
        else:
            search = TextSearch(source, self._aims(case, shown), judges, trial)
        if (yield from search.begin()) and (self.aim == "hide" or (case.labelled and shown is None)):
            return release(source.spans.text, NOTHING)
        if self.as_published:
            edit = yield from search.published(self.q)
        else:
            edit = yield from search.search(self.search, self.choose, draws=self.q, candidates=self.most)
        if decoy and edit is not None:
            edit = yield from search.decoy(edit, self._aims(case, shown))
        if edit is not None:
            return release(source.text(edit), FOUND, source.changed(edit))
        if self.unsaved == "withhold":
            return release("", WITHHELD)
        if self.unsaved == "best" and (edit := (yield from search.nearest())) is not None:
            return release(source.text(edit), PART, source.changed(edit))
        return release(source.spans.text, UTILITY_LOST if search.lost else MISSED)

    # Replacements

    def _options(self, cut: Sequence[Spans], words: Sequence[Sequence[str]]) -> list[list[list[str]]]:
        """Return the options of each word of each text. cut: the texts' tokens; words: some words of each text."""
        if self.candidates == "masked_lm":
            options = masked_words(self._fill_mask, cut, words, self.k)
        else:
            nearest = iter(self._neighbours.of([word for of_text in words for word in of_text], self.k))
            options = [[next(nearest) for _ in of_text] for of_text in words]
        if self.antonyms == "refused":
            pairs = self._antonyms
            options = [
                [
                    sorted({*some} - {*pairs.refused(word, some)}, key=some.index)
                    for word, some in zip(*both, strict=True)
                ]
                for both in zip(words, options, strict=True)
            ]
        if self.names == "kept":
            fixed = names(cut, self._tagger.upos)
            options = [
                [[] if word in of_text else some for word, some in zip(*both, strict=True)]
                for of_text, *both in zip(fixed, words, options, strict=True)
            ]
        return options

    @cached_property
    def _neighbours(self) -> NearestWords:
        auxiliaries = self._auxiliaries
        return NearestWords(auxiliaries.counter_fitted if self.candidates == "counter_fitted" else auxiliaries.vectors)

    @cached_property
    def _fill_mask(self) -> FillMask:
        return FillMask(masked_lm())

    @cached_property
    def _antonyms(self) -> Antonyms:
        relations = self._auxiliaries.relations
        assert relations is not None
        return Antonyms.of(relations)

    @cached_property
    def _guards(self) -> list[Asker]:
        guards: list[Asker] = []
        if self.similarity is not None:
            guards.append(Similarity(self.similarity))
        if self.fluency is not None:
            guards.append(Fluency(self.fluency))
        return guards

    @cached_property
    def _cosines(self) -> Asker:
        return Similarity(-1).cosines


def masked_words(
    fill_mask: FillMask, cut: Sequence[Spans], words: Sequence[Sequence[str]], k: int
) -> list[list[list[str]]]:
    """Return at most k candidates for each word of each text: other whole words, likeliest first.

    A masked language model predicts the candidates at the word's place.

    words: for each text, some of its words in lower case. A word that occurs several times is masked only at its first
    place, since all its occurrences get the same replacement.
    """
    places = [
        Place(i, spans.starts[spans.places[word][0]], spans.ends[spans.places[word][0]])
        for i, (spans, of_text) in enumerate(zip(cut, words, strict=True))
        for word in of_text
    ]
    likeliest, _ = fill_mask.likeliest([spans.text for spans in cut], places, _SPARE * k + 1)
    rows = iter(likeliest.tolist())
    return [[_others(word, [fill_mask.outputs[i] for i in next(rows)], k) for word in of_text] for of_text in words]


def _others(word: str, candidates: Sequence[str], k: int) -> list[str]:
    whole = dict.fromkeys(candidate.lower() for candidate in candidates if is_word(candidate))
    return [candidate for candidate in whole if candidate != word][:k]
