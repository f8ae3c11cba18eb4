"""Utility of public exemplars at an average loss of one nat, and of four variants.

Private texts of SNIPS are released under a pure epsilon of at most 4 for whole texts; their labels are not privatised.
Each split samples the public part of SNIPS, the private texts and the audited sets. Texts of SST-2 and of the corpus
are sampled once, and all splits use the same test texts. Loss, cosine and ceiling are computed on the same pairs: the
45 pairs within each random set of ten private texts. The epsilon is the one with an average loss of one nat, or 4 if
that is smaller. The control `coin` releases the text itself with probability tanh(1/2), else the best public text. It
has the highest utility, but nobody would use it.

1. two levels: randomised response on groups of exemplars, then on the exemplars of the released group;
2. subset selection: a text is replaced by two exemplars, which are read together;
3. retrieval: the exemplars are the sentences of a large corpus that are nearest to the centres of the public texts;
4. posterior texts: for each exemplar several public texts are released together, whose embedding is nearest to the mean
   of the public texts that would release this exemplar.

F1 is that of four classifiers trained on released texts with true labels. Two are a linear classifier on words, and
logistic regression on sentence embeddings ("head"). "By law" is a head q whose output for a released text y is the mean
of q(label | u) over exemplars u, weighted by the probability that y comes from u (forward correction, Patrini et al.
2017). "Spread" is the same over all unlabelled public texts u, a method of this project.

usage: python -m benchmarks.exemplars     reads ../shared/data/{snips,sst2}.parquet and ../shared/corpus/corpus.txt.xz
"""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import softmax
from sklearn.metrics import f1_score

from benchmarks.shared.pages import RESULTS, ROOT, dated, write
from epsilometer.auditing.ceilings.ceiling import share_of_possible
from epsilometer.auditing.ceilings.frontier import Frontier, TextSet, frontier, loss_of, mean, success_of
from epsilometer.auditing.ceilings.share import best_text
from epsilometer.core import tables
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.selection.shared.exemplar_laws import ExemplarLaw, law_of
from epsilometer.mechanisms.selection.shared.public_exemplars import central
from epsilometer.models.classifier import Examples
from epsilometer.models.classifiers.linear import Linear, logistic_regression
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import ENCODER
from epsilometer.report.export import markup
from epsilometer.report.wording import mean_interval

SHARED = ROOT.parent / "shared"
CACHE = ROOT / "runs/exemplars"  # cached embeddings
FOLDER = RESULTS / "exemplars"

SPLITS, PUBLIC, PRIVATE, SETS, SIZE = 5, 2000, 3000, 40, 10
POOL = 2 * (PUBLIC + PRIVATE)  # number of texts from which each split samples
TARGET, MOST = 1.0, 4.0  # nats, and the pure epsilon
EXEMPLARS, PAIR, TOGETHER = 64, 2, 4
CORPUS, EVERY = 20_000, 45  # most lines of the corpus; every 45th line is read
STRENGTH = 3.0  # inverse regularisation of a head, as in `models.classifiers`

OWN, LINES, FEW = "of its own kind", "the corpus", f"{2 * EXEMPLARS} exemplars, labelled"
COLUMNS = (
    "pure epsilon", "loss", "delta at 4 nats", "cosine", "ceiling", "share of the possible", "words", "head", "by law",
    "spread",
)  # fmt: skip

Array = NDArray[np.float64]
Texts = tuple[list[str], Array]  # texts and their unit embeddings [n, d]


def embedded(name: str, texts: list[str]) -> Texts:
    """Return the texts with their unit embeddings, which are cached on disk."""
    digest = hashlib.sha256("\n".join([ENCODER, *texts]).encode()).hexdigest()[:16]
    path = CACHE / f"{name}-{digest}.npy"
    if not path.is_file():
        tables.write_array(Encoder(ENCODER).encode(texts), path)
    vectors = np.load(path).astype(np.float64)
    return texts, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def some(texts: Texts, places: Sequence[int] | NDArray[np.integer]) -> Texts:
    """Return the texts at these indices."""
    return [texts[0][i] for i in places], texts[1][places]


