"""The most recognisable rewrites of data sets that may be shown, at the budget a reader would choose.

People's texts are screened: texts with a name, number, address or offensive word are not shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import polars as pl

from epsilometer.auditing.schemas import GUESSES
from epsilometer.auditing.trials.sampling import Trials
from epsilometer.auditing.worth.leakage import Identifier, identifiers
from epsilometer.report.cells.first_screen import chosen, decisions
from epsilometer.report.cells.results import TextResults
from epsilometer.report.rows import strongest
from epsilometer.report.section import Section
from epsilometer.report.table import Table
from epsilometer.report.wording import at_budget, listed
from epsilometer.text.words import words

SHOWN = 3  # texts per data set
_WORDS = 4  # maximum number of listed words of a text
_TOGETHER = 10  # number of trials to screen at a time
_EXPOSED = re.compile(r"[\d@#]|https?:|www\.|\w\.(com|org|net|edu|gov)\b", re.IGNORECASE)
# Beginnings of swear words, and of words about sex, violence, drugs and self-harm.
_STRONG = (
    *("fuck", "shit", "bitch", "bastard", "asshole", "cunt", "dick", "piss", "slut", "whore", "damn", "crap", "nigg"),
    *("fag", "retard", "sex", "porn", "nude", "naked", "rape", "molest", "abus", "kill", "murder", "suicid", "stab"),
    *("cocaine", "heroin", "meth", "weed", "drunk"),
)


def section(results: TextResults) -> Section | None:
    """Return a table per data set whose examples may be shown; None without such a data set."""
    tables = [
        table
        for dataset, cell in chosen(decisions(results), results.unread).items()
        for table in of_dataset(results, dataset, cell)
    ]
    explained = (
        "The three texts that the strongest attack recognised most confidently, with their rewrites, and what each "
        "rewrite shares with its text but not with the other candidates. Only data sets whose texts may be shown are "
        "here."
    )
    return (
        Section("examples", "Worst examples", "The most recognisable rewrites", words=[explained], blocks=tables)
        if tables
        else None
    )


def of_dataset(results: TextResults, dataset: str, cell: tuple[str, float | None]) -> Iterator[Table]:
    """Yield the texts of a data set that are recognised most confidently in the rewrites of one cell."""
    if dataset not in results.examples:
        return
    mechanism, epsilon = cell
    trials, rewrites = results.trials(dataset), results.rewrites(dataset, mechanism, epsilon)
    texts, table = results.texts(dataset), results.audited(dataset)
    named, withheld = most_confident(results, dataset, cell, trials), 0
    if dataset not in results.public:
        named, withheld = screened(named, lambda trial: (texts[trials.source[trial]], rewrites[trial]))
    rows = []
    for trial in named[:SHOWN]:
        source, others = trials.source[trial], [n for n in trials.candidates[trial] if n != trials.source[trial]]
        planted = identifiers(table[[int(source)]])[0]
        why = gave_away(texts[source], rewrites[trial], [texts[other] for other in others], planted)
        rows.append({"before": texts[source], "after": rewrites[trial] or "(empty)", "given away by": why})
    caption = (
        f"{withheld} texts that were recognised more confidently are withheld: they may contain a name, number or "
        "offensive word."
    )
    if rows:
        yield Table(f"{dataset} · {at_budget(mechanism, epsilon)}", caption if withheld else "", rows, texts=True)


def most_confident(results: TextResults, dataset: str, cell: tuple[str, float | None], trials: Trials) -> list[int]:
    """Return the trials in which the strongest attack is right, the most confident first, one per text."""
    of_cell = {"dataset": dataset, "mechanism": cell[0], "epsilon": cell[1]}
    best = strongest(results.estimates).filter(*(pl.col(name).eq_missing(value) for name, value in of_cell.items()))
    guesses = results.table(f"data/guesses/{dataset}-{cell[0]}.parquet", GUESSES)
    of_attack = guesses.filter(pl.col("epsilon").eq_missing(cell[1]), attack=best["attack"].first())
    target = pl.DataFrame({"trial": range(len(trials.target)), "target": trials.target, "source": trials.source})
    right = of_attack.join(target, on="trial").filter(pl.col("guess") == pl.col("target"))
    ordered = right.sort("posterior", "score", "trial", descending=[True, True, False], nulls_last=True)
    named: list[int] = ordered.unique("source", keep="first", maintain_order=True)["trial"].to_list()
    return named


def screened(named: Sequence[int], shown: Callable[[int], Sequence[str]]) -> tuple[list[int], int]:
    """Return the first SHOWN trials whose texts may all be shown, and the number of trials withheld before the last.

    shown: a function from a trial to the texts that the table would show.
    """
    shown_first: list[int] = []
    for row in range(0, len(named), _TOGETHER):
        some = named[row : row + _TOGETHER]
        may = harmless([text for trial in some for text in shown(trial)])
        each = len(may) // len(some)
        shown_first += [trial for i, trial in enumerate(some) if all(may[i * each : (i + 1) * each])]
        if len(shown_first) >= SHOWN:
            break
    shown_first = shown_first[:SHOWN]
    return shown_first, named.index(shown_first[-1]) + 1 - len(shown_first) if shown_first else len(named)


def harmless(texts: Sequence[str]) -> list[bool]:
    """Return, for each text, True if it may be shown. Loads the tagger if a text passes the patterns.

    The embedded tagger finds names, as runs of proper nouns. Presidio's recognisers and a wider pattern (any digit,
    `#`, `@` or web address) find addresses and numbers. A name that the tagger takes for a common noun is missed, so
    screened texts are not anonymous.
    """
    plain = [not _EXPOSED.search(text) and not any(word.startswith(_STRONG) for word in words(text)) for text in texts]
    left = [text for text, may in zip(texts, plain, strict=True) if may]
    if not left:
        return plain
    from epsilometer.mechanisms.anonymisers.presidio import Presidio  # its libraries load slowly

    matches = iter(Presidio().matches(left))
    return [may and not next(matches) for may in plain]


def gave_away(text: str, rewrite: str, others: Sequence[str], planted: Sequence[Identifier]) -> str:
    """Return the identifier, words and length that a rewrite shares with its source and with no other candidate."""
    there, elsewhere = words(rewrite), {word for other in others for word in words(other)}
    shared = [word for word in dict.fromkeys(words(text)) if word in there and word not in elsewhere]
    parts = [f"identifier {each.text}" for each in planted if each.survives(rewrite)][:1]
    parts += [f"words {listed(shared, _WORDS)}"] if shared else []
    same = len(there) == len(words(text)) and all(len(words(other)) != len(there) for other in others)
    parts += [f"length, {len(there)} words"] if same else []
    return "; ".join(parts) or "only the mechanism's law"
