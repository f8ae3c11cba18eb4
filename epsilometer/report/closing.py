"""The closing sections of the page: how to read it, and the settings and data sets of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from epsilometer.project.params import ProjectParams
from epsilometer.report.section import Section
from epsilometer.report.table import Table
from epsilometer.report.wording import confidence, guesses


def reading(alpha: float) -> Section:
    """Return the meaning of a loss, and its limits. alpha: error probability of each sampled loss."""
    words = [
        "**One scale for risk**: the right guesses of 100 between two texts, by an adversary who sees the rewrite. 50 "
        "is chance, 100 is certain. Figures and tables also have the loss in nats, the unit of the field: "
        f"0.1 nats are {guesses(0.1):g}, 1 nat {guesses(1.0):g}, 3 nats {guesses(3.0):g} and 6 nats "
        f"{guesses(6.0):g} of 100 guesses. Among more than two texts a loss of L nats multiplies the odds by exp(L).",
        "**A sampled loss is a lower bound**, right with confidence "
        f"{confidence(alpha)} for each number on its own. Its upper bound is for this attack; a "
        "better attack may exceed it. **A loss of 0 means that evidence is lacking**, never that a text is private.",
        "**The ceiling** is the largest loss that this number of trials can prove, with every guess right. If a loss "
        "is near it, the true loss may be larger; more trials show that, or the exact loss if the mechanism's law is "
        "known. If the ceiling is 0, the trials are too few to prove any loss, and the loss is not testable.",
        "**Length leaks.** A mechanism that rewrites word by word does not change the number of words, so an adversary "
        "tells texts of different lengths apart at any ε. Data sets whose candidates have equal lengths show what else "
        "leaks.",
        "**An average, not the worst case.** The loss is an average over sampled pairs of texts. The loss of the worst "
        "pair may be larger, never smaller. At a low temperature λ only few texts are distractors; the table of data "
        "sets counts them. At λ = 0 all texts are equally likely.",
        "**Values of ε differ in kind**: per word, per text, per unit of distance. Compare measured losses, not ε.",
    ]
    return Section("reading", "Reading", "How to read this page", words, folded=True)


def settings(params: ProjectParams, own: Mapping[str, str], datasets: Sequence[Mapping[str, Any]] = ()) -> Section:
    """Return the settings. own: settings of a study, by name; datasets: the study's rows on its data sets."""
    audit = params.audit
    shown = {**own, "alpha": f"{audit.alpha:g}", "seed": f"{audit.seed}", "round": f"{audit.round}"}
    sources = [
        {"data set": name, "source": dataset.source, "public": "yes" if dataset.public else "no"}
        for name, dataset in params.datasets.items()
    ]
    return Section(
        id="settings",
        link="Settings",
        heading="Settings",
        words=params.notes,
        blocks=[
            Table("", "", [shown], page_only=True),
            Table("Data sets", "", datasets or sources, page_only=True),
        ],
    )
