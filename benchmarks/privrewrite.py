"""The phases of PrivRewrite: similarity to the text after each, the gap to the best candidate, and the time by k.

    Phases   table 1 of the paper (Applied Sciences 15(22) 11930): the cosine of a text's sentence embedding with that
             of the sanitised text, with those of the remaining candidates (their mean), and with that of one sampled
             release; and how many of the k candidates remain.
    Variants figure 2: `full` and `naive` choose among the same candidates; `em` and `wp` rewrite at the whole epsilon.
    Choice   section 4.3.2: with probability 1 - beta the utility of the release is below that of the best of the m
             candidates by at most 2 Delta (ln m + ln(1 / beta)) / epsilon_2. The columns are the expected gap by the
             law of the choice, the bound at beta = .05, and the probability that the gap exceeds the bound; they are
             means over texts with a candidate.
    Time     figure 6b: processor time for each text, by a provider with an empty cache.
    Settings figures 3 to 5 and 6a: beta, tau, the split of the budget and k are varied one at a time, with the defaults
             for the others. The column `less the default` is the difference of the cosines.

Where a candidate is chosen, the cosine of text and release is its expectation by the law of the choice. Means have 99 %
intervals of Student's t over texts. Differences are between values on the same texts.

The provider is the embedded encoder-decoder; the settings are those of profile privrewrite_medquad, except k = 10.

The largest epsilon, which leaves some words unchanged, is measured on all texts. The other epsilons, and other values
of split and k, which need new candidates, are measured on a few texts.

usage: python -m benchmarks.privrewrite FILE [--reviews FILE] [--texts N] [--few N]
       FILE: Parquet with the columns `text` and `split`; for reviews, only figure 2 is made, at the largest epsilon
"""

from __future__ import annotations

import math
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.shared.pages import RESULTS, head, table, write
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.selection.privrewrite import PrivRewrite
from epsilometer.mechanisms.words.mvc import MVC
from epsilometer.models.embedded import seq2seq
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import ENCODER, locate
from epsilometer.models.provider import LocalProvider
from epsilometer.report.wording import mean_interval

Array = NDArray[np.float64]

