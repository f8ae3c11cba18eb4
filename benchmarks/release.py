"""Learning from corpora released under central differential privacy by noisy votes, compared with public texts.

Private texts, one for each person, are released by `vote_histogram` under a pure epsilon by replacement, with 2,000
unlabelled public texts of the same kind. Each seed draws different public, private and test texts, and different
noise. Figures are macro F1 on 800 texts of the same source, without noise. Three learners are trained on the released
texts with their labels: a head (logistic regression on the embeddings), and logistic regression and naive Bayes on the
words. The constants of `vote_histogram` were chosen on one half of the training texts of SNIPS. Public and test texts
are from the other half, as are private texts, except where all are released. `own tests` are the validation and test
texts of SNIPS itself, which are harder.

Each release is compared, with the same self-training and learner, with three methods that need no private text:
1. 64 public texts are labelled by hand, and their labels are spread to all public texts;
2. all 2,000 public texts are labelled by hand;
3. none is labelled by hand: each has the label with the nearest name by the encoder;
and with the local twin at the same epsilon, where each person adds noise to their vote (the best of three protocols).
A release is worth its budget only if the whole interval of `over the best public` is above 0.

Skewed topics: 800 private texts of SNIPS, of which one topic has half and the others 20, 10, 8, 6, 4 and 2 %. SST-2:
sentiment, which embeddings separate less well; `spread` and `ridge` are compared. Shares of questions: which question
is asked by which share of people, in messages of chitchat-dataset, by `label_shares`. The error is the total variation
from the true shares over all messages, where each person has a total weight of one.

usage: python -m benchmarks.release     reads snips.parquet and sst2.parquet of ../shared/data, and chitchat-dataset
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.naive_bayes import MultinomialNB

from benchmarks.shared.pages import RESULTS, ROOT, dated, write
from epsilometer.auditing.corpora.checks import head, learnt
from epsilometer.core import tables
from epsilometer.core.corpus_mechanism import PrivateCorpus, Release
from epsilometer.core.randomness import Noise
from epsilometer.corpora.reading import read
from epsilometer.mechanisms.corpora.label_shares import LabelShares
from epsilometer.mechanisms.corpora.local_votes import LocalVotes
from epsilometer.mechanisms.corpora.shared.post_processing import self_trained
from epsilometer.mechanisms.corpora.shared.public_cells import PublicTexts
from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram
from epsilometer.mechanisms.selection.shared.public_exemplars import embed
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import ENCODER
from epsilometer.report.export import markup
from epsilometer.report.wording import mean_interval

DATA = ROOT.parent / "shared/data"
MESSAGES = ROOT / "profiles/packages/chitchat.json"
CACHE = ROOT / "runs/release"  # of embeddings
FOLDER = RESULTS / "release"

SEEDS, FIRST = 20, 1000  # seeds that were not used to choose constants
PUBLIC, TESTS, LABELLED = 2000, 800, 64
NUMBERS, EPSILONS = (300, 1000, 3000, 0), (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)  # the number 0 means all texts
LOCAL, SMOOTHED = (1.0, 4.0), (0.25, 1.0, 4.0)  # epsilons of local twins, and of the other kinds of post-processing
SKEWED, SHARES_OF = 800, (0.5, 0.2, 0.1, 0.08, 0.06, 0.04, 0.02)
SHARES, BUDGETS, PER_PERSON = 20, (0.25, 0.5, 1.0), (1, 4)
LARGE = 100_000  # texts whose time is measured after embedding
LEARNERS = ("head", "words", "naive Bayes")
HAND, ALL, NONE = "64 public texts, labelled by hand", "all public texts, labelled by hand", "no label: nearest name"

Array = NDArray[np.float64]
Scores = dict[tuple[str, ...], float]  # keys: table, released, private texts, epsilon, and what was scored


class Embedded:
    """The vectors of texts, embedded once and cached in a file."""

    def __init__(self, texts: Sequence[str]) -> None:
        digest = hashlib.sha256("\n".join([ENCODER, *texts]).encode()).hexdigest()[:16]
        path = CACHE / f"{digest}.npy"
        if not path.exists():
            tables.write_array(embed(Encoder(ENCODER), texts).astype(np.float32), path)
        self._place = {text: i for i, text in enumerate(texts)}
        self._vectors = np.load(path).astype(np.float64)

    def __call__(self, texts: Sequence[str]) -> Array:
        return self._vectors[[self._place[text] for text in texts]]


class Data:
    """Distinct labelled texts: those of the test and validation splits, and the others, to be sampled.

    second: the half of these others on which no constant was chosen.
    """

    def __init__(self, source: Path | pl.DataFrame, label: str) -> None:
        table = pl.read_parquet(source) if isinstance(source, Path) else source
        table = table.unique("text", keep="first", maintain_order=True).cast({label: pl.String})
        self.label = dict(table.select("text", label).iter_rows())
        self.labels = tuple(sorted(set(self.label.values())))
        self.own: list[str] = table.filter(pl.col("split") != "train")["text"].to_list()
        self.others: list[str] = table.filter(split="train")["text"].to_list()
        self.second = [text for text in self.others if hashlib.sha256(text.encode()).digest()[0] % 2]
        self.encode = Embedded([*self.own, *self.others])

    def labels_of(self, texts: Sequence[str]) -> list[str]:
        return [self.label[text] for text in texts]

    def true_labels(self, texts: Sequence[str]) -> Release:
        return Release(texts, np.ones(len(texts)), self.labels_of(texts))


class Draw:
    """Public, test and private texts of one seed."""

    def __init__(self, data: Data, seed: int, among: Sequence[str]) -> None:
        generator = np.random.default_rng(seed)
        order = [among[i] for i in generator.permutation(len(among)).tolist()]
        self.data, self.seed, self.tests = data, seed, order[PUBLIC : PUBLIC + TESTS]
        self.public = PublicTexts.of(order[:PUBLIC], data.encode, 0)
        rest = sorted(set(data.others) - set(order))
        self.private = [*order[PUBLIC + TESTS :], *(rest[i] for i in generator.permutation(len(rest)).tolist())]

    def corpus(self, private: Sequence[str]) -> PrivateCorpus:
        return PrivateCorpus(private, None, self.data.labels_of(private))

    def skewed(self) -> list[str]:
        """Return private texts whose topics have the shares SHARES_OF, in the order of this seed."""
        order = np.random.default_rng(self.seed).permutation(len(self.data.labels)).tolist()
        chosen = list[str]()
        for share, label in zip(SHARES_OF, order, strict=True):
            of_label = (text for text in self.private if self.data.label[text] == self.data.labels[label])
            chosen += [text for text, _ in zip(of_label, range(round(share * SKEWED)), strict=False)]
        return chosen

    def mechanism(self, kind: type[VoteHistogram] = VoteHistogram, **settings: Any) -> VoteHistogram:
        """Return a mechanism on the public texts, which are already embedded and clustered."""
        resource = tuple(self.public.texts)
        return kind(resource=resource, labels=self.data.labels, **settings).on(self.public)

    def few_labelled(self) -> Release:
        """Return the true labels of 64 exemplars, spread to all public texts as votes are, without noise."""
        chosen = [self.public.texts[place] for place in self.public.exemplars(LABELLED)]
        votes = np.array([[float(label == self.data.label[text]) for label in self.data.labels] for text in chosen])
        return self.mechanism().labelled(votes, 0.0)

    def by_name(self, names: Array) -> Release:
        """Return all public texts with the label of the nearest name [L, d], after self-training."""
        nearest = (self.public.vectors @ names.T).argmax(1)
        labels = self_trained(self.public.vectors, nearest, len(names))
        return Release(self.public.texts, np.ones(len(labels)), [self.data.labels[i] for i in labels.tolist()])

    def head(self, release: Release, *more: Sequence[str]) -> list[float]:
        """Return macro F1 of the head on the test texts, and on the additional texts."""
        fitted = head(self.data.encode(release.texts), release)
        tests = ((self.data.encode(texts), self.data.labels_of(texts)) for texts in (self.tests, *more))
        return [learnt(fitted, vectors, labels) or 0.0 for vectors, labels in tests]

    @cached_property
    def _words(self) -> Callable[[Sequence[str]], Any]:
        """Return a function from texts to their words, weighted by rarity in public texts."""
        every = [*self.public.texts, *self.private, *self.tests]
        place, words = {text: i for i, text in enumerate(every)}, TfidfVectorizer().fit(self.public.texts)
        matrix = words.transform(every)
        return lambda texts: matrix[[place[text] for text in texts]]

    def on_words(self, learner: Any, release: Release) -> float:
        """Return macro F1 of a learner of words on the test texts."""
        labels = list(release.labels or ())
        if not labels:
            return 0.0
        if len(set(labels)) == 1:  # then every guess is this label, as of the head
            learner = DummyClassifier(strategy="most_frequent")
        weights = release.weights / release.weights.mean()
        learner.fit(self._words(release.texts), labels, sample_weight=weights)
        predicted = learner.predict(self._words(self.tests))
        return float(f1_score(self.data.labels_of(self.tests), predicted, average="macro"))

    def every_learner(self, release: Release) -> dict[str, float]:
        """Return macro F1 of each learner, and of the head on the validation and test texts of the file."""
        of_tests, own = self.head(release, self.data.own)
        return {
            "head": of_tests,
            "words": self.on_words(LogisticRegression(C=10, max_iter=60, tol=1e-3), release),
            "naive Bayes": self.on_words(MultinomialNB(alpha=0.1), release),
            "own tests": own,
        }


def names_of(labels: Sequence[str]) -> Array:
    """Return the vectors of the labels' names, such as `add to playlist`."""
    return embed(Encoder(ENCODER), [re.sub(r"(?<=[a-z])(?=[A-Z])", " ", label).lower() for label in labels])


