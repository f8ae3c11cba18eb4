"""TeDA's figure 4 as learning curves: what classifiers learn from rewrites of its six mechanisms (arXiv:2603.22968).

A row a mechanism, epsilon, label and classifier: macro F1, learnt from so many rewritten texts, a mean over five folds:
four are learnt from, the fifth is tested. Behind it a 99 % interval of Student's t over the folds, a little narrow as
these share texts that are learnt from. On `clean` texts the paper tests, of the private label too; `rewritten` ones are
what an attacker sees. Of two classes guessing has an F1 of about .5, of seven .14. The rows of `clean texts` learn from
texts as they are. Classifiers: logistic regression on TF-IDF of words (`words`), and on vectors of the sentence encoder
(`head`).

Mechanisms are as shipped, on the embedded models; DP-BART clips at .5, DP-ST writes one triple, DP-Prompt and
DP-Paraphrase 24 tokens. Each text is rewritten once at a budget. Budgets are the paper's, those at which laws lose .5,
1, 2 and 4 nats, averaged over pairs of texts (30 at most) of the commonest length in words, and the largest at
which delta at 4 nats is at most .01, as on the leaderboard; where a law takes draws, neither 4 nats nor a delta.
Sentences of SST-2 and reviews are read of at most 40 words; 1 and 2 stars are bad, 4 and 5 good, others are left out,
as are reviews without a gender or an age group (under 35, 50 and over). Without files the texts are requests that the
project makes, and no page is written.

usage: python -m benchmarks.learning [--snips FILE] [--sst2 FILE] [--trustpilot FILE] [--clothing FILE] [--texts N]
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.rewrites import SETTINGS
from benchmarks.shared.budgets import LossByBudget
from benchmarks.shared.pages import RESULTS, head, write
from epsilometer.auditing.text_audit import mechanism
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.auditing.worth.scoring import scores
from epsilometer.core.mechanism import Mechanism
from epsilometer.core.randomness import Noise
from epsilometer.corpora import synthetic
from epsilometer.corpora.reading import read
from epsilometer.models.classifier import ENCODER, LINEAR, Examples
from epsilometer.models.classifiers.encoder import features
from epsilometer.models.classifiers.linear import Linear, logistic_regression
from epsilometer.report.wording import mean_interval
from epsilometer.text.words import words

FOLDER = RESULTS / "teda_learning"
TEXTS, LONGEST, FOLDS = 300, 40, 5
SHARES = (4, 2, 1)  # sizes are the texts to learn from over these
KINDS = {LINEAR: "words", ENCODER: "head"}
PUBLISHED = (250.0, 1000.0, 2500.0)
NATS, DELTA = (0.5, 1.0, 2.0, 4.0), 0.01
LEAST, MOST, PRICED = 2.0, 150.0, 30  # budgets searched, and on how many texts


class Labelled(NamedTuple):
    """Texts and their labels by name."""

    name: str
    texts: list[str]
    labels: Mapping[str, list[str]]
    shares: tuple[int, ...] = SHARES

    @property
    def sizes(self) -> list[int]:
        """How many texts are learnt from."""
        return [len(self.texts) * (FOLDS - 1) // FOLDS // share for share in self.shares]

    @property
    def priced(self) -> list[str]:
        """The texts between which losses are computed: the first distinct ones of the commonest length in words."""
        by_length: dict[int, list[str]] = {}
        for text in dict.fromkeys(self.texts):
            by_length.setdefault(len(words(text)), []).append(text)
        return max(by_length.values(), key=len)[:PRICED]

    @property
    def folds(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """By fold the places of texts to learn from, those behind the fold first, and of those to test on."""
        parts = np.array_split(np.arange(len(self.texts)), FOLDS)
        for i, tested in enumerate(parts):
            yield np.concatenate(parts[i + 1 :] + parts[:i]), tested


def _balanced(table: pl.DataFrame, label: str, count: int) -> pl.DataFrame:
    """At most so many rows of a table in its order, as many of each class, which take turns."""
    classes = Counter(table[label])
    most = min(count, len(classes) * min(classes.values(), default=0))
    turn = table.with_columns(turn=pl.int_range(pl.len()).over(label)).sort("turn", maintain_order=True)
    return turn.drop("turn").head(most)


def _short(table: pl.DataFrame) -> pl.DataFrame:
    """The rows of a table whose texts have no more words than are read."""
    return table.filter(pl.Series([len(words(text)) <= LONGEST for text in table["text"]]))


def _budgets(of: Labelled, built: Mechanism) -> dict[float, str]:
    """The budgets, and what each is called: those at which so many nats are lost, of a small delta, and the paper's."""
    losses = LossByBudget(built, of.priced)
    budgets, estimated = {}, losses.method(LEAST) == "estimate"
    for nats in NATS[:-1] if estimated else NATS:
        epsilon, lost = losses.losing(nats, LEAST, MOST)
        if lost:
            budgets[epsilon] = f"{nats:g} nat{'s' if nats != 1 else ''}"
    tail = None if estimated else losses.within(DELTA, LEAST, MOST)
    if tail is not None:
        budgets[tail] = f"delta at 4 of {DELTA:g}"
    return dict(sorted(budgets.items())) | dict.fromkeys(PUBLISHED, "")