def shuffled(count: int, *name: str | int) -> NDArray[np.int64]:
    """Return a permutation of 0 ... count - 1, random by this name."""
    return np.argsort(Noise.named(count, "exemplars", *name).uniforms()[:, 0], kind="stable")


@dataclass(frozen=True)
class Split:
    """A split: public, private and test texts with labels; sets: indices of private texts in each audited set."""

    number: int
    public: Texts
    public_labels: Sequence[str]
    private: Texts
    labels: Sequence[str]
    test: Texts
    test_labels: Sequence[str]
    sets: list[NDArray[np.int64]]

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """All pairs within each set, indices of private texts [n, 2]."""
        return np.array([pair for texts in self.sets for pair in combinations(texts.tolist(), 2)])

    @cached_property
    def audited(self) -> NDArray[np.int64]:
        """The indices of the private texts of all sets."""
        return np.concatenate(self.sets)

    @cached_property
    def served(self) -> list[TextSet]:
        """The audited sets, each with all its pairs."""
        return [TextSet.of_all_pairs(self.private[1][texts]) for texts in self.sets]

    @cached_property
    def frontier(self) -> Frontier:
        """The largest mean cosine that any mechanism can have on these sets, as a function of the loss."""
        return mean([frontier(texts) for texts in self.served])

    def one_text(self, public: Texts) -> float:
        """Return the mean cosine if the best public text is released for everybody."""
        worth = best_text(public[1], self.served)
        assert worth is not None
        return worth

    def f1(self, guesses: Sequence[str]) -> float:
        """Return the macro F1 on the test texts."""
        return float(f1_score(self.test_labels, guesses, average="macro"))

    def head(self, vectors: Array, labels: Sequence[str]) -> float:
        """Return the F1 of logistic regression on embeddings."""
        classes, coefficients, intercepts = logistic_regression(vectors, labels)
        return self.f1([classes[i] for i in (self.test[1] @ coefficients.T + intercepts).argmax(1)])

    def words(self, texts: Sequence[str], labels: Sequence[str]) -> float:
        """Return the F1 of a linear classifier on words."""
        model = Linear.fit(Examples(texts, labels))
        return self.f1([model.classes[i] for i in model.probabilities(self.test[0]).argmax(1)])


@dataclass(frozen=True)
class Release:
    """A mechanism. law: law of the outputs; exemplars: texts; shown: the released text of each output."""

    law: ExemplarLaw
    exemplars: Texts
    shown: Texts

    def probabilities(self, vectors: Array, epsilon: float) -> Array:
        """Return the probabilities [n, outputs] for embeddings [n, d]."""
        probabilities: Array = np.exp(self.law.log_law(vectors @ self.exemplars[1].T, epsilon))
        return probabilities


def plain(public: Texts, split: Split, corpus: Texts) -> Release:
    """Return exemplars under randomised response."""
    return _by(law_of("randomized_response", None, 1), some(public, central(public[1], EXEMPLARS, 0)))


def two_levels(public: Texts, split: Split, corpus: Texts) -> Release:
    """Return exemplars under randomised response on two levels."""
    return _by(law_of("randomized_response", None, 2), some(public, central(public[1], EXEMPLARS, 0)))


def subsets(public: Texts, split: Split, corpus: Texts) -> Release:
    """Return subset selection: two exemplars in a fixed order, joined to one text."""
    return _by(law_of("subset_selection", PAIR, 1), some(public, central(public[1], EXEMPLARS, 0)))


def retrieval(public: Texts, split: Split, corpus: Texts) -> Release:
    """Return randomised response on sentences of the corpus, each nearest to one centre of the public texts."""
    nearness = public[1][central(public[1], EXEMPLARS, 0)] @ corpus[1].T
    places: list[int] = []
    for row in nearness:
        row[places] = -np.inf
        places.append(int(row.argmax()))
    return _by(law_of("randomized_response", None, 1), some(corpus, places))