def snips(data: Data, names: Array, seed: int) -> Scores:
    """Return the scores of every learner on SNIPS, for one seed."""
    draw = Draw(data, seed, data.second)
    scores = Scores()

    def put(released: str, n: str, epsilon: str, release: Release) -> None:
        scores.update({("snips", released, n, epsilon, of): f1 for of, f1 in draw.every_learner(release).items()})

    put(HAND, "", "", draw.few_labelled())
    put(ALL, "", "", draw.data.true_labels(draw.public.texts))
    put(NONE, "", "", draw.by_name(names))
    for n in NUMBERS:
        private = draw.private[: n or None]
        corpus, shown = draw.corpus(private), f"{n:,}" if n else "all"
        put("private texts as they are", shown, "", data.true_labels(private))
        for kind, name, budgets in ((VoteHistogram, "noisy votes", EPSILONS), (LocalVotes, "local twin", LOCAL)):
            for epsilon in budgets if kind is VoteHistogram or n in (1000, 3000) else ():
                noise = Noise.named(1, "release", seed, n, epsilon)
                put(name, shown, f"{epsilon:g}", draw.mechanism(kind).release(corpus, epsilon, noise))
        for epsilon in SMOOTHED:
            of = ("smoothing", "spread", shown, f"{epsilon:g}", "head")
            scores[of] = scores["snips", "noisy votes", shown, f"{epsilon:g}", "head"]
            for after in ("ridge", "plain"):
                noise = Noise.named(1, "release", seed, n, epsilon)
                release = draw.mechanism(after=after).release(corpus, epsilon, noise)
                (scores["smoothing", after, shown, f"{epsilon:g}", "head"],) = draw.head(release)
    return scores