def _labelled(name: str, table: pl.DataFrame, labels: Sequence[str], count: int) -> Labelled:
    """The first texts of the split to learn from, balanced by the first label."""
    rows = _balanced(table.filter(split="train"), labels[0], count)
    by_label = {label: rows[label].cast(pl.String).to_list() for label in labels}
    texts = rows["text"].to_list()
    return Labelled(name, texts, by_label)


def requests(source: Path | None, count: int) -> Labelled:
    """Requests with their intent."""
    table = synthetic.generate("queries", 4 * count, 0) if source is None else read(source, labels=["intent"])
    return _labelled(source.stem if source else "queries", table, ["intent"], count)


def sentences(source: Path, count: int) -> Labelled:
    """Sentences with their sentiment."""
    return _labelled(source.stem, _short(read(source, labels=["sentiment"])), ["sentiment"], count)


def reviews(source: Path, private: str, count: int) -> Labelled:
    """Reviews with a rating and an attribute of their author's."""
    table = read(source, labels=["rating", private]).drop_nulls(["rating", private])
    stars = pl.col("rating").cast(pl.Int64)
    rated = (
        _short(table)
        .filter(stars != 3)
        .with_columns(sentiment=pl.when(stars > 3).then(pl.lit("good")).otherwise(pl.lit("bad")))
    )
    return _labelled(source.stem, rated, ["sentiment", private], count)


def guesses(
    kind: str,
    both: Sequence[Sequence[str]],
    names: Sequence[str],
    learnt_from: NDArray[np.integer],
    tested: NDArray[np.integer],
) -> list[list[str]]:
    """The labels that are guessed of some clean and some rewritten texts, learnt from rewritten ones.

    both: clean and rewritten texts; names: the labels of all.
    """
    labels = [names[i] for i in learnt_from]
    if kind == ENCODER:
        vectors = [features(texts) for texts in both]  # of all texts, each of which is encoded once
        classes, weights, offsets = logistic_regression(vectors[1][learnt_from], labels)
        answers = [some[tested] @ weights.T + offsets for some in vectors]
    else:
        classifier = Linear.fit(Examples([both[1][i] for i in learnt_from], labels))
        classes = classifier.classes
        answers = [classifier.probabilities([texts[i] for i in tested]) for texts in both]
    return [[classes[number] for number in answer.argmax(axis=1)] for answer in answers]


