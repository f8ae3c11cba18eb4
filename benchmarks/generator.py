"""A generator trained with DP-SGD: what its texts teach, compared with public texts alone.

`private_generator` adapts the embedded language model to 2,000 unlabelled public texts of SNIPS. Then it trains a
prompt for each label, or low-rank adapters, on 1,000 private texts, one per person, under (epsilon, 1e-5) by
replacement. It writes 400 texts with labels. The adapters' rank and rate of learning were chosen on the half of SNIPS
that is not used here, with one seed at epsilon 4. Figures are macro F1 of a head on 800 clean texts. Each seed has its
own public, private and test texts, and its own noise. Compared, for the same seeds: the same generator without private
texts, whose prompts are the labels' names; `vote_histogram` at the same epsilon, which is pure; and 64 public texts
labelled by hand.

usage: python -m benchmarks.generator     reads snips.parquet of ../shared/data; writes results/generator
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.evolution import Encoding
from benchmarks.release import DATA, Data, Draw
from benchmarks.shared.pages import RESULTS, head, table, write
from epsilometer.auditing.corpora.checks import head as classifier
from epsilometer.auditing.corpora.checks import learnt
from epsilometer.core.corpus_mechanism import Release
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.private_generator import PrivateGenerator
from epsilometer.report.wording import mean_interval

SEEDS, FIRST = 3, 3000  # no other benchmark uses these seeds
PRIVATE, WRITTEN, EPSILONS = 1000, 400, (1.0, 4.0)
BY_HAND, NAMES = "64 public texts, labelled by hand", "the generator, by names of labels"
VOTES = "noisy votes"
TRAINED: dict[str, dict[str, Any]] = {
    "the generator, with trained prompts": {},
    "the generator, with trained adapters": {"rank": 8, "rate": 0.01},
}

_ABOUT = "One thread. The generator writes with the embedded model of 5 million weights."
_SAID = (
    "Macro F1 of a head on 800 clean texts, means of 3 seeds with 99 % intervals. `over public texts`: against the 64 "
    "texts labelled by hand, `over names`: against the generator without private texts, on the same seeds."
)
_SPEED = (
    "Seconds of processor time (training: on 1,000 private texts), and tokens written per second of processor time, "
    "with 99 % intervals."
)


def main() -> None:
    """Write results/generator."""
    Data(DATA / "snips.parquet", "intent")  # embeds the texts once
    scores: dict[tuple[str, str], list[float]] = {}
    spent: dict[str, list[float]] = {}
    with ProcessPoolExecutor(SEEDS, get_context("spawn")) as pool:
        for own, took in pool.map(of_seed, range(FIRST, FIRST + SEEDS)):
            for of, f1 in own.items():
                scores.setdefault(of, []).append(f1)
            for part, figure in took:
                spent.setdefault(part, []).append(figure)
    lines = head("A generator trained with DP-SGD", "generator", _ABOUT)
    columns = "| over public texts | over names | released | epsilon | F1 |"
    lines += table("What a head learns", _SAID, columns, _rows(scores))
    parts = [f"| {part} | {mean_interval(figures, '.0f')} |" for part, figures in spent.items()]
    lines += table("What it takes", _SPEED, "| part | figure |", parts)
    write(lines, RESULTS / "generator")


def of_seed(seed: int, writer: Path | None = None) -> tuple[dict[tuple[str, str], float], list[tuple[str, float]]]:
    """Return F1 by what is released and its epsilon, and what each part took. writer: None for the embedded model."""
    data = Data(DATA / "snips.parquet", "intent")
    encode, draw = Encoding([data.encode]), Draw(data, seed, data.second)
    scores: dict[tuple[str, str], float] = {}
    spent: list[tuple[str, float]] = []
    for released, epsilon, release in _releases(draw, spent, writer):
        fitted = classifier(encode(release.texts), release)
        scores[released, epsilon] = learnt(fitted, data.encode(draw.tests), data.labels_of(draw.tests)) or 0.0
        print(seed, released, epsilon, f"{scores[released, epsilon]:.3f}", list(release.texts[:7]), flush=True)
    return scores, spent


def _releases(draw: Draw, spent: list[tuple[str, float]], writer: Path | None) -> Iterator[tuple[str, str, Release]]:
    """Yield what is released, its epsilon, and the release; and add what it took."""
    yield BY_HAND, "", draw.few_labelled()
    corpus, labels = draw.corpus(draw.private[:PRIVATE]), draw.data.labels
    public: dict[str, Any] = {"resource": tuple(draw.public.texts), "labels": labels, "writer": writer}
    mechanisms = {
        name: PrivateGenerator(**public, rows=WRITTEN, seed=draw.seed, **settings) for name, settings in TRAINED.items()
    }
    first, *others = mechanisms.values()
    start = time.process_time()
    language = first.language
    for other in others:
        vars(other)["language"] = language
    spent.append(("seconds to adapt to 2,000 public texts", time.process_time() - start))
    generator = Noise.named(1, "generator", draw.seed).generator(0)
    yield NAMES, "", first.written(first.first(), generator)
    for epsilon in EPSILONS:
        noise = Noise.named(1, "generator", draw.seed, epsilon)
        yield VOTES, f"{epsilon:g}", draw.mechanism().release(corpus, epsilon, noise)
        for name, mechanism in mechanisms.items():
            start = time.process_time()
            vector = mechanism.trained(corpus, epsilon, noise.generator(0))
            trained = time.process_time()
            release = mechanism.written(vector, generator)
            tokens = sum(map(len, language.tokens(release.texts)))
            spent.append((f"seconds to train: {name}", trained - start))
            spent.append(("tokens written per second", tokens / (time.process_time() - trained)))
            yield name, f"{epsilon:g}", release


def _rows(scores: dict[tuple[str, str], list[float]]) -> Iterator[str]:
    for (released, epsilon), f1 in scores.items():
        gains = [
            "" if (other, "") == (released, epsilon) else mean_interval(np.subtract(f1, scores[other, ""]))
            for other in (BY_HAND, NAMES)
        ]
        yield f"| {gains[0]} | {gains[1]} | {released} | {epsilon} | {mean_interval(f1)} |"


if __name__ == "__main__":
    main()
