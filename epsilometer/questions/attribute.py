"""Inference of an attribute: attackers who learn from rewrites infer a label, such as an author's age.

Texts are split by author into two halves. Attackers learn from the rewrites of one half; the other half is for tests.
One test text per author is used, so that inferences are independent. All classes have the same number of test texts.
The attackers are those of `attributes.attackers` that read one rewrite: static, relabelled, augmented, folded and
adaptive, with each kind of classifier. If all these attackers are within the limit, other attackers may still exceed
it.

If the mechanism states a law and the attribute has two classes, the law may prove that the limit is kept against every
attacker (`exact_loss/attributes.py`). Then no attacker runs, unless rewrites refute that law (`limits/stated_law.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import model_validator

from epsilometer.auditing.attributes.attackers import (
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
from epsilometer.auditing.attributes.attribute_loss import even_trials
from epsilometer.auditing.attributes.measuring import Attacking
from epsilometer.auditing.attributes.one_call import STANDARD, AnonymityDesign
from epsilometer.auditing.attributes.recorded import paired, recorded_anonymity
from epsilometer.auditing.attributes.released import Released, halves, lone_apart
from epsilometer.auditing.evidence.evidence import By, Computed, Covers, Evidence, Hits
from epsilometer.auditing.evidence.limit import Limit, Scale
from epsilometer.auditing.exact_loss.attributes import attribute_losses, drawn_pairs
from epsilometer.auditing.exact_loss.measuring import applies
from epsilometer.auditing.exact_loss.rows import ALPHA
from epsilometer.auditing.gate_statistics import BY_LAW, Errors, enough_texts
from epsilometer.auditing.limits.stated_law import law_p_value
from epsilometer.auditing.question import Gives, Need, Observed, Part, Table, TableRequest
from epsilometer.auditing.subject import Subject
from epsilometer.auditing.trials.rewriting import Job, rewrite_all
from epsilometer.core.component import component
from epsilometer.core.errors import UserError, unknown
from epsilometer.core.extras import installed
from epsilometer.core.guarantees import at_budget
from epsilometer.core.likelihood import has_law
from epsilometer.core.randomness import Noise
from epsilometer.corpora.joint import parts, with_joint
from epsilometer.models.classifier import KINDS, LINEAR, Classifier, Examples
from epsilometer.models.classifiers.by_kind import train
from epsilometer.report.gate import beyond_joined
from epsilometer.runtime.progress import note

_READERS = (STATIC, RELABELLED, AUGMENTED, FOLDED, ADAPTIVE)  # attackers that read one rewrite
_MOST, _FEWEST = 1000, 50  # most and fewest rewrites to compare with the stated law
_ALL = 1 << 20  # a number of texts that no table reaches
# Columns printed for recorded rewrites: in rows of victims (which learned from clean texts), and of attackers.
_OF_VICTIMS = ("both_right", "rs_all", "rs_all_low", "rs_all_high", "coverage", "rs", "ur", "pa", "words_changed")
_OF_ATTACKERS = ("texts_each", "trained_on", "texts", "accuracy", "majority", "loss", "point", "upper", "ceiling")


@component
class Attribute:
    """attribute: the column of the label to infer, or several joined columns (`a,b`). group: the column whose values
    dependent texts share, such as their author. kinds: kinds of classifiers, None for all that are installed. For
    recorded rewrites only: keep, the column of a label that rewrites should preserve, and labelled, a file of other
    labelled texts for attackers to learn from.
    """

    attribute: str
    group: str | None = None
    kinds: Sequence[str] | None = None
    keep: str | None = None
    labelled: Path | None = None

    needs: ClassVar[frozenset[Need]] = frozenset({Need.COLUMNS})
    gives: ClassVar[frozenset[Gives]] = frozenset({Gives.LOW, Gives.HIGH, Gives.OUTCOMES})
    usual: ClassVar[int] = _ALL

    @model_validator(mode="after")
    def _check(self) -> Attribute:
        for name in self.kinds or ():
            if name not in KINDS:
                raise unknown("kind of classifier", name, KINDS)
        return self

    @property
    def columns(self) -> Sequence[str]:
        """The columns of the attribute, of the label to keep, and of the group."""
        return [name for name in (self.attribute, self.keep, self.group) if name is not None]

    def limit(self, of: Subject, allowed: float) -> Limit:
        """Return a limit on the loss of each attacker, in nats."""
        if not allowed > 0:
            raise UserError(f"the limit of an attribute's loss, in nats, must be > 0, got {allowed}", "EPS-Q023")
        return Limit(allowed, self._scale(of), "the largest loss of the attribute allowed")

    def tests(self, of: Subject) -> Sequence[str]:
        """Return a name for each attacker and kind of classifier."""
        return [self._name(reader, kind) for kind in self.learners for reader in _READERS]

    def amount(self, of: Subject, limit: Limit, budget: int, tests: int, *, errors: Errors) -> int:
        """Return the budget: texts with the attribute are used until the budget of rewrites is spent."""
        if limit.rate > 1 - 1e-6:
            raise UserError(f"no inference can exceed a loss of {limit.allowed:g} nats; give a lower limit", "EPS-Q024")
        _, test = self._parts(of, budget)
        classes = self._classes(of)
        rarest = min(test.classes_of(self.attribute).count(name) for name in classes)
        needed = enough_texts(limit.rate, tests, errors=errors, share=1 / len(classes))
        if rarest * len(classes) < needed:
            raise UserError(
                f"a limit of {limit.allowed:g} nats on {self.attribute} takes {needed:,} test texts by different "
                f"authors, equally many from each of {len(classes)} classes, and there are {rarest * len(classes):,} "
                "(attackers learn from the other half of the texts); give more texts, a larger budget (--budget), or a "
                "higher limit",
                "EPS-Q025",
            )
        return budget

    def by_law(self, of: Subject, limit: Limit, budget: int, *, errors: Errors) -> tuple[Observed | None, str | None]:
        """Return the stated law's evidence if it proves that every attacker keeps the limit (`ShownByLaw`)."""
        rewrites = min(_MOST, budget // 2)
        lawful = applies(of.mechanism) and has_law(of.mechanism) and errors.beta >= ALPHA / 2
        if limit.scale.options != 2 or rewrites < _FEWEST or not lawful:
            return None, None
        table = self._table(of)
        texts, of_class = table["text"].to_list(), table[self.attribute].cast(pl.String).to_list()
        (law,) = attribute_losses(of.mechanism, texts, of_class, [of.epsilon], seed=of.design.seed)
        if law["upper"] > limit.allowed:
            return None, None
        pairs = np.resize(drawn_pairs(of_class, of.design.seed)[0], (rewrites, 2))
        p = law_p_value(of, texts, pairs, law["upper"])
        if p is not None and p > errors.alpha:
            bounds = Computed(0.0, law["upper"], ALPHA / 2, law["pairs"])
            evidence = Evidence(f"{self.attribute}{BY_LAW}", By.LAW, limit.scale, bounds, covers=Covers.EVERYONE)
            return Observed(evidence, row={"unrefuted": rewrites}), None
        why = f"{rewrites:,} rewrites {'cannot be compared with' if p is None else 'refute'} the stated law"
        note(f"{why}{at_budget(of.epsilon)}, so its bound on {self.attribute} is ignored; attackers run")
        return None, why

    def observe(self, of: Subject, count: int) -> Sequence[Observed]:
        """Return the evidence of each attacker from at most `count` texts: one half to learn from, one for tests."""
        learned_from, test = self._parts(of, count)
        (rewrites,) = rewrite_all(of.mechanism, _job([*learned_from.originals, *test.originals], of), paced=True)
        learned_from = _released(learned_from, rewrites.texts[: len(learned_from)])
        test = _released(test, rewrites.texts[len(learned_from) :])
        note(f"attackers of {self.attribute} learn from {len(learned_from)} rewrites and are tested on {len(test)}")
        scale, observed = self._scale(of), []
        for inferred in self._inferred(learned_from, test, of.design.seed):
            trials = even_trials(inferred.truth, len(self._classes(of)), _stream(of.design.seed, "trials")).ravel()
            right = inferred.even_guesses[trials] == inferred.truth[trials]
            name, hits = self._name(inferred.attacker, inferred.kind), Hits(int(right.sum()), len(trials))
            evidence = Evidence(name, By.ATTACK, scale, hits, covers=Covers.THESE)
            texts = (test.originals[i] for i in trials.tolist())
            of_texts = list(zip(texts, right.tolist(), strict=True))
            observed.append(Observed(evidence, right.astype(np.float64), of_texts))
        return observed

    @property
    def learners(self) -> Sequence[str]:
        """The kinds of classifiers."""
        return self.kinds or (STANDARD.kinds if installed("models") else (LINEAR,))

    def table(self, request: TableRequest) -> Table | None:
        """Return the table for recorded rewrites, a row per epsilon and attacker; None without recorded rewrites.

        The rows are those of `recorded_anonymity`. The printed table has a row per victim, then a row per attacker.
        """
        if request.rewrites is None:
            return None
        request.check_unused("attacks", "trials")
        texts, of = request.texts, request.design
        assert texts is not None, "the columns are checked first"
        assert request.read is not None, "a file names the labelled texts"
        design = AnonymityDesign(
            tuple(self.learners), group=self.group, attacking=Attacking(alpha=of.alpha, seed=of.seed)
        )
        others = None if self.labelled is None else request.read(self.labelled, self.columns)
        data = recorded_anonymity(
            texts.select("text", *self.columns),
            paired(request.rewrites),
            None if others is None else others.select("text", *self.columns),
            attribute=self.attribute,
            keep=self.keep,
            design=design,
        )
        note(beyond_joined(len(parts(self.attribute))))
        if request.columns is not None:
            return Table.of(data, request.shown(data.schema, ()))
        rows = list(data.iter_rows(named=True))
        victims = {(row["epsilon"], row["kind"]): row for row in rows if row["both_right"] is not None}
        above = [{"epsilon": at, "victim": kind, **_of(row, _OF_VICTIMS)} for (at, kind), row in victims.items()]
        below = [{"epsilon": row["epsilon"], "attacker": _attacker(row), **_of(row, _OF_ATTACKERS)} for row in rows]
        return Table(data, [Part(above), Part(below)])

    def _name(self, attacker: str, kind: str) -> str:
        return f"{self.attribute}: {attacker} ({kind})"

    def _table(self, of: Subject) -> pl.DataFrame:
        assert of.table is not None, "the columns are checked first"
        if self.keep is not None or self.labelled is not None:
            raise UserError(
                "attribute.keep and attribute.labelled are for recorded rewrites; leave them out", "EPS-Q026"
            )
        return with_joint(of.table, [self.attribute])

    def _classes(self, of: Subject) -> list[str]:
        """Return the values of the attribute among all texts."""
        return [str(name) for name in self._table(of)[self.attribute].drop_nulls().unique().sort()]

    def _scale(self, of: Subject) -> Scale:
        classes = len(self._classes(of))
        if classes < 2:
            raise UserError(
                f"column {self.attribute!r} has {classes} values; an attribute that can be inferred has two or more",
                "EPS-Q027",
            )
        return Scale("attribute", classes, joined=len(parts(self.attribute)))

    def _parts(self, of: Subject, count: int) -> tuple[Released, Released]:
        """Return texts to learn from, and texts to test on (one per group). None of these texts is rewritten yet."""
        table, seed = self._table(of).filter(pl.col(self.attribute).is_not_null()), of.design.seed
        groups = None if self.group is None else lone_apart(table[self.group].cast(pl.String).to_list(), "texts")
        labels = {self.attribute: table[self.attribute].cast(pl.String).to_list()}
        texts = Released(table["text"].to_list(), table["text"].to_list(), labels, groups=groups)
        order = _stream(seed, "order").uniforms(len(texts))[0].argsort(kind="stable")
        texts = texts.take(order[:count])
        half, other = halves(texts, _stream(seed, "halves"))
        test = texts.take(other)
        return texts.take(half), test if groups is None else test.take(_first_of_each(test.groups or []))

    def _inferred(self, learned_from: Released, test: Released, seed: int) -> list[Inferred]:
        def learn(kind: str, examples: Examples) -> Classifier:
            return train(kind, examples, STANDARD.training, Noise.named(1, seed, "learn", 0))

        every: list[Inferred] = []
        for kind in self.learners:
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


def _attacker(row: Mapping[str, Any]) -> str:
    best = row["best_attacker"]
    name = row["attacker"] if best is None else f"{row['attacker']}: {best}"
    return f"{name} ({row['kind']})"


def _of(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _job(texts: Sequence[str], of: Subject) -> Job:
    stream = Noise.named(len(texts), of.design.seed, "gate", "attribute", of.epsilon)
    return Job(texts, np.arange(len(texts)), [of.epsilon], [stream], tally=of.tally)


def _released(texts: Released, rewrites: Sequence[str]) -> Released:
    return Released(texts.originals, list(rewrites), texts.labels, groups=texts.groups)


def _first_of_each(groups: Sequence[str]) -> NDArray[np.int64]:
    return np.sort(np.unique(np.array(groups), return_index=True)[1])


def _stream(seed: int, name: str) -> Noise:
    """Return a stream whose name does not contain the mechanism, so all mechanisms are attacked on the same texts."""
    return Noise.named(1, seed, "gate", "attribute", name)