def posterior_texts(public: Texts, split: Split, corpus: Texts) -> Release:
    """Return exemplars that are shown as public texts near the mean of the texts that release them at epsilon 4."""
    of = plain(public, split, corpus)
    means = of.probabilities(public[1], MOST).T @ public[1]
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    tried: list[list[str]] = []
    for wanted in means:
        chosen: list[int] = []
        for _ in range(TOGETHER):
            summed = public[1] + public[1][chosen].sum(0)
            near = (summed @ wanted) / np.linalg.norm(summed, axis=1)
            near[chosen] = -np.inf
            chosen.append(int(near.argmax()))
            tried.append([public[0][i] for i in chosen])
    texts, vectors = embedded("posterior", [" . ".join(parts) for parts in tried])
    near = (vectors * means.repeat(TOGETHER, axis=0)).sum(1).reshape(-1, TOGETHER)
    best = near.argmax(1) + TOGETHER * np.arange(len(means))
    return Release(of.law, of.exemplars, some((texts, vectors), best))


TRIES: dict[str, Callable[[Texts, Split, Texts], Release]] = {
    "exemplars": plain,
    "1. two levels": two_levels,
    "2. subset selection": subsets,
    "3. retrieval": retrieval,
    "4. posterior texts": posterior_texts,
}


def _by(make: Callable[[Array], ExemplarLaw], exemplars: Texts) -> Release:
    law = make(exemplars[1])
    if (law.shown.sum(1) == 1).all():
        return Release(law, exemplars, exemplars)
    texts = [" . ".join(exemplars[0][i] for i in np.flatnonzero(row)) for row in law.shown]
    return Release(law, exemplars, embedded("sets", texts))


def average_loss(release: Release, split: Split, epsilon: float) -> float:
    """Return the average loss over the split's pairs, in nats."""
    laws = release.probabilities(split.private[1], epsilon)
    return loss_of(float(np.mean([np.maximum(laws[a], laws[b]).sum() / 2 for a, b in split.pairs])))


def measured(release: Release, split: Split, public: Texts) -> dict[str, float]:
    """Return the figures of a mechanism on a split."""
    epsilon = MOST
    if average_loss(release, split, MOST) > TARGET:
        epsilon = brentq(lambda at: average_loss(release, split, at) - TARGET, 0.1, MOST, xtol=1e-3)
    loss = average_loss(release, split, epsilon)
    laws = release.probabilities(split.private[1], epsilon)
    ways = [*split.pairs, *split.pairs[:, ::-1]]
    beyond = np.mean([np.maximum(0, laws[a] - np.exp(4) * laws[b]).sum() for a, b in ways])
    audited = split.audited
    cosine = float((laws[audited] * (split.private[1][audited] @ release.shown[1].T)).sum(1).mean())
    uniforms = Noise.named(len(laws), "exemplars", "release", split.number).uniforms()
    released = np.minimum((uniforms >= np.cumsum(laws, axis=1)).sum(1), laws.shape[1] - 1)
    texts, vectors = some(release.shown, released)
    return {
        "pure epsilon": epsilon,
        "loss": loss,
        "delta at 4 nats": float(beyond),
        "cosine": cosine,
        "ceiling": float(split.frontier.ceiling(success_of(loss))),
        "share of the possible": share_of_possible(cosine, loss, split.frontier, split.one_text(split.public)),
        "words": split.words(texts, split.labels),
        "head": split.head(vectors, split.labels),
        "by law": by_law(release, split, release.exemplars[1], released, epsilon),
        "spread": by_law(release, split, public[1], released, epsilon),
    }


def by_law(release: Release, split: Split, public: Array, released: NDArray[np.int64], epsilon: float) -> float:
    """Return the F1 of a head trained with forward correction.

    Its output for a released y is the mean of its outputs for public texts u, weighted by P(u | y).
    """
    classes, numbers = np.unique(list(split.labels), return_inverse=True)
    outputs, places = np.unique(released, return_inverse=True)
    counts = np.zeros((len(outputs), len(classes)))
    np.add.at(counts, (places, numbers), 1)
    comes_from = release.probabilities(public, epsilon)[:, outputs].T
    comes_from /= comes_from.sum(1, keepdims=True)
    constant = np.ones((len(public), 1))
    inputs = np.concatenate([public, constant], axis=1)

    def lack(flat: Array) -> tuple[float, Array]:
        weights = flat.reshape(inputs.shape[1], -1)
        each = softmax(inputs @ weights, axis=1)
        mixed = comes_from @ each
        slope = each * (pull := comes_from.T @ (-counts / mixed)) - each * (each * pull).sum(1, keepdims=True)
        gradient = inputs.T @ slope
        gradient[:-1] += weights[:-1] / STRENGTH
        return float(-(counts * np.log(mixed)).sum() + (weights[:-1] ** 2).sum() / 2 / STRENGTH), gradient.ravel()

    start = np.zeros(inputs.shape[1] * len(classes))
    fitted = minimize(lack, start, jac=True, method="L-BFGS-B", options={"maxiter": 300}).x
    weights = fitted.reshape(inputs.shape[1], -1)
    return split.f1([classes[i] for i in (split.test[1] @ weights[:-1] + weights[-1]).argmax(1)])


