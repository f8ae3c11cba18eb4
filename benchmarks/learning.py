"""TeDA's figure 4 as learning curves: what classifiers learn from rewrites of its six mechanisms (arXiv:2603.22968).

A row a mechanism, epsilon, label and classifier: macro F1, learnt from so many rewritten texts. On `clean`
texts the paper tests, of the private label too; `rewritten` ones are what an attacker sees. Of two classes guessing has
an F1 of about .5, of seven .14. The rows of `clean texts` learn from texts as they are. Classifiers: logistic
regression on TF-IDF of words (`words`), and on vectors of the sentence encoder (`head`).

Mechanisms are as shipped, on the embedded models; DP-BART clips at .5, DP-ST writes one triple, DP-Prompt and
DP-Paraphrase 24 tokens. Budgets are the paper's, and on requests those at which laws lose .5, 1, 2 and 4 nats on the
twelve texts of docs/results/teda_texts.md; 4 where there is a law that needs no draws. Of Trustpilot only texts with a
rating, of at most 40 words, are read, at 250 and 1,000 alone; 1 and 2 stars are bad, 4 and 5 good. Without files the
texts are requests that the project makes, and no page is written.

usage: python -m benchmarks.learning [--snips FILE] [--trustpilot FILE] [--train N] [--test N]
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from benchmarks.rewrites import SETTINGS
from epsilometer.auditing.text_audit import mechanism
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.auditing.worth.scoring import scores
from epsilometer.core import tables
from epsilometer.core.mechanism import Mechanism
from epsilometer.core.randomness import Noise
from epsilometer.corpora import synthetic
from epsilometer.corpora.reading import read
from epsilometer.models.classifier import ENCODER, LINEAR, Examples, FineTuning
from epsilometer.models.classifiers.by_kind import train
from epsilometer.report import origin
from epsilometer.runtime.machine import hardware
from epsilometer.text.words import words

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/results/teda_learning.md"
TRAIN, TEST, LONGEST = 320, 160, 40
SHARES = (4, 2, 1)  # sizes are the training texts over these
KINDS = {LINEAR: "words", ENCODER: "head"}
PUBLISHED = (250.0, 1000.0, 2500.0)
NATS: dict[str, dict[float, float]] = {  # by mechanism, the budget at which its law loses so many
    "adept": {0.5: 7.92, 1: 18.6, 2: 45.7, 4: 111},
    "dp_bart": {0.5: 8.57, 1: 20.3, 2: 50, 4: 121},
    "dp_paraphrase": {0.5: 5.84, 1: 8.31, 2: 14.9},
    "dp_prompt": {0.5: 5, 1: 7.04, 2: 12},
    "dp_mlm": {0.5: 5.4, 1: 9.51, 2: 15.3, 4: 22.3},
    "dp_st": {},  # finds no triples in requests, and loses nothing
}


class Labelled(NamedTuple):
    """Texts, those to test on last, and their labels by name."""

    name: str
    texts: list[str]
    labels: Mapping[str, list[str]]
    tested: int
    budgets: Mapping[str, Mapping[float, str]]
    """By mechanism the budgets, and what each is called."""

    def examples(self, label: str, texts: Sequence[str], part: slice) -> Examples:
        """The examples of some places."""
        return Examples(list(texts[part]), self.labels[label][part])

    @property
    def sizes(self) -> list[int]:
        """How many texts are learnt from."""
        return [(len(self.texts) - self.tested) // share for share in SHARES]


def _balanced(table: pl.DataFrame, label: str, count: int) -> pl.DataFrame:
    """So many rows of a table in its order, of classes as equally common as they can be."""
    turn = table.with_columns(turn=pl.int_range(pl.len()).over(label)).sort("turn", maintain_order=True)
    return turn.drop("turn").head(count)


def _budgets(name: str, nats: bool) -> dict[float, str]:
    """The budgets of a mechanism, and what each is called."""
    of_laws = {epsilon: f"{target:g} nat{'s' if target != 1 else ''}" for target, epsilon in NATS[name].items()}
    return of_laws | dict.fromkeys(PUBLISHED, "") if nats else dict.fromkeys(PUBLISHED[:2], "")


def _labelled(name: str, table: pl.DataFrame, labels: Sequence[str], counts: tuple[int, int], nats: bool) -> Labelled:
    """The first texts of both splits, balanced by the first label."""
    parts = [
        _balanced(table.filter(split=split), labels[0], count)
        for split, count in zip(("train", "test"), counts, strict=True)
    ]
    rows = pl.concat(parts)
    budgets = {each: _budgets(each, nats) for each in SETTINGS}
    by_label = {label: rows[label].cast(pl.String).to_list() for label in labels}
    return Labelled(name, rows["text"].to_list(), by_label, len(parts[1]), budgets)


def requests(source: Path | None, counts: tuple[int, int]) -> Labelled:
    """Requests with their intent."""
    table = synthetic.generate("queries", 4 * sum(counts), 0) if source is None else read(source, labels=["intent"])
    return _labelled(source.stem if source else "queries", table, ["intent"], counts, True)


def reviews(source: Path, counts: tuple[int, int]) -> Labelled:
    """Reviews with a rating and their author's gender."""
    table = read(source, labels=["rating", "gender"]).drop_nulls(["rating", "gender"])
    short = pl.Series([len(words(text)) <= LONGEST for text in table["text"]])
    stars = pl.col("rating").cast(pl.Int64)
    table = table.filter(short & (table["rating"].cast(pl.Int64) != 3))
    rated = table.with_columns(sentiment=pl.when(stars > 3).then(pl.lit("good")).otherwise(pl.lit("bad")))
    return _labelled(source.stem, rated, ["sentiment", "gender"], counts, False)


