"""The guide to the report."""

from __future__ import annotations

from epsilometer.report.cells.results import TextResults
from epsilometer.report.section import Section
from epsilometer.report.wording import confidence, guesses


def section(results: TextResults) -> Section:
    """Return the meaning of a loss, and its limits."""
    words = [
        "**One scale for risk**: the right guesses of 100 between two texts, by an adversary who sees the rewrite. 50 "
        "is chance, 100 is certain. Figures and tables also have the loss in nats, the unit of the field: "
        f"0.1 nats are {guesses(0.1):g}, 1 nat {guesses(1.0):g}, 3 nats {guesses(3.0):g} and 6 nats "
        f"{guesses(6.0):g} of 100 guesses. Among more than two texts a loss of L nats multiplies the odds by exp(L).",
        "**A sampled loss is a lower bound**, right with confidence "
        f"{confidence(results.params.audit.alpha)} for each number on its own. Its upper bound is for this attack; a "
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