def baselines(split: Split) -> dict[str, dict[str, float]]:
    """Return the rows that need no mechanism, and the row of the control."""
    labels = np.array(split.public_labels)
    rows = {"clean texts": (split.private, split.labels), "public part, labelled": (split.public, split.public_labels)}
    for count in (EXEMPLARS, 2 * EXEMPLARS):
        places = central(split.public[1], count, 0)
        rows[f"{count} exemplars, labelled"] = (some(split.public, places), labels[places].tolist())
    shown = {
        name: {"words": split.words(texts[0], of), "head": split.head(texts[1], of)}
        for name, (texts, of) in rows.items()
    }
    one_text = split.one_text(split.public)
    rows_without = {"one public text": {"loss": 0.0, "cosine": one_text, "share of the possible": 0.0}}
    return shown | rows_without | {"coin (control)": coin(split, one_text)}


def coin(split: Split, one_text: float) -> dict[str, float]:
    """Return the row of the control `coin`, which releases a text itself with probability tanh(l / 2)."""
    share = float(np.tanh(TARGET / 2))
    best = int((split.public[1] @ split.private[1][split.audited].mean(0)).argmax())
    is_shown = Noise.named(PRIVATE, "exemplars", "coin", split.number).uniforms()[:, 0] < share
    texts = [text if itself else split.public[0][best] for text, itself in zip(split.private[0], is_shown, strict=True)]
    vectors = np.where(is_shown[:, None], split.private[1], split.public[1][best])
    cosine = share + (1 - share) * one_text
    return {
        "loss": TARGET,
        "delta at 4 nats": share,
        "cosine": cosine,
        "ceiling": float(split.frontier.ceiling(success_of(TARGET))),
        "share of the possible": share_of_possible(cosine, TARGET, split.frontier, one_text),
        "words": split.words(texts, split.labels),
        "head": split.head(vectors, split.labels),
    }


def splits() -> list[Split]:
    """Return the splits, each with its own public texts, private texts and sets."""
    table = pl.read_parquet(SHARED / "data/snips.parquet").unique("text", maintain_order=True)
    train, test = (table.filter(split=name) for name in ("train", "test"))
    test = test.filter(~pl.col("text").is_in(train["text"].to_list()))
    train = train[shuffled(len(train), "pool")[:POOL]]
    every, tested = (embedded(name, part["text"].to_list()) for name, part in (("snips", train), ("snips-test", test)))
    labels = train["intent"].to_numpy()
    every_split = []
    for number in range(SPLITS):
        order = shuffled(len(train), "split", number)
        public, private = order[:PUBLIC], order[PUBLIC : PUBLIC + PRIVATE]
        sets = shuffled(PRIVATE, "sets", number)[: SETS * SIZE].reshape(SETS, SIZE)
        every_split.append(
            Split(
                number, some(every, public), labels[public].tolist(), some(every, private), labels[private].tolist(),
                test=tested, test_labels=test["intent"].to_list(), sets=list(sets),
            )
        )  # fmt: skip
    return every_split


def corpus_lines() -> Texts:
    """Return sentences of the corpus, with embeddings."""
    with lzma.open(SHARED / "corpus/corpus.txt.xz", "rt", encoding="utf-8") as file:
        lines = [line.strip() for i, line in enumerate(file) if i % EVERY == 0]
    return embedded("corpus", [line for line in lines if 3 <= len(line.split()) <= 30][:CORPUS])


