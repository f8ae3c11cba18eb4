"""Speed of anonymisers compared with the plain loops of their publications, with the same classifiers and networks.

The plain loop of a greedy word search processes one text and one candidate at a time: tags, similarity, then the
classifier. It is simulated by the same search with every item computed separately, and limits checked before queries.
The benchmark checks that its rewrites are the same.

`models.bert` always computes 256 rows of tokens at a time, so that results do not depend on the batch. A loop over
single items also computes unused rows, which is part of the ratio.

Texts are generated reviews; the classifiers are trained on other reviews. Networks and word vectors are loaded before
the measurement. `processor` is the ratio of processor times, which other programs disturb less than wall-clock times.

usage: python -m benchmarks.anonymize [--texts N] [--plain N] [--kind linear|encoder] [MECHANISM...]
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar
from unittest.mock import patch

import numpy as np
import polars as pl

from benchmarks.shared.clock import timed
from epsilometer.core.outcomes import FOUND
from epsilometer.core.randomness import Noise
from epsilometer.corpora.synthetic import generate
from epsilometer.mechanisms.anonymisers.bae import BAE
from epsilometer.mechanisms.anonymisers.shared import word_search
from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Plan, make
from epsilometer.mechanisms.anonymisers.shared.in_step import Search
from epsilometer.mechanisms.anonymisers.shared.word_search import WordSearch
from epsilometer.mechanisms.anonymisers.textbugger import TextBugger
from epsilometer.mechanisms.anonymisers.textfooler import TextFooler
from epsilometer.mechanisms.words.shared.embedded import vectors
from epsilometer.models.classifier import FineTuning
from epsilometer.models.locate import ENCODER
from epsilometer.text.vectors import WordVectors

T = TypeVar("T")

WORD_SEARCHES: dict[str, type[WordSearch]] = {"textfooler": TextFooler, "textbugger": TextBugger, "bae": BAE}
TRAINED_ON, SEED = 3000, 1
DEAR = 10**9  # a budget that is never exhausted, so that limits are checked before queries
WARM = ["The staff was friendly, and my husband loved the food."]


def one_by_one(searches: Iterable[Search[T]]) -> list[T]:
    """Run searches like `in_step`, but one after another, with each item computed separately."""
    results = list[T]()
    for search in searches:
        try:
            asker, items = next(search)
            while True:
                asker, items = search.send([asker([item])[0] for item in items])
        except StopIteration as ended:
            results.append(ended.value)
    return results


def greedy(name: str, resource: Path, kind: str, texts: list[str], plain: int) -> dict[str, object]:
    """Return the table row of a greedy search on all texts, and of its plain loop on the first `plain` texts."""
    noise = Noise.named(len(texts), SEED, "benchmark")
    ours, theirs = (WORD_SEARCHES[name](resource=resource, kind=kind, query_budget=b) for b in (None, DEAR))
    for their in (ours, theirs):
        their.rewrite(WARM, np.nan, noise[:1])
    rewrites, *seconds = timed(lambda: ours.rewrite(texts, np.nan, noise))
    with patch.object(word_search, "in_step", one_by_one):
        alone, *alone_seconds = timed(lambda: theirs.rewrite(texts[:plain], np.nan, noise[:plain]))
    assert list(alone.texts) == list(rewrites.texts[:plain]), "the plain loop gives other rewrites"
    assert rewrites.outcomes is not None
    rates = [len(texts) / s for s in seconds]
    plain_rates = [plain / s for s in alone_seconds]
    return {
        "mechanism": name,
        "classifier": kind,
        "texts": len(texts),
        "texts a second": round(rates[0], 2),
        "plain": round(plain_rates[0], 3),
        "ratio": round(rates[0] / plain_rates[0], 1),
        "processor": round(rates[1] / plain_rates[1], 1),
        "found": round(rewrites.outcomes.status.count(FOUND) / len(texts), 3),
        "questions a text": round(float(rewrites.outcomes.asked.mean()), 1),
    }


def main() -> None:
    """Print one row per mechanism."""
    parser = ArgumentParser()
    parser.add_argument("--texts", type=int, default=96)
    parser.add_argument("--plain", type=int, default=8)
    parser.add_argument("--kind", choices=["linear", "encoder"], default="linear")
    parser.add_argument("mechanisms", nargs="*", default=list(WORD_SEARCHES))
    options = parser.parse_args()
    reviews = generate("reviews", TRAINED_ON + options.texts, SEED).with_row_index("id").cast({"id": pl.String})
    with TemporaryDirectory() as folder:
        plan = Plan("reviews", ["gender"], [], [options.kind], FineTuning(ENCODER))
        make(Path(folder), reviews.head(TRAINED_ON), plan, WordVectors.load(vectors()))
        texts = reviews.tail(options.texts)["text"].to_list()
        rows = [greedy(name, Path(folder), options.kind, texts, options.plain) for name in options.mechanisms]
    with pl.Config(tbl_cols=-1, tbl_width_chars=200):
        print(pl.DataFrame(rows))


if __name__ == "__main__":
    main()
