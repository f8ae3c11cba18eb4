"""The most recognisable rewrites of each public data set, at the budget that a reader would choose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from epsilometer.auditing.schemas import GUESSES
from epsilometer.auditing.trials.sampling import Trials
from epsilometer.auditing.worth.leakage import Identifier, identifiers
from epsilometer.report.cells.decision import chosen, decisions
from epsilometer.report.cells.results import TextResults
from epsilometer.report.rows import strongest
from epsilometer.report.section import Section
from epsilometer.report.table import Table
from epsilometer.report.wording import at_budget, listed
from epsilometer.text.words import words

SHOWN = 3  # texts per data set
_WORDS = 4  # words of a text that are named


def section(results: TextResults) -> Section | None:
    """Return a table per public data set; absent without any."""
    tables = [
        table
        for dataset, cell in chosen(decisions(results), results.unread).items()
        for table in of_dataset(results, dataset, cell)
    ]
    explained = (
        "The three texts that the strongest attack named with most confidence, before and after, and what the rewrite "
        "shares with the text and not with the other text of the trial. Texts are shown of public data sets alone."
    )
    return (
        Section("examples", "Worst examples", "The most recognisable rewrites", words=[explained], blocks=tables)
        if tables
        else None
    )


def of_dataset(results: TextResults, dataset: str, cell: tuple[str, float | None]) -> Iterator[Table]:
    """Yield the texts of a public data set that are recognised most confidently in the rewrites of one cell."""
    if dataset not in results.public:
        return
    mechanism, epsilon = cell
    trials, rewrites = results.trials(dataset), results.rewrites(dataset, mechanism, epsilon)
    texts, table = results.texts(dataset), results.audited(dataset)
    rows = []
    for trial in most_confident(results, dataset, cell, trials):
        source, others = trials.source[trial], [n for n in trials.candidates[trial] if n != trials.source[trial]]
        planted = identifiers(table[[int(source)]])[0]
        why = gave_away(texts[source], rewrites[trial], [texts[other] for other in others], planted)
        rows.append({"before": texts[source], "after": rewrites[trial] or "(empty)", "given away by": why})
    yield Table(f"{dataset} · {at_budget(mechanism, epsilon)}", "", rows, texts=True)


def most_confident(results: TextResults, dataset: str, cell: tuple[str, float | None], trials: Trials) -> list[int]:
    """Return the trials whose source the strongest attack on what is released names most confidently, one per text."""
    of_cell = {"dataset": dataset, "mechanism": cell[0], "epsilon": cell[1]}
    best = strongest(results.estimates).filter(*(pl.col(name).eq_missing(value) for name, value in of_cell.items()))
    guesses = results.table(f"data/guesses/{dataset}-{cell[0]}.parquet", GUESSES)
    of_attack = guesses.filter(pl.col("epsilon").eq_missing(cell[1]), attack=best["attack"].first())
    target = pl.DataFrame({"trial": range(len(trials.target)), "target": trials.target, "source": trials.source})
    right = of_attack.join(target, on="trial").filter(pl.col("guess") == pl.col("target"))
    ordered = right.sort("posterior", "score", "trial", descending=[True, True, False], nulls_last=True)
    chosen_trials: list[int] = (
        ordered.unique("source", keep="first", maintain_order=True)["trial"].head(SHOWN).to_list()
    )
    return chosen_trials


def gave_away(text: str, rewrite: str, others: Sequence[str], planted: Sequence[Identifier]) -> str:
    """Return the features that a rewrite shares with its source and with no other candidate.

    Identifiers, words, length.
    """
    there, elsewhere = words(rewrite), {word for other in others for word in words(other)}
    shared = [word for word in dict.fromkeys(words(text)) if word in there and word not in elsewhere]
    parts = [f"identifier {each.text}" for each in planted if each.survives(rewrite)][:1]
    parts += [f"words {listed(shared, _WORDS)}"] if shared else []
    same = len(there) == len(words(text)) and all(len(words(other)) != len(there) for other in others)
    parts += [f"length, {len(there)} words"] if same else []
    return "; ".join(parts) or "the law alone"
