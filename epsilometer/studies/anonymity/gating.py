"""A limit on what attackers infer of an attribute from a mechanism's rewrites.

One half of the texts, drawn by author, is rewritten for attackers to learn from; the other half is for tests. One test
text per author is kept, so that inferences are independent, and each class has equally many test texts. Attackers are
those of `attackers` who read one rewrite: static, relabelled, augmented, folded and adaptive, of each kind of
classifier. If all are within the limit, this says nothing about other attackers.

If the mechanism states a law and the attribute has two classes, no attacker runs when the law shows that any inference
keeps the limit (`exact_loss/attributes.py`) and rewrites do not refute that law (`limits/stated_law.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.evidence.bounds import passed
from epsilometer.auditing.evidence.evidence import By, Computed, Covers, Evidence, Hits
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.exact_loss.attributes import attribute_losses, drawn_pairs
from epsilometer.auditing.exact_loss.measuring import applies
from epsilometer.auditing.exact_loss.rows import ALPHA
from epsilometer.auditing.gate_statistics import BY_LAW, Errors, Judged, enough_texts, judge
from epsilometer.auditing.limits.stated_law import law_p_value
from epsilometer.auditing.limits.subject import Subject
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.extras import installed
from epsilometer.core.guarantees import at_budget
from epsilometer.core.likelihood import has_law
from epsilometer.core.randomness import Noise
from epsilometer.corpora.joint import parts
from epsilometer.models.classifier import KINDS, LINEAR, Classifier, Examples
from epsilometer.models.classifiers.by_kind import train
from epsilometer.runtime.progress import note
from epsilometer.studies.anonymity.attackers import (
    ADAPTIVE,
    AUGMENTED,
    CLEAN,
    FOLDED,
    RELABELLED,
    STATIC,
    Inferred,
    Learned,
    Learners,
    infer,
)
from epsilometer.studies.anonymity.attribute_loss import even_trials
from epsilometer.studies.anonymity.one_call import STANDARD
from epsilometer.studies.anonymity.released import Released, halves, lone_apart

_READERS = (STATIC, RELABELLED, AUGMENTED, FOLDED, ADAPTIVE)  # each reads one rewrite
_MOST, _FEWEST = 1000, 50  # rewrites compared with the stated law: at most half of the budget; with fewer, none


@dataclass(frozen=True)
class AttributeLimit:
    """Each attacker of an attribute against the largest loss that it may show (`Counted`).

    texts: columns `text`, the attribute, whose classes are equally likely to an attacker, and the group, if any: what
    dependent texts share, such as their author. kinds: of classifiers.
    """

    texts: pl.DataFrame
    attribute: str
    max_loss: float
    group: str | None = None
    kinds: Sequence[str] = STANDARD.kinds

    def __post_init__(self) -> None:
        if not self.max_loss > 0:
            raise UserError(f"max_attribute_loss, in nats, must be > 0, got {self.max_loss}")
        if len(self.classes) < 2:
            raise UserError(
                f"column {self.attribute!r} has {len(self.classes)} values; an attribute that can be inferred has two "
                "or more"
            )

    @property
    def classes(self) -> list[str]:
        """The values of the attribute, over all texts that have it."""
        return [str(name) for name in self.texts[self.attribute].drop_nulls().unique().sort()]

    @property
    def tests(self) -> int:
        """The number of limits: one per attacker and kind."""
        return len(_READERS) * len(self.kinds)

    def judge(self, of: Subject, budget: int, *, tests: int, errors: Errors) -> tuple[list[Judged], int]:
        """Judge by all texts that have the attribute, or by a random sample within the budget."""
        source, joined = "the largest loss of the attribute allowed", len(parts(self.attribute))
        limit = Limit(self.max_loss, Scale("attribute", len(self.classes), joined=joined), source)
        by_law, limit, compared = self._by_law(of, limit, min(_MOST, budget // 2), errors)
        if by_law is not None:
            return [by_law], compared
        learned_from, test = self._parts(of.design.seed, budget - compared)
        self._check(limit, test, tests, errors)
        (rewrites,) = rewrite_all(of.mechanism, _job([*learned_from.originals, *test.originals], of), paced=True)
        learned_from = _released(learned_from, rewrites.texts[: len(learned_from)])
        test = _released(test, rewrites.texts[len(learned_from) :])
        note(f"attackers of {self.attribute} learn from {len(learned_from)} rewrites and are tested on {len(test)}")
        judged = []
        for inferred in self._inferred(learned_from, test, of.design.seed):
            trials = even_trials(inferred.truth, len(self.classes), _stream(of.design.seed, "trials")).ravel()
            right = inferred.even_guesses[trials] == inferred.truth[trials]
            name = f"{self.attribute}: {inferred.attacker} ({inferred.kind})"
            evidence = Evidence(name, By.ATTACK, limit.scale, Hits(int(right.sum()), len(trials)), covers=Covers.THESE)
            of_attacker = judge(evidence, limit, tests=tests, errors=errors)
            texts = (test.originals[i] for i in trials.tolist())
            judged.append(replace(of_attacker, of_texts=list(zip(texts, right.tolist(), strict=True))))
        return judged, compared + len(learned_from) + len(test)

    def _by_law(self, of: Subject, limit: Limit, rewrites: int, errors: Errors) -> tuple[Judged | None, Limit, int]:
        """The limit shown kept by the stated law, the limit for attackers otherwise, and the number of rewrites used.

        rewrites: the number to compare with the law. None if the law allows more, or if rewrites do not support it.
        """
        if len(self.classes) != 2 or rewrites < _FEWEST or not (applies(of.mechanism) and has_law(of.mechanism)):
            return None, limit, 0
        texts, of_class = self.texts["text"].to_list(), self.texts[self.attribute].cast(pl.String).to_list()
        (law,) = attribute_losses(of.mechanism, texts, of_class, [of.epsilon], seed=of.design.seed)
        if law["upper"] > limit.allowed:
            return None, limit, 0
        pairs = np.resize(drawn_pairs(of_class, of.design.seed)[0], (rewrites, 2))
        p = law_p_value(of, texts, pairs, law["upper"])
        if p is not None and p > errors.alpha:
            name = f"{self.attribute}{BY_LAW}"
            bounds = Computed(0.0, law["upper"], ALPHA / 2, law["pairs"])
            evidence = Evidence(name, By.LAW, limit.scale, bounds, covers=Covers.EVERYONE)
            return Judged(evidence, law["upper"], limit, passed(evidence), unrefuted=rewrites), limit, rewrites
        why = f"{rewrites:,} rewrites {'cannot be compared with' if p is None else 'refute'} the stated law"
        note(f"{why}{at_budget(of.epsilon)}, which would keep the limit on {self.attribute}; attackers are run")
        return None, replace(limit, source=f"{limit.source}; {why}"), rewrites

    def _parts(self, seed: int, budget: int) -> tuple[Released, Released]:
        """Texts to learn from, and texts to test on, one per group, equally many of each class; not yet rewritten."""
        table = self.texts.filter(pl.col(self.attribute).is_not_null())
        groups = None if self.group is None else lone_apart(table[self.group].cast(pl.String).to_list(), "texts")
        labels = {self.attribute: table[self.attribute].cast(pl.String).to_list()}
        texts = Released(table["text"].to_list(), table["text"].to_list(), labels, groups=groups)
        order = _stream(seed, "order").uniforms(len(texts))[0].argsort(kind="stable")
        texts = texts.take(order[:budget])
        half, other = halves(texts, _stream(seed, "halves"))
        test = texts.take(other)
        return texts.take(half), test if groups is None else test.take(_first_of_each(test.groups or []))

    def _check(self, limit: Limit, test: Released, tests: int, errors: Errors) -> None:
        """Refuse a limit that this number of test texts could not show kept by an attacker at chance level."""
        if limit.rate > 1 - 1e-6:
            raise UserError(f"no inference exceeds a loss of {limit.allowed:g} nats; give a lower --max-attribute-loss")
        classes = len(self.classes)
        rarest = min(test.classes_of(self.attribute).count(name) for name in self.classes)
        needed = enough_texts(limit.rate, tests, errors=errors, share=1 / classes)
        if rarest * classes < needed:
            raise UserError(
                f"a loss of {limit.allowed:g} nats of {self.attribute} takes {needed:,} texts to test on, in equal "
                f"number from each of {classes} classes and by different authors, to show, and there are "
                f"{rarest * classes:,}, for half of all texts teach the attackers; give more texts, a larger "
                "--budget, or a higher --max-attribute-loss"
            )

    def _inferred(self, learned_from: Released, test: Released, seed: int) -> list[Inferred]:
        def learn(kind: str, examples: Examples) -> Classifier:
            return train(kind, examples, STANDARD.training, Noise.named(1, seed, "learn", 0))

        every: list[Inferred] = []
        for kind in self.kinds:
            clean = learned_from.clean(self.attribute)
            static = Learned(learn(kind, clean), clean)
            request = Learners(_READERS, ())
            every += infer(
                learned_from,
                test,
                self.attribute,
                static,
                learn=partial(learn, kind),
                request=request,
                noise=_stream(seed, "authors"),
            )
        return [inferred for inferred in every if inferred.attacker != CLEAN]


def _job(texts: Sequence[str], of: Subject) -> Job:
    stream = Noise.named(len(texts), of.design.seed, "gate", "attribute", of.epsilon)
    return Job(texts, np.arange(len(texts)), [of.epsilon], [stream], tally=of.tally)


def _released(texts: Released, rewrites: Sequence[str]) -> Released:
    return Released(texts.originals, list(rewrites), texts.labels, groups=texts.groups)


def _first_of_each(groups: Sequence[str]) -> NDArray[np.int64]:
    return np.sort(np.unique(np.array(groups), return_index=True)[1])


def _stream(seed: int, name: str) -> Noise:
    """One stream whose name does not contain the mechanism, so all are attacked on the same texts."""
    return Noise.named(1, seed, "gate", "attribute", name)


def kinds_named(names: str | None) -> Sequence[str]:
    """Kinds of classifiers, separated by commas; None: those that are installed. Raises UserError for unknown kinds."""
    if names is None:
        return STANDARD.kinds if installed("models") else (LINEAR,)
    chosen = names.split(",")
    for name in chosen:
        if name not in KINDS:
            raise unknown("kind of classifier", name, KINDS)
    return chosen
