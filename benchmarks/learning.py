"""TeDA's figure 4 as learning curves: classifiers trained on rewrites of its six mechanisms (arXiv:2603.22968).

Each row is a mechanism, an epsilon, a label and a classifier. The figure is the macro F1 after training on a number of
rewritten texts: the mean over five folds, with a 99 % interval of Student's t. Each fold trains on four parts and tests
on the fifth. The intervals are slightly too narrow, since folds share training texts. The paper tests on `clean` texts,
for the private label, too; an attacker sees `rewritten` texts. Guessing has an F1 of about .5 with two classes, and .14
with seven. The rows `clean texts` train on unchanged texts. The classifiers are logistic regressions on TF-IDF of words
(`words`), and on sentence embeddings (`head`).

Mechanisms have their defaults on the embedded models, except that DP-BART clips at .5, DP-ST writes one triple, and
DP-Prompt and DP-Paraphrase write 24 tokens. Each text is rewritten once per budget. Some budgets are the paper's.
Others are those with an average loss of .5, 1, 2 and 4 nats by the laws, over pairs of at most 30 texts of the most
frequent length in words. The last is the largest budget with a delta at 4 nats of at most .01, as on the leaderboard.
If a loss must be estimated by sampling, the budgets for 4 nats and for delta are left out.

Sentences of SST-2 and reviews with more than 40 words are left out. Reviews with 1 and 2 stars are bad, those with 4
and 5 good. Reviews with 3 stars, or without a gender or age group (under 35, 50 and over), are left out. Without files
the texts are generated requests, and no page is written.

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
SHARES = (4, 2, 1)  # numbers of training texts are all training texts divided by these
KINDS = {LINEAR: "words", ENCODER: "head"}
PUBLISHED = (250.0, 1000.0, 2500.0)
NATS, DELTA = (0.5, 1.0, 2.0, 4.0), 0.01
LEAST, MOST, PRICED = 2.0, 150.0, 30  # limits of the search for budgets, and its number of texts


class Labelled(NamedTuple):
    """Texts with their labels, by the label's name."""

    name: str
    texts: list[str]
    labels: Mapping[str, list[str]]
    shares: tuple[int, ...] = SHARES

    @property
    def sizes(self) -> list[int]:
        """The numbers of training texts."""
        return [len(self.texts) * (FOLDS - 1) // FOLDS // share for share in self.shares]

    @property
    def priced(self) -> list[str]:
        """The texts between which losses are computed: the first distinct texts of the most frequent length."""
        by_length: dict[int, list[str]] = {}
        for text in dict.fromkeys(self.texts):
            by_length.setdefault(len(words(text)), []).append(text)
        return max(by_length.values(), key=len)[:PRICED]

    @property
    def folds(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """The indices of the training texts and of the test texts of each fold."""
        parts = np.array_split(np.arange(len(self.texts)), FOLDS)
        for i, tested in enumerate(parts):
            yield np.concatenate(parts[i + 1 :] + parts[:i]), tested


def _balanced(table: pl.DataFrame, label: str, count: int) -> pl.DataFrame:
    """Return at most `count` rows of a table, the same number of each class, alternating between the classes."""
    classes = Counter(table[label])
    most = min(count, len(classes) * min(classes.values(), default=0))
    turn = table.with_columns(turn=pl.int_range(pl.len()).over(label)).sort("turn", maintain_order=True)
    return turn.drop("turn").head(most)


def _short(table: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a table with texts of at most LONGEST words."""
    return table.filter(pl.Series([len(words(text)) <= LONGEST for text in table["text"]]))


def _budgets(of: Labelled, built: Mechanism) -> dict[float, str]:
    """Return budgets with their labels: for given losses, for a small delta, and the budgets of the paper."""
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
    """Return the first texts of the training split, balanced by the first label."""
    rows = _balanced(table.filter(split="train"), labels[0], count)
    by_label = {label: rows[label].cast(pl.String).to_list() for label in labels}
    texts = rows["text"].to_list()
    return Labelled(name, texts, by_label)


def requests(source: Path | None, count: int) -> Labelled:
    """Return requests with their intent."""
    table = synthetic.generate("queries", 4 * count, 0) if source is None else read(source, labels=["intent"])
    return _labelled(source.stem if source else "queries", table, ["intent"], count)


def sentences(source: Path, count: int) -> Labelled:
    """Return sentences with their sentiment."""
    return _labelled(source.stem, _short(read(source, labels=["sentiment"])), ["sentiment"], count)


def reviews(source: Path, private: str, count: int) -> Labelled:
    """Return reviews with their sentiment and a private attribute of their author."""
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
    """Return the labels predicted for clean and for rewritten test texts, after training on rewritten texts.

    both: clean and rewritten texts; names: the labels of all texts.
    """
    labels = [names[i] for i in learnt_from]
    if kind == ENCODER:
        vectors = [features(texts) for texts in both]  # each text is encoded once
        classes, weights, offsets = logistic_regression(vectors[1][learnt_from], labels)
        answers = [some[tested] @ weights.T + offsets for some in vectors]
    else:
        classifier = Linear.fit(Examples([both[1][i] for i in learnt_from], labels))
        classes = classifier.classes
        answers = [classifier.probabilities([texts[i] for i in tested]) for texts in both]
    return [[classes[number] for number in answer.argmax(axis=1)] for answer in answers]


def learnt(of: Labelled, texts: Sequence[str], kind: str, label: str) -> NDArray[np.float64]:
    """Return the macro F1 [sizes, 2, folds] on clean and on rewritten texts. texts: the rewrites of all texts."""
    names, classes = of.labels[label], sorted({*of.labels[label]})
    every = np.empty((len(of.sizes), 2, FOLDS))
    for fold, (others, tested) in enumerate(of.folds):
        truth = np.array([classes.index(names[i]) for i in tested])
        for place, size in enumerate(of.sizes):
            for which, some in enumerate(guesses(kind, (of.texts, texts), names, others[:size], tested)):
                every[place, which, fold] = scores(truth, np.array([*map(classes.index, some)]), classes).macro_f1
    return every


def rows(of: Labelled, named: str, epsilon: str, texts: Sequence[str], private: Sequence[str]) -> Iterator[str]:
    """Yield the rows of one mechanism at one budget."""
    for kind, shown in KINDS.items():
        for label in of.labels:
            every = learnt(of, texts, kind, label)
            what = f"{label} (private)" if label in private else label
            cells = map(mean_interval, every.reshape(-1, FOLDS))
            yield f"| {named} | {epsilon} | {what} | {shown} | " + " | ".join(cells) + " |"


def rewrites(of: Labelled, name: str, built: Mechanism, epsilons: Sequence[float]) -> list[Sequence[str]]:
    """Return the rewrites of all texts at every budget."""
    count = len(of.texts)
    streams = [Noise.named(count, "learning", of.name, name, epsilon) for epsilon in epsilons]
    return [each.texts for each in rewrite_all(built, Job(of.texts, np.arange(count), epsilons, streams))]


def table(of: Labelled, private: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a data set's table."""
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
    """Print the tables; with files of texts, write results/teda_learning."""
    parser = ArgumentParser(prog="python -m benchmarks.learning", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--snips", metavar="FILE", type=Path, help="public requests, with a column `intent`")
    parser.add_argument("--sst2", metavar="FILE", type=Path, help="public sentences, with a column `sentiment`")
    parser.add_argument("--trustpilot", metavar="FILE", type=Path, help="public reviews, with `rating` and `gender`")
    parser.add_argument("--clothing", metavar="FILE", type=Path, help="public reviews, with `rating` and `age_group`")
    parser.add_argument("--texts", metavar="N", type=int, default=TEXTS, help="most texts per file")
    options = parser.parse_args(arguments)
    lines = head(
        "TeDA's figure 4: what is learnt from rewrites",
        "learning",
        f"Macro F1 over {FOLDS} folds of at most {options.texts} texts, balanced by their first label. The paper uses "
        "all texts and three seeds.",
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