def harder(table: str, data: Data, seed: int, *, skewed: bool) -> Scores:
    """Return the scores of a head on skewed topics, or on sentiment, for one seed."""
    draw = Draw(data, seed, data.second if skewed else data.others)
    scores = Scores()

    def put(released: str, n: str, epsilon: str, release: Release) -> None:
        (scores[table, released, n, epsilon, "head"],) = draw.head(release)

    put(HAND, "", "", draw.few_labelled())
    put(ALL, "", "", data.true_labels(draw.public.texts))
    for n in (SKEWED,) if skewed else (1000, 3000):
        private = draw.skewed() if skewed else draw.private[:n]
        put("private texts as they are", f"{n:,}", "", data.true_labels(private))
        for after in ("spread", "ridge", "plain"):
            release = draw.mechanism(after=after).release(draw.corpus(private), 1.0, Noise.named(1, table, seed, n))
            put(f"noisy votes, {after}", f"{n:,}", "1", release)
    return scores


def over_seeds(of_seed: Callable[[int], Scores]) -> list[Scores]:
    """Return the scores of each seed."""
    seeds = list[Scores]()
    for seed in range(FIRST, FIRST + SEEDS):
        seeds.append(of_seed(seed))
        print(seed, f"{time.process_time():.0f} s", flush=True)
    return seeds


def _named(seeds: Sequence[Scores], table: str) -> Iterator[tuple[tuple[str, str, str], dict[str, list[float]]]]:
    """Yield the rows of a table: (released, private texts, epsilon), and the scores of all seeds by what was scored."""
    rows: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for of, released, n, epsilon, what in seeds[0]:
        if of == table:
            scores = [each[of, released, n, epsilon, what] for each in seeds]
            rows.setdefault((released, n, epsilon), {})[what] = scores
    yield from rows.items()


def rows_of(seeds: Sequence[Scores], table: str, columns: Sequence[str] = ("head",)) -> list[dict[str, str]]:
    """Return rows of means over seeds; for releases also how much better the head is than with only public texts."""
    every = dict(_named(seeds, table))
    public = {name: every[name, "", ""]["head"] for name in (HAND, ALL, NONE) if (name, "", "") in every}
    best = max(public, key=lambda name: float(np.mean(public[name])))
    rows = []
    for (released, n, epsilon), scores in every.items():
        over = {"over the best public": public[best], "over 64 by hand": public[HAND]}
        gains = {name: mean_interval(np.subtract(scores["head"], other)) if n else "" for name, other in over.items()}
        named = {"released": released, "private texts": n, "epsilon": epsilon}
        rows.append(gains | named | {of: mean_interval(scores[of]) if of in scores else "" for of in columns})
    return rows


