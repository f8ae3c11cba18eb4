"""The guide to the report."""

from __future__ import annotations

from epsilometer.report.cells.results import TextResults
from epsilometer.report.section import Section
from epsilometer.report.wording import confidence, guesses


def section(results: TextResults) -> Section:
    """Return the meaning of a loss, and its limits."""
    words = [
        "**One scale for risk**: how many of 100 guesses between two texts are right, for an adversary who sees the "
        "rewrite. 50 is chance, 100 is certain. Figures and tables have the same in nats, the unit of the field: "
        f"0.1 nats are {guesses(0.1):g}, 1 nat {guesses(1.0):g}, 3 nats {guesses(3.0):g} and 6 nats "
        f"{guesses(6.0):g} of 100 guesses. Among more than two texts a loss of L nats multiplies the odds by exp(L).",
        "**A sampled loss is a lower bound**, right with confidence "
        f"{confidence(results.params.audit.alpha)} for each number on its own. The upper end bounds this attack; a "
        "better attack may exceed it. **A loss of 0 means that evidence is lacking**, never that a text is private.",
        "**The ceiling** is the largest loss that this number of trials can prove: every guess is right. If a loss is "
        "near it, the true loss may be larger; more trials can tell, or the exact loss where a mechanism's law is "
        "known. At a ceiling of 0 the trials are too few to prove anything, and the loss is not testable.",
        "**Length leaks.** A mechanism that works word by word keeps the number of words, so an adversary tells texts "
        "of different lengths apart at any ε, however small. Data sets whose candidates have equal lengths show what "
        "leaks beyond that.",
        "**An average, not the worst case.** The loss is measured over pairs of texts that were drawn; for the worst "
        "pair it can be larger, never smaller. At a low temperature λ few texts are used as distractors; the table of "
        "data sets counts them. At λ = 0 all texts are used equally often.",
        "**Values of ε differ in kind**: per word, per text, per unit of distance. Compare measured losses, not ε.",
    ]
    return Section("reading", "Reading", "How to read all this", words, folded=True)
