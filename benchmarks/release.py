"""Corpora released under central differential privacy: what is learnt from noisy votes, and what from public texts.

Private texts of SNIPS, one a person, are released by `vote_histogram` under a pure epsilon by replacement, with 2,000
unlabelled public texts of the same kind. F1 is the macro F1 of a head (logistic regression on the embeddings) that is
trained on the released texts with their labels, on the file's own validation and test texts. Each seed draws the public
and the private texts anew, and the noise. Beside it, through the same smoothing, self-training and learner:

1. the local twin at the same epsilon, in which every person adds noise to their own vote (the best of three protocols);
2. 64 public texts labelled by hand, their labels spread to all public texts: no private text at all;
3. all public texts with their true labels, and the private texts themselves. Without any label nothing can be learnt.

Shares of questions are of messages (chitchat-dataset): what share of people asks which, by `label_shares`, whose error
is the total variation from the true shares of all messages of a person, each person counted once.

usage: python -m benchmarks.release     reads ../shared/data/snips.parquet, and the package chitchat-dataset
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.shared.pages import RESULTS, ROOT, dated, write
from epsilometer.auditing.corpora.checks import learnt
from epsilometer.core import tables
from epsilometer.core.corpus_mechanism import PrivateCorpus, Release
from epsilometer.core.randomness import Noise
from epsilometer.corpora.reading import read
from epsilometer.mechanisms.corpora.label_shares import LabelShares
from epsilometer.mechanisms.corpora.local_votes import LocalVotes
from epsilometer.mechanisms.corpora.shared.public_cells import PublicTexts
from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram
from epsilometer.mechanisms.selection.shared.public_exemplars import embed
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import ENCODER
from epsilometer.report.export import markup
from epsilometer.report.wording import mean_interval

SNIPS = ROOT.parent / "shared/data/snips.parquet"
MESSAGES = ROOT / "profiles/packages/chitchat.json"
CACHE = ROOT / "runs/release"  # of embeddings
FOLDER = RESULTS / "release"

SEEDS, PUBLIC, LABELLED = 20, 2000, 64
NUMBERS, EPSILONS = (1000, 3000), (0.25, 1.0)
SHARES, BUDGETS, PER_PERSON = 20, (0.25, 0.5, 1.0), (1, 4)
LARGE = 100_000  # texts whose time is measured after embedding

Array = NDArray[np.float64]
Vectors = dict[str, Array]


class Embedded:
    """Vectors of texts that were embedded before."""

    def __init__(self, texts: Sequence[str]) -> None:
        digest = hashlib.sha256("\n".join([ENCODER, *texts]).encode()).hexdigest()[:16]
        path = CACHE / f"{digest}.npy"
        if not path.exists():
            tables.write_array(embed(Encoder(ENCODER), texts).astype(np.float32), path)
        self._place = {text: i for i, text in enumerate(texts)}
        self._vectors = np.load(path).astype(np.float64)

    def __call__(self, texts: Sequence[str]) -> Array:
        return self._vectors[[self._place[text] for text in texts]]


class Snips:
    """The texts of SNIPS: those of its test and validation splits to test on, the distinct others to draw from."""

    def __init__(self) -> None:
        table = pl.read_parquet(SNIPS).unique("text", keep="first", maintain_order=True)
        self.label = dict(table.select("text", "intent").iter_rows())
        self.labels = tuple(sorted(set(self.label.values())))
        self.tests: list[str] = table.filter(pl.col("split") != "train")["text"].to_list()
        self.others: list[str] = table.filter(split="train")["text"].to_list()
        self.encode = Embedded([*self.tests, *self.others])

    def labels_of(self, texts: Sequence[str]) -> list[str]:
        return [self.label[text] for text in texts]

    def f1(self, release: Release) -> float:
        score = learnt(self.encode(release.texts), release, self.encode(self.tests), self.labels_of(self.tests))
        return 0.0 if score is None else score

    def true_labels(self, texts: Sequence[str]) -> Release:
        return Release(texts, np.ones(len(texts)), self.labels_of(texts))


def on_texts(kind: type[VoteHistogram], data: Snips, public: PublicTexts, **settings: object) -> VoteHistogram:
    """A mechanism on public texts that were embedded and clustered before."""

    class Cached(kind):  # type: ignore[valid-type, misc]
        @property
        def public(self) -> PublicTexts:
            return public

    return Cached(resource=tuple(public.texts), labels=data.labels, **settings)  # type: ignore[no-any-return]


def few_labelled(data: Snips, public: PublicTexts) -> Release:
    """64 exemplars with their true labels, spread to all public texts as votes are, without noise."""
    chosen = [public.texts[place] for place in public.exemplars(LABELLED)]
    votes = np.array([[float(label == data.label[text]) for label in data.labels] for text in chosen])
    return on_texts(VoteHistogram, data, public).labelled(votes, 0.0)


def of_seed(data: Snips, seed: int) -> dict[str, float]:
    """F1 by what is released, number of private texts and epsilon."""
    order = np.random.default_rng(seed).permutation(len(data.others)).tolist()
    public = PublicTexts.of([data.others[i] for i in order[:PUBLIC]], data.encode, 0)
    results = {
        "64 public texts, labelled by hand": few_labelled(data, public),
        "all public texts with their true labels": data.true_labels(public.texts),
    }
    for n in NUMBERS:
        private = [data.others[i] for i in order[PUBLIC : PUBLIC + n]]
        results[f"private texts as they are | {n:,}"] = data.true_labels(private)
        corpus = PrivateCorpus(private, None, data.labels_of(private))
        for kind, name in ((VoteHistogram, "noisy votes"), (LocalVotes, "local twin")):
            for epsilon in EPSILONS:
                noise = Noise.named(1, "release", seed, n, epsilon)
                release = on_texts(kind, data, public).release(corpus, epsilon, noise)
                results[f"{name} | {n:,} | {epsilon:g}"] = release
    return {key: data.f1(release) for key, release in results.items()}


def learnt_from_snips() -> list[dict[str, float]]:
    """The figures of each seed."""
    data, seeds = Snips(), list[dict[str, float]]()
    for seed in range(SEEDS):
        seeds.append(of_seed(data, seed))
        print(seed, {key: round(value, 3) for key, value in seeds[-1].items()}, flush=True)
    return seeds


def rows_of(seeds: Sequence[dict[str, float]]) -> list[dict[str, str]]:
    """Rows of means over seeds."""
    rows = []
    for key in seeds[0]:
        name, n, epsilon = [*key.split(" | "), "", ""][:3]
        mean = mean_interval([each[key] for each in seeds])
        rows.append({"released": name, "private texts": n, "epsilon": epsilon, "macro F1": mean})
    return rows


def shares() -> list[dict[str, str]]:
    """A row for each budget and number of texts a person: total variation from the shares of people, over noises."""
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


def seconds() -> str:
    """A sentence: how long 100,000 texts take once embedded."""
    data = Snips()
    public = PublicTexts.of(data.others[:PUBLIC], data.encode, 0)
    private = [data.others[PUBLIC + i % (len(data.others) - PUBLIC)] for i in range(LARGE)]
    corpus = PrivateCorpus(private, [str(i) for i in range(LARGE)], data.labels_of(private))
    begun = time.process_time()
    on_texts(VoteHistogram, data, public).release(corpus, 1.0, Noise.operating_system(1))
    return f"{LARGE:,} texts took {time.process_time() - begun:.0f} s of processor time once embedded."


def main() -> None:
    """Write results/release."""
    if not SNIPS.is_file():
        print(f"not run: needs {SNIPS}")
        return
    write(page(learnt_from_snips(), seconds(), shares()).splitlines(), FOLDER)


def page(seeds: Sequence[dict[str, float]], took: str, messages: list[dict[str, str]]) -> str:
    """The page, of the figures of some seeds."""
    about, *_ = (__doc__ or "").split("\n\nusage")
    parts = [
        "# Corpora released",
        "For whoever asks what can be learnt from a corpus that is released with noisy votes.",
        "Written by `python -m benchmarks.release`; do not edit.",
        about,
        f"{dated()} {len(seeds)} seeds; means with 99 % intervals of Student's t. {took}",
        "## Learnt from SNIPS",
        markup(pl.DataFrame(rows_of(seeds))).rstrip("\n"),
        "## Shares of questions",
        markup(pl.DataFrame(messages)).rstrip("\n"),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
