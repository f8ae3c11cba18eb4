"""Learning from released corpora on data sets other than SNIPS: sentiment, generated requests, and messages of people.

As in `benchmarks.release`, private texts are released by `vote_histogram` under a pure epsilon by replacement of one
text, with 2,000 unlabelled public texts of the same data set (no domain shift) or of another one (domain shift). A seed
draws public, test and up to 3,000 private texts from a sample of at most 6,800 texts of a data set, and the noise. In
the rows `all`, private texts are all other texts of the data set. All constants are those that were chosen on SNIPS.
Figures are macro F1 on the test texts, of a head (logistic regression on the embeddings), and of logistic regression
and naive Bayes on the words. The head alone is trained where the domain shifts.

Each release is compared, with the same self-training and learner, with three methods that need no private text: 64
public texts labelled by hand, all 2,000, and none (each has the label with the nearest name by the encoder). A release
is worth its budget only if the whole interval of `over the best public` is above 0.

usage: python -m benchmarks.release_sets     reads files of ../shared/data, and chitchat-dataset
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np

from benchmarks.evolution import Encoding
from benchmarks.likeness import SHIFTED, all_texts, labelled_texts
from benchmarks.release import (
    ALL,
    EPSILONS,
    HAND,
    LEARNERS,
    NONE,
    PUBLIC,
    SEEDS,
    Array,
    Data,
    Draw,
    Scores,
    names_of,
    over_seeds,
    rows_of,
)
from benchmarks.shared.pages import RESULTS, cell, head, table, write
from epsilometer.auditing.corpora.checks import head as classifier
from epsilometer.auditing.corpora.checks import learnt
from epsilometer.core.corpus_mechanism import Release
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.shared.public_cells import PublicTexts
from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram

NUMBERS = (300, 1000, 3000, 0)  # the number 0 means all texts
OTHERS = tuple(name for name in SHIFTED if name != "SNIPS")
SHIFTED_AT = (0.25, 1.0, 4.0)

_ABOUT = f"{SEEDS} seeds; means with 99 % intervals of Student's t. Requests are generated, the others are real texts."
_SAID = "Macro F1. `over ...`: how much better the head is than with public texts alone, by seed."


def main() -> None:
    """Write results/release_sets."""
    for texts, label in all_texts().values():
        Data(texts, label)  # embeds the texts once
    lines = head("What released corpora teach, by data set", "release_sets", _ABOUT)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        of_sets = dict(zip(OTHERS, pool.map(scores_of, OTHERS), strict=True))
    for name, seeds in of_sets.items():
        columns = ("over the best public", "over 64 by hand", "released", "private texts", "epsilon", *LEARNERS)
        rows = rows_of(seeds, name, LEARNERS)
        written = [f"| {' | '.join(cell(row[column]) if row[column] else '' for column in columns)} |" for row in rows]
        lines += table(f"Learnt from {name}", _SAID, f"| {' | '.join(columns)} |", written)
    write(lines, RESULTS / "release_sets")


def scores_of(name: str) -> list[Scores]:
    """Return the scores of each seed on a data set."""
    sets, few = all_texts(), labelled_texts()
    data, other = (Data(*sets[each]) for each in (name, SHIFTED[name]))
    encode = Encoding([data.encode, other.encode])
    among, shifted = (few[each][0]["text"].to_list() for each in (name, SHIFTED[name]))
    return over_seeds(partial(of_seed, name, data, encode, names_of(data.labels), among=among, others=shifted))


def of_seed(
    name: str, data: Data, encode: Encoding, names: Array, seed: int, *, among: Sequence[str], others: Sequence[str]
) -> Scores:
    """Return the scores of one seed.

    among: texts to draw from; others: those of another data set; names: vectors of the labels' names, [L, d].
    """
    draw, scores = Draw(data, seed, among), Scores()
    order = np.random.default_rng(seed).permutation(len(others))[:PUBLIC].tolist()
    shifted = PublicTexts.of([others[i] for i in order], encode, 0)
    votes = VoteHistogram(resource=tuple(shifted.texts), labels=data.labels).on(shifted)

    def put(released: str, n: str, epsilon: str, release: Release) -> None:
        every = draw.every_learner(release)
        scores.update({(name, released, n, epsilon, of): every[of] for of in LEARNERS})

    put(HAND, "", "", draw.few_labelled())
    put(ALL, "", "", data.true_labels(draw.public.texts))
    put(NONE, "", "", draw.by_name(names))
    for n in (n for n in NUMBERS if n <= len(draw.private)):
        corpus = draw.corpus(draw.private[: n or None])
        shown = f"{n:,}" if n else f"all {len(corpus):,}"
        put("private texts as they are", shown, "", data.true_labels(corpus.texts))
        for epsilon in EPSILONS:
            noise = Noise.named(1, "release sets", seed, n, epsilon)
            put("noisy votes", shown, f"{epsilon:g}", draw.mechanism().release(corpus, epsilon, noise))
            if epsilon in SHIFTED_AT:
                release = votes.release(corpus, epsilon, noise)
                of = (name, "noisy votes, domain shift", shown, f"{epsilon:g}")
                fitted = classifier(encode(release.texts), release)
                scores[*of, "head"] = learnt(fitted, data.encode(draw.tests), data.labels_of(draw.tests)) or 0.0
    return scores


if __name__ == "__main__":
    main()