def learnt(of: Labelled, texts: Sequence[str], kind: str, label: str) -> NDArray[np.float64]:
    """Macro F1 [sizes, 2, folds] on clean and on rewritten texts. texts: rewrites of all."""
    names, classes = of.labels[label], sorted({*of.labels[label]})
    every = np.empty((len(of.sizes), 2, FOLDS))
    for fold, (others, tested) in enumerate(of.folds):
        truth = np.array([classes.index(names[i]) for i in tested])
        for place, size in enumerate(of.sizes):
            for which, some in enumerate(guesses(kind, (of.texts, texts), names, others[:size], tested)):
                every[place, which, fold] = scores(truth, np.array([*map(classes.index, some)]), classes).macro_f1
    return every


def rows(of: Labelled, named: str, epsilon: str, texts: Sequence[str], private: Sequence[str]) -> Iterator[str]:
    """The rows of one mechanism at one budget."""
    for kind, shown in KINDS.items():
        for label in of.labels:
            every = learnt(of, texts, kind, label)
            what = f"{label} (private)" if label in private else label
            cells = map(mean_interval, every.reshape(-1, FOLDS))
            yield f"| {named} | {epsilon} | {what} | {shown} | " + " | ".join(cells) + " |"


def rewrites(of: Labelled, name: str, built: Mechanism, epsilons: Sequence[float]) -> list[Sequence[str]]:
    """The rewrites of all texts at every budget."""
    count = len(of.texts)
    streams = [Noise.named(count, "learning", of.name, name, epsilon) for epsilon in epsilons]
    return [each.texts for each in rewrite_all(built, Job(of.texts, np.arange(count), epsilons, streams))]


def table(of: Labelled, private: Sequence[str]) -> Iterator[str]:
    """The lines of a data set's table."""
    columns = " | ".join(f"{size}, clean | {size}, rewritten" for size in of.sizes)
    yield from ("", f"## {of.name}", "", f"{len(of.texts)} texts, each of which is tested once.", "")
    yield f"| mechanism | epsilon | label | classifier | {columns} |"
    yield "|---" * (4 + 2 * len(of.sizes)) + "|"
    yield from rows(of, "clean texts", "–", of.texts, private)
    for name, settings in SETTINGS.items():
        begun = time.process_time()
        built = mechanism(name, settings)
        budgets = _budgets(of, built)
        for (epsilon, called), texts in zip(budgets.items(), rewrites(of, name, built, list(budgets)), strict=True):
            shown = f"{epsilon:,g} ({called})" if called else f"{epsilon:,g}"
            yield from rows(of, name, shown, texts, private)
        print(f"{of.name}, {name}: {time.process_time() - begun:.0f} s of processor time", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] = ()) -> None:
    """Print the tables, and write results/teda_learning of files of texts."""
    parser = ArgumentParser(prog="python -m benchmarks.learning", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--snips", metavar="FILE", type=Path, help="public requests, with a column `intent`")
    parser.add_argument("--sst2", metavar="FILE", type=Path, help="public sentences, with a column `sentiment`")
    parser.add_argument("--trustpilot", metavar="FILE", type=Path, help="public reviews, with `rating` and `gender`")
    parser.add_argument("--clothing", metavar="FILE", type=Path, help="public reviews, with `rating` and `age_group`")
    parser.add_argument("--texts", metavar="N", type=int, default=TEXTS, help="of each file, at most")
    options = parser.parse_args(arguments)
    lines = head(
        "TeDA's figure 4: what is learnt from rewrites",
        "learning",
        f"Macro F1 over {FOLDS} folds of at most {options.texts} texts, balanced by their first label, where the paper "
        "has all and three seeds.",
    )
    print(*lines, sep="\n", flush=True)
    studied: list[tuple[Labelled, Sequence[str]]] = [(requests(options.snips, options.texts), ())]
    if options.sst2:
        studied.append((sentences(options.sst2, options.texts), ()))
    for file, private in ((options.clothing, "age_group"), (options.trustpilot, "gender")):
        if file:
            studied.append((reviews(file, private, options.texts), (private,)))
    for of, attributes in studied:
        for line in table(of, attributes):
            print(line, flush=True)
            lines.append(line)
        if options.snips:
            write(lines, FOLDER)


if __name__ == "__main__":
    main(sys.argv[1:])