def by_smoothing(seeds: Sequence[Scores]) -> list[dict[str, str]]:
    """Return rows of the head's F1 by post-processing."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for (after, n, epsilon), scores in _named(seeds, "smoothing"):
        row = rows.setdefault((n, epsilon), {"private texts": n, "epsilon": epsilon})
        row[after] = mean_interval(scores["head"])
    return [*rows.values()]


def by_learner(seeds: Sequence[Scores]) -> list[dict[str, str]]:
    """Return rows of F1 by learner, and of the head on the validation and test texts of the file."""
    columns = (*LEARNERS, "own tests")
    return [
        {"released": released, "private texts": n, "epsilon": epsilon}
        | {column: mean_interval(scores[column]) for column in columns}
        for (released, n, epsilon), scores in _named(seeds, "snips")
    ]


def shares() -> list[dict[str, str]]:
    """Return a row for each budget and limit of texts per person: mean total variation from the people's shares."""
    table = read(MESSAGES, labels=["author", "question"])
    people = table["author"].cast(pl.String).to_list()
    labels = tuple(sorted(set(table["question"].drop_nulls())))
    corpus = PrivateCorpus(table["text"].to_list(), people, table["question"].to_list())
    counts = table.group_by("author", "question").len().with_columns(pl.col("len") / pl.col("len").sum().over("author"))
    by_label = dict(counts.group_by("question").agg(pl.col("len").sum()).iter_rows())
    truth = np.array([by_label[label] for label in labels])
    truth /= truth.sum()
    rows = [
        {"epsilon": "equal shares", "texts a person": "", "total variation": f"{_apart(truth, 1 / len(labels)):.3f}"}
    ]
    for epsilon in BUDGETS:
        for most in PER_PERSON:
            of = LabelShares(labels=labels, most=most)
            noises = [Noise.named(1, "shares", seed, epsilon, most) for seed in range(SHARES)]
            apart = [_apart(of.release(corpus, epsilon, noise).weights, truth) for noise in noises]
            row = {"epsilon": f"{epsilon:g}", "texts a person": str(most), "total variation": mean_interval(apart)}
            print(row, flush=True)
            rows.append(row)
    return rows


def _apart(some: Array, others: Array | float) -> float:
    return float(np.abs(some - others).sum() / 2)


def seconds(data: Data) -> str:
    """Return a sentence: how long the release of 100,000 embedded texts takes."""
    draw = Draw(data, 0, data.second)
    private = [draw.private[i % len(draw.private)] for i in range(LARGE)]
    corpus = PrivateCorpus(private, [str(i) for i in range(LARGE)], data.labels_of(private))
    begun = time.process_time()
    draw.mechanism().release(corpus, 1.0, Noise.operating_system(1))
    return f"{LARGE:,} texts took {time.process_time() - begun:.0f} s of processor time once embedded."


def main() -> None:
    """Write results/release."""
    files = {"snips": DATA / "snips.parquet", "sst2": DATA / "sst2.parquet"}
    if absent := [file for file in files.values() if not file.is_file()]:
        print(f"not run: needs {', '.join(map(str, absent))}")
        return
    topics, sentiments = Data(files["snips"], "intent"), Data(files["sst2"], "sentiment")
    names = names_of(topics.labels)
    seeds = over_seeds(partial(snips, topics, names))
    skewed = over_seeds(partial(harder, "skewed", topics, skewed=True))
    sst2 = over_seeds(partial(harder, "sst2", sentiments, skewed=False))
    sections = {
        "Learnt from SNIPS": rows_of(seeds, "snips"),
        "SNIPS by learner": by_learner(seeds),
        "SNIPS by post-processing": by_smoothing(seeds),
        "Skewed topics": rows_of(skewed, "skewed"),
        "Sentiment of SST-2": rows_of(sst2, "sst2"),
        "Shares of questions": shares(),
    }
    write(page(sections, seconds(topics)).splitlines(), FOLDER)


def page(sections: dict[str, list[dict[str, str]]], took: str) -> str:
    """Return the page. sections: rows by heading."""
    about, *_ = (__doc__ or "").split("\n\nusage")
    parts = [
        "# Corpora released",
        "This page shows what can be learnt from a corpus that is released with noisy votes.",
        "Written by `python -m benchmarks.release`; do not edit.",
        about,
        f"{dated()} {SEEDS} seeds; means with 99 % intervals of Student's t. {took}",
    ]
    for heading, rows in sections.items():
        parts += [f"## {heading}", markup(pl.DataFrame(rows)).rstrip("\n")]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
