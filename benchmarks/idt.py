"""Speed of IDT compared with the paper's loop: one text and one candidate at a time, tags, then both classifiers.

Texts are generated reviews; auxiliaries and victims are linear classifiers, trained on different reviews. Networks and
word vectors are loaded before the measurement. Both are timed on the same texts, since the loop takes four times as
long for twice as many words. RS_all is over all texts that the victims classify right; for the loop it is over the
timed texts only, with an exact 99 % interval. `processor` is the ratio of processor times, which other programs disturb
less.

usage: python -m benchmarks.idt [--texts N] [--plain N] [-k K] [-q Q]
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from benchmarks.shared.clock import timed
from epsilometer.auditing.estimation.successes import clopper_pearson
from epsilometer.core.guarantees import NO_BUDGET
from epsilometer.core.randomness import Noise
from epsilometer.corpora.synthetic import generate
from epsilometer.mechanisms.anonymisers.idt import IDT
from epsilometer.mechanisms.anonymisers.shared.attribution import Attribution, attributions
from epsilometer.mechanisms.anonymisers.shared.auxiliaries import Auxiliaries, Plan, make
from epsilometer.mechanisms.anonymisers.shared.neighbours import NearestWords
from epsilometer.mechanisms.anonymisers.shared.preparing import influential
from epsilometer.mechanisms.anonymisers.shared.word_edits import edited, in_case_of, occurrences, spans
from epsilometer.mechanisms.words.shared.embedded import vectors
from epsilometer.models.classifier import Examples, FineTuning
from epsilometer.models.classifiers.linear import Linear
from epsilometer.models.locate import ENCODER
from epsilometer.models.tagging import Tagger
from epsilometer.text.vectors import WordVectors

TRAINED_ON, SEED = 3000, 1
PRIVATE, USEFUL = "gender", "rating"
ALPHA = 0.01


class Loop:
    """Algorithm 1 as printed in the paper, which processes one text after another."""

    def __init__(self, folder: Path, k: int, q: int) -> None:
        auxiliaries = Auxiliaries(folder)
        self.private, self.useful = (auxiliaries.classifiers[label]["linear"] for label in (PRIVATE, USEFUL))
        self.neighbours, self.tagger, self.k, self.q = NearestWords(auxiliaries.vectors), Tagger(), k, q

    def tags(self, text: str) -> list[tuple[str, ...]]:
        """Return the tags of the whole text, by sentence."""
        cut = spans(text)
        return self.tagger.upos([[cut.tokens[i] for i in places] for places in cut.sentences])

    def rewrite(self, text: str, rng: np.random.Generator) -> str:
        """Return the candidate that deceives only the privacy auxiliary, and this most confidently; else the text."""
        scores = [
            attributions(classifier, [text], Attribution()).scores[0] for classifier in (self.private, self.useful)
        ]
        words = [word for word in influential(scores[:1], scores[1:]) if self.neighbours.of([word], self.k)[0]]
        own, other = (classifier.probabilities([text])[0].argmax() for classifier in (self.private, self.useful))
        best, surest, plain = text, 0.0, self.tags(text)
        for size in range(1, len(words) + 1):
            for _ in range(self.q):
                now = text
                for word in rng.permutation(words)[:size].tolist():
                    new = str(rng.choice(self.neighbours.of([word], self.k)[0]))
                    at = spans(now)
                    tried = edited(at, {i: in_case_of(new, at.tokens[i]) for i in occurrences(at, word)})
                    if self.tags(tried) != plain:
                        continue
                    now = tried
                    private, useful = (classifier.probabilities([now])[0] for classifier in (self.private, self.useful))
                    wrong = float(np.delete(private, own).max())
                    if private.argmax() != own and useful.argmax() == other and wrong > surest:
                        best, surest = now, wrong
        return best


def successes(victims: Sequence[Linear], test: pl.DataFrame, rewrites: Sequence[str]) -> tuple[int, int]:
    """Return the number of rewrites that hide the private label and preserve the useful one, and of all texts counted.

    Counted are the texts that the victims classify right.
    """
    test = test.head(len(rewrites))
    said = [np.array(victim.classes)[victim.probabilities(test["text"].to_list()).argmax(1)] for victim in victims]
    after = [np.array(victim.classes)[victim.probabilities(list(rewrites)).argmax(1)] for victim in victims]
    private, useful = test[PRIVATE].to_numpy(), test[USEFUL].to_numpy()
    right = (said[0] == private) & (said[1] == useful)
    return int((right & (after[0] != private) & (after[1] == useful)).sum()), int(right.sum())


def main() -> None:
    """Print a line for the loop, and a table with one row per search."""
    parser = ArgumentParser()
    parser.add_argument("--texts", type=int, default=128)
    parser.add_argument("--plain", type=int, default=24)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("-q", type=int, default=10)
    options = parser.parse_args()
    reviews = generate("reviews", 2 * TRAINED_ON + options.texts, SEED).with_row_index("id")
    reviews = reviews.with_columns(pl.col("id", USEFUL).cast(pl.String))
    victims_part, test = reviews.slice(TRAINED_ON, TRAINED_ON), reviews.tail(options.texts)
    texts = test["text"].to_list()
    victims = [Linear.fit(Examples(victims_part["text"], victims_part[label])) for label in (PRIVATE, USEFUL)]
    rows = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        plan = Plan("reviews", [PRIVATE], [USEFUL], ["linear"], FineTuning(ENCODER))
        make(folder, reviews.head(TRAINED_ON), plan, WordVectors.load(vectors()))
        loop = Loop(folder, options.k, options.q)
        noise = Noise.named(len(texts), SEED, "benchmark")
        loop.rewrite(texts[-1], noise.generator(0))
        few = texts[: options.plain]
        plain, *loop_seconds = timed(lambda: [loop.rewrite(text, noise.generator(i)) for i, text in enumerate(few)])
        count, of = successes(victims, test, plain)
        low, high = clopper_pearson(count, of, ALPHA)
        shown = f"RS_all {count} of {of} ({low:.3f} to {high:.3f})"
        print(f"the loop: {len(few)} texts, {len(few) / loop_seconds[0]:.3f} a second, {shown}", flush=True)
        ways = {"as_published": {"as_published": True}, "fewest": {}}
        for way, settings in ways.items():
            mechanism = IDT(resource=folder, k=options.k, q=options.q, unsaved="original", **settings)
            mechanism.rewrite(texts[-1:], NO_BUDGET, noise[:1])
            _, *seconds = timed(lambda mechanism=mechanism: mechanism.rewrite(few, NO_BUDGET, noise[: len(few)]).texts)
            wall, processor = (theirs / ours for theirs, ours in zip(loop_seconds, seconds, strict=True))
            count, of = successes(victims, test, mechanism.rewrite(texts, NO_BUDGET, noise).texts)
            rows.append(
                {
                    "search": way,
                    "texts": len(few),
                    "texts a second": round(len(few) / seconds[0], 2),
                    "ratio": round(wall, 1),
                    "processor": round(processor, 1),
                    "RS_all": f"{count} of {of}",
                    "inside": low <= count / of <= high,
                }
            )
    with pl.Config(tbl_cols=-1, tbl_width_chars=160):
        print(pl.DataFrame(rows))


if __name__ == "__main__":
    main()