FOLDER = RESULTS / "privrewrite_phases"
EPSILONS = [2, 40]
COUNTS = [10, 20, 30, 40, 50]
K, LONGEST, BETA = 10, 32, 0.05
TIMED = 3  # number of texts whose time is measured
SETTINGS: dict[str, Sequence[float]] = {
    "beta": [0.0, 0.5, 1.0, 2.0, 4.0],
    "tau": [0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
    "split": [0.1, 0.3, 0.5, 0.7, 0.9],
    "k": COUNTS,
}
ASK = ("split", "k")  # settings that need new candidates
VARIED = "| setting | value | cosine | less the default | candidates left | texts |"
PHASES = "| epsilon | sanitised | candidates | released | candidates left | texts |"
VARIANTS = "| epsilon | full | naive | em | wp | full less em | full less naive | wp less em | texts |"
CHOICE = "| variant, epsilon | best utility | mean gap | bound | beyond the bound | texts |"


class Vectors:
    """Sentence embeddings; a text is encoded once."""

    def __init__(self) -> None:
        self._encoder, self._by_text = Encoder(ENCODER), dict[str, Array]()

    def encode(self, texts: Sequence[str]) -> Array:
        """Unit vectors [texts, dimensions]."""
        new = [text for text in dict.fromkeys(texts) if text not in self._by_text]
        self._by_text.update(zip(new, self._encoder.encode(new), strict=True))
        return np.array([self._by_text[text] for text in texts]).reshape(len(texts), self._encoder.dimensions)

    def cosines(self, texts: Sequence[str], others: Sequence[str]) -> Array:
        """Return [n], the cosine of each text with the other text at the same index."""
        return np.einsum("ij,ij->i", self.encode(texts), self.encode(others))


def built(vectors: Vectors, **settings: Any) -> PrivRewrite:
    """Return the mechanism with these settings, which prunes by these vectors."""
    mechanism = PrivRewrite(resource=seq2seq(), max_new_tokens=LONGEST, **settings)
    vars(mechanism)["_sentences"] = vectors
    return mechanism


def sanitised(built: PrivRewrite, texts: Sequence[str], epsilon: float) -> Rewrites:
    """Return the sanitised texts, which the provider reads, at a total of epsilon."""
    return built.sanitiser.rewrite(texts, built.budgets(epsilon)[0], Noise.named(len(texts), "phases", epsilon))


def by_epsilon(texts: Sequence[str], few: int) -> Iterator[tuple[float, Sequence[str]]]:
    """Yield each epsilon with the texts that it is measured on."""
    yield from ((epsilon, texts[:few]) for epsilon in EPSILONS[:-1])
    yield EPSILONS[-1], texts


def phases(vectors: Vectors, every: Sequence[str], few: int) -> Iterator[str]:
    """Yield a row for each epsilon: the cosines to the texts, and how many candidates remain."""
    full = built(vectors, k=K)
    for epsilon, texts in by_epsilon(every, few):
        shown = sanitised(full, texts, epsilon).texts
        of_shown = full._pools(shown)
        pools = [of_shown[text].texts for text in shown]
        noise = Noise.named(len(texts), "phases", epsilon)  # the same sanitised texts
        written = [
            float(vectors.cosines([text] * len(pool), pool).mean())
            for text, pool in zip(texts, pools, strict=True)
            if pool
        ]
        cosines = (
            vectors.cosines(texts, shown),
            np.array(written),
            vectors.cosines(texts, full.rewrite(texts, epsilon, noise).texts),
        )
        left = np.mean([len(pool) for pool in pools])
        yield f"| {epsilon} | " + " | ".join(map(mean_interval, cosines)) + f" | {left:.2f} of {K} | {len(texts)} |"


def variants(vectors: Vectors, texts: Sequence[str], epsilon: float) -> str:
    """Return the row of an epsilon: cosines of text and release, and their differences."""
    noise = Noise.named(len(texts), "variants", epsilon)
    full, naive = (
        expected(built(vectors, k=K, variant=variant), vectors, texts, epsilon)[0] for variant in ("full", "naive")
    )
    em = vectors.cosines(texts, built(vectors).sanitiser.rewrite(texts, epsilon, noise).texts)
    wp = vectors.cosines(texts, MVC(resource=locate(ENCODER)).rewrite(texts, epsilon, noise).texts)
    every = full, naive, em, wp, full - em, full - naive, wp - em
    return f"| {epsilon:g} | " + " | ".join(map(mean_interval, every)) + f" | {len(texts)} |"


def choice(built: PrivRewrite, texts: Sequence[str], epsilon: float) -> tuple[float, float, float, float]:
    """Return means over texts: best utility, gap, its bound, and the probability that the gap exceeds the bound."""
    shown = sanitised(built, texts, epsilon).texts
    pools = built._pools(shown)
    averages, lengths = built._averages(texts)
    limits = 2 * built.sensitivity(lengths) / built.budgets(epsilon)[1]
    rows = []
    for i, text in enumerate(shown):
        if (pool := pools[text]).texts:
            here = averages[i : i + 1]
            law = np.exp(built._log_law(here, lengths[i : i + 1], pool, epsilon)[0])
            utility = built.utility(here, pool.averages)[0]
            gap, bound = utility.max() - utility, limits[i] * (math.log(len(utility)) - math.log(BETA))
            rows.append((utility.max(), law @ gap, bound, law[gap > bound].sum()))
    best, mean, bound, beyond = np.mean(rows, axis=0)
    return float(best), float(mean), float(bound), float(beyond)


def seconds(texts: Sequence[str], shown: Sequence[str], count: int) -> float:
    """Return the processor time for each text, for count candidates. texts: others, to load the model beforehand."""
    provider = LocalProvider(seq2seq(), None, PrivRewrite(resource=seq2seq()).temperature, LONGEST)
    provider.candidates(texts[:1], 1)
    begun = time.process_time()
    provider.candidates(shown, count)
    return (time.process_time() - begun) / len(shown)


def expected(
    built: PrivRewrite, vectors: Vectors, texts: Sequence[str], epsilon: float
) -> tuple[Array, NDArray[np.int64]]:
    """Return for each text the expected cosine to its release, and how many candidates remain."""
    shown, sources = sanitised(built, texts, epsilon).texts, vectors.encode(texts)
    pools = built._pools(shown)
    averages, lengths = built._averages(texts)
    cosines, left = np.empty(len(texts)), np.array([len(pools[text].texts) for text in shown])
    for i, text in enumerate(shown):
        pool, row = pools[text], slice(i, i + 1)
        law = np.exp(built._log_law(averages[row], lengths[row], pool, epsilon)[0]) if pool.texts else np.ones(1)
        cosines[i] = law @ (vectors.encode(pool.texts or [text]) @ sources[i])
    return cosines, left


def varied(vectors: Vectors, texts: Sequence[str], few: int, epsilon: float) -> Iterator[str]:
    """Yield a row for each setting and value. few: the number of texts for settings that need new candidates."""
    default = built(vectors)
    usual, _ = expected(default, vectors, texts, epsilon)
    for setting, values in SETTINGS.items():
        some = texts[:few] if setting in ASK else texts
        for value in values:
            cosines, left = expected(built(vectors, **{setting: value}), vectors, some, epsilon)
            change = mean_interval(cosines - usual[: len(some)], ".2g")
            yield f"| {setting} | {value:g} | {cosines.mean():.3f} | {change} | {left.mean():.2f} | {len(some)} |"


def chosen(vectors: Vectors, every: Sequence[str], few: int) -> Iterator[str]:
    """Yield a row with the results of `choice` for each variant and epsilon."""
    for variant in ("full", "naive"):
        for epsilon, texts in by_epsilon(every, few):
            best, gap, bound, beyond = choice(built(vectors, k=K, variant=variant), texts, epsilon)
            yield f"| {variant}, {epsilon} | {best:.3f} | {gap:.4f} | {bound:.4f} | {beyond:.4f} | {len(texts)} |"


def tables_of(vectors: Vectors, name: str, texts: Sequence[str], few: int) -> Iterator[str]:
    """Yield the lines of all tables of a file."""
    last = EPSILONS[-1]
    shown = sanitised(built(vectors), texts[:TIMED], last).texts
    times = (f"| {count} | {seconds(texts, shown, count):.2f} |" for count in COUNTS)
    yield from table("Time by k", f"Of {TIMED} texts at {last}.", "| k | seconds a text |", times)
    yield from table("What each phase keeps", "Cosines to the text.", PHASES, phases(vectors, texts, few))
    rows = (variants(vectors, some, epsilon) for epsilon, some in by_epsilon(texts, few))
    yield from table(f"Variants on {name}", "Cosines of text and release.", VARIANTS, rows)
    yield from table("How near the choice comes to the best candidate", "", CHOICE, chosen(vectors, texts, few))
    said = f"At {last}; by default beta 1, tau .8, split .5, k 10."
    yield from table("One setting varied", said, VARIED, varied(vectors, texts, few, last))


def read(file: Path, count: int) -> list[str]:
    """Return the first distinct training texts."""
    train = pl.read_parquet(file).filter(split="train")["text"]
    texts: list[str] = train.unique(maintain_order=True).head(count).to_list()
    return texts


def main(arguments: Sequence[str]) -> None:
    """Write results/privrewrite_phases."""
    parser = ArgumentParser(prog="python -m benchmarks.privrewrite", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("--reviews", metavar="FILE", type=Path, help="other texts, of which twice as many are read")
    parser.add_argument("--texts", metavar="N", type=int, default=20)
    parser.add_argument("--few", metavar="N", type=int, default=20, help="texts at other epsilons, splits and k")
    options = parser.parse_args(arguments)
    texts, vectors = read(options.file, options.texts), Vectors()
    words = float(np.mean([len(text.split()) for text in texts]))
    about = (
        f"{len(texts):,} texts of {options.file.stem}, {words:.0f} words on average; k = {K}, at most {LONGEST} tokens "
        "a candidate, tau .8, beta 1, half of the budget for each phase. The paper has 500 pairs and 1,000 reviews; "
        "`texts` says how many a row has."
    )
    lines = head("PrivRewrite from within", "privrewrite", about)
    parts = [tables_of(vectors, options.file.stem, texts, options.few)]
    if options.reviews:
        reviews = read(options.reviews, 2 * options.texts)
        row = (variants(vectors, reviews, epsilon) for epsilon in EPSILONS[-1:])
        said = "Cosines of text and release."
        parts.append(table(f"Variants on {options.reviews.stem}", said, VARIANTS, row))
    for part in parts:
        for line in part:
            lines.append(line)
            print(line, flush=True)
            write(lines, FOLDER)  # the rows take hours; those that are written remain if the run is stopped


if __name__ == "__main__":
    main(sys.argv[1:])