def learnt(of: Labelled, texts: Sequence[str], kind: str, label: str) -> Iterator[tuple[float, float]]:
    """Macro F1 on clean and on rewritten texts, a size after the other. texts: rewrites of all."""
    last = slice(len(texts) - of.tested, len(texts))
    for size in of.sizes:
        examples = of.examples(label, texts, slice(size))
        classes = sorted({*examples.labels})
        classifier = train(kind, examples, FineTuning(""), Noise.named(1, "learning", label))
        truth = np.array([classes.index(name) for name in of.labels[label][last]])
        clean, rewritten = (
            scores(truth, classifier.probabilities(tested[last]).argmax(axis=1), classes).macro_f1
            for tested in (of.texts, texts)
        )
        yield clean, rewritten


def rows(of: Labelled, named: str, epsilon: str, texts: Sequence[str], private: Sequence[str]) -> Iterator[str]:
    """The rows of one mechanism at one budget."""
    for kind, shown in KINDS.items():
        for label in of.labels:
            every = list(learnt(of, texts, kind, label))
            what = f"{label} (private)" if label in private else label
            cells = [f"{clean:.3f} | {rewritten:.3f}" for clean, rewritten in every]
            yield f"| {named} | {epsilon} | {what} | {shown} | " + " | ".join(cells) + " |"


def rewrites(of: Labelled, name: str, built: Mechanism) -> list[Sequence[str]]:
    """The rewrites of all texts at every budget."""
    epsilons, count = list(of.budgets[name]), len(of.texts)
    streams = [Noise.named(count, "learning", of.name, name, epsilon) for epsilon in epsilons]
    return [each.texts for each in rewrite_all(built, Job(of.texts, np.arange(count), epsilons, streams))]


def table(of: Labelled, private: Sequence[str]) -> Iterator[str]:
    """The lines of a data set's table."""
    columns = " | ".join(f"{size}, clean | {size}, rewritten" for size in of.sizes)
    yield from ("", f"## {of.name}", "", f"Tested on {of.tested} texts.", "")
    yield f"| mechanism | epsilon | label | classifier | {columns} |"
    yield "|---" * (4 + 2 * len(of.sizes)) + "|"
    yield from rows(of, "clean texts", "–", of.texts, private)
    for name, settings in SETTINGS.items():
        begun = time.process_time()
        for (epsilon, called), texts in zip(
            of.budgets[name].items(), rewrites(of, name, mechanism(name, settings)), strict=True
        ):
            shown = f"{epsilon:,g} ({called})" if called else f"{epsilon:,g}"
            yield from rows(of, name, shown, texts, private)
        print(f"{of.name}, {name}: {time.process_time() - begun:.0f} s of processor time", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] = ()) -> None:
    """Print the tables, and write docs/results/teda_learning.md of files of texts."""
    parser = ArgumentParser(prog="python -m benchmarks.learning", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--snips", metavar="FILE", type=Path, help="public requests, with a column `intent`")
    parser.add_argument("--trustpilot", metavar="FILE", type=Path, help="public reviews, with `rating` and `gender`")
    parser.add_argument("--train", metavar="N", type=int, default=TRAIN, help="texts to learn from, at most")
    parser.add_argument("--test", metavar="N", type=int, default=TEST, help="texts to test on")
    options = parser.parse_args(arguments)
    counts = options.train, options.test
    lines = [
        "# TeDA's figure 4: what is learnt from rewrites",
        "",
        "Written by `python -m benchmarks.learning`; do not edit. What the columns mean is in its docstring.",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {origin.facts(ROOT)['brief']}, {hardware()}. Macro F1; at most {options.train} "
        "texts are learnt from, balanced by their first label, where the paper has all. Each figure is of one run: two "
        "may differ by some points by chance.",
    ]
    print(*lines, sep="\n", flush=True)
    studied: list[tuple[Labelled, Sequence[str]]] = [(requests(options.snips, counts), ())]
    if options.trustpilot:
        studied.append((reviews(options.trustpilot, counts), ("gender",)))
    for of, private in studied:
        for line in table(of, private):
            print(line, flush=True)
            lines.append(line)
    if options.snips and options.trustpilot:
        tables.write_text("\n".join(lines) + "\n", PAGE)


if __name__ == "__main__":
    main(sys.argv[1:])
