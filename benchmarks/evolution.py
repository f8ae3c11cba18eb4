"""Private evolution compared with one round of votes, with public texts of the same kind and of another kind.

Private texts of SNIPS, one per person, are released at a pure epsilon of 1 (neighbours: replaced). The mechanisms are
`vote_histogram`, and `private_evolution` with 2 and 3 rounds, where the embedded masked language model writes the
variations. Public texts are 2,000 of SNIPS (no domain shift) or 2,000 messages that people wrote to each other (domain
shift, chitchat-dataset). Each seed has its own public, private and test texts, and its own noise. Figures are macro F1
of a head on 800 clean texts. Differences are between releases of the same seed, so an interval above 0 would show that
rounds help.

usage: python -m benchmarks.evolution     reads snips.parquet of ../shared/data, and chitchat-dataset; writes
       results/evolution
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.release import DATA, MESSAGES, PUBLIC, Data, Draw, Embedded
from benchmarks.shared.pages import RESULTS, head, table, write
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
NUMBERS, ROUNDS, EPSILON = (1000, 3000), (2, 3), 1.0
SAME, OTHER = "SNIPS", "messages (domain shift)"

Array = NDArray[np.float64]
_ABOUT = "Variations: the embedded masked language model, about half of the words of each winner."
_SAID = (
    "Macro F1 of a head on 800 clean texts, means of 10 seeds with 99 % intervals, at a pure epsilon of 1. `over one "
    "round`: against `vote_histogram` on the same seeds."
)
_SPEED = "What a release takes once the public and private texts are embedded, in seconds of processor time."


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
    scores: dict[tuple[str, int, int], list[float]] = {}
    seconds: dict[int, list[float]] = {}
    for turn in range(SEEDS):
        draw = Draw(data, FIRST + turn, data.second)
        others = PublicTexts.of(messages[turn * PUBLIC : (turn + 1) * PUBLIC], encode, 0)
        same = PublicTexts.of(draw.public.texts, encode, 0)
        for kind, public in ((SAME, same), (OTHER, others)):
            for n in NUMBERS:
                for rounds, f1, took in _released(draw, public, n, encode):
                    scores.setdefault((kind, n, rounds), []).append(f1)
                    seconds.setdefault(rounds, []).append(took)
        print(turn, f"{time.process_time():.0f} s", flush=True)
    lines = head("Private evolution beside one round of votes", "evolution", _ABOUT)
    columns = "| over one round | public texts | private texts | rounds | F1 |"
    lines += table("What a head learns", _SAID, columns, _rows(scores))
    took = [f"| {rounds} | {mean_interval(of)} |" for rounds, of in seconds.items()]
    lines += table("What a release takes", _SPEED, "| rounds | seconds |", took)
    write(lines, RESULTS / "evolution")


def _released(draw: Draw, public: PublicTexts, n: int, encode: Encoding) -> Iterator[tuple[int, float, float]]:
    """Yield, for each number of rounds, that number, the F1 after a release, and the seconds of the release."""
    corpus, labels = draw.corpus(draw.private[:n]), draw.data.labels
    tests = encode(draw.tests)
    for rounds in (1, *ROUNDS):
        more = {} if rounds == 1 else {"rounds": rounds}
        kind = VoteHistogram if rounds == 1 else PrivateEvolution
        mechanism = kind(resource=tuple(public.texts), labels=labels, **more).on(public)
        public.nearest(draw.private[:1], mechanism.number(n, EPSILON))  # clusters before the time is measured
        start = time.process_time()
        release = mechanism.release(corpus, EPSILON, Noise.named(1, "evolution", draw.seed, n))
        took = time.process_time() - start
        fitted = classifier(mechanism.vectors_of(release.texts), release)
        yield rounds, learnt(fitted, tests, draw.data.labels_of(draw.tests)) or 0.0, took


def _rows(scores: dict[tuple[str, int, int], list[float]]) -> Iterator[str]:
    for (kind, n, rounds), f1 in scores.items():
        gain = "" if rounds == 1 else mean_interval(np.subtract(f1, scores[kind, n, 1]))
        yield f"| {gain} | {kind} | {n:,} | {rounds} | {mean_interval(f1)} |"


if __name__ == "__main__":
    main()