def main() -> None:
    """Write results/exemplars."""
    needed = [SHARED / name for name in ("data/snips.parquet", "data/sst2.parquet", "corpus/corpus.txt.xz")]
    if absent := [str(path) for path in needed if not path.is_file()]:
        print(f"not run: needs {', '.join(absent)}")
        return
    corpus = corpus_lines()
    reviews = pl.read_parquet(SHARED / "data/sst2.parquet").filter(split="train")["text"].unique(maintain_order=True)
    other = embedded("sst2", reviews.head(PUBLIC).to_list())
    rows: dict[tuple[str, str], list[dict[str, float]]] = {}
    for split in splits():
        for name, row in baselines(split).items():
            rows.setdefault((name, ""), []).append(row)
        for kind, public in ((OWN, split.public), ("SST-2", other), (LINES, some(corpus, range(PUBLIC)))):
            for name, make in TRIES.items() if kind != LINES else [("exemplars", plain)]:
                row = measured(make(public, split, corpus), split, public)
                rows.setdefault((name, kind), []).append(row)
                print(split.number, kind, name, {key: round(value, 3) for key, value in row.items()}, flush=True)
    write(page(rows).splitlines(), FOLDER)


def page(rows: dict[tuple[str, str], list[dict[str, float]]]) -> str:
    """Return the page: a table of means over splits with intervals, and a table of reached goals."""
    clean, few = (np.array([row["head"] for row in rows[name, ""]]) for name in ("clean texts", FEW))
    goals = (clean + few) / 2
    reached = [_reached(name, kind, of, goals) for (name, kind), of in rows.items() if kind]
    said, tries, learners = ((__doc__ or "").split("\n\n")[i] for i in (1, 2, 3))
    settings = (
        f"{SPLITS} splits: {PUBLIC:,} public and {PRIVATE:,} private texts, {SETS} sets of {SIZE}; {EXEMPLARS} "
        "exemplars. Means with 99 % intervals of Student's t over splits, on the file's test texts; two splits share "
        f"{PRIVATE / POOL:.0%} of the private texts, for which the variance is corrected (Nadeau and Bengio 2003). "
        "Losses are in nats, computed from the law; the share of the possible is 0 if the best public text of SNIPS is "
        "released for everybody, and 1 at the ceiling."
    )
    goal = (
        f"There are two goals. One is half of the gap between {2 * EXEMPLARS} labelled exemplars and clean texts, an "
        f"F1 of {goals.mean():.3f} by any classifier. The other is half of the possible cosine. The table shows in "
        f"how many of {SPLITS} splits each is reached."
    )
    parts = [
        "# Exemplars at one nat",
        "For researchers who want to know the utility under a claim for whole documents: exemplars and four variants.",
        f"Written by `python -m benchmarks.exemplars`; do not edit. {' '.join(said.split())}",
        tries,
        " ".join(learners.split()),
        f"{dated()} {settings}",
        "## Learnt and kept",
        markup(pl.DataFrame([_cells(name, kind, of) for (name, kind), of in rows.items()])).rstrip("\n"),
        "## Goals",
        goal,
        markup(pl.DataFrame(reached)).rstrip("\n"),
    ]
    return "\n\n".join(parts) + "\n"


def _cells(name: str, kind: str, splits: Sequence[dict[str, float]]) -> dict[str, str]:
    """Return the mean and interval of each figure; empty for missing figures."""
    figures = {
        key: mean_interval(of, shared=PRIVATE / POOL) if None not in of else ""
        for key in COLUMNS
        if (of := [row.get(key) for row in splits])
    }
    return {"try": name, "public texts": kind, **figures}


def _reached(name: str, kind: str, splits: Sequence[dict[str, float]], goals: Array) -> dict[str, Any]:
    learnt = {key: int((np.array([row[key] for row in splits]) >= goals).sum()) for key in COLUMNS[-4:]}
    shares = np.array([row["share of the possible"] for row in splits]) >= 0.5
    return {"try": name, "public texts": kind, **learnt, "cosine": int(shares.sum())}


if __name__ == "__main__":
    main()
