"""Success of rewrites against victims: a victim predicts the attribute wrong, and still predicts the task right.

Let f_p(x) and f_u(x) be a victim's predictions of the attribute and of the task of a text x, y_p and y_u the true
labels, and x' the rewrite of x. Over test texts,

    C = {f_p(x) = y_p and f_u(x) = y_u}, the texts that the victim classifies right,
    A = the texts of C with a changed rewrite (if there are outcomes, with the status "found"),

    RS = #{A: f_p(x') != y_p, f_u(x') = y_u} / #A    UR = #{A: f_u(x') = f_u(x)} / #A    PA = #{A: f_p(x') = y_p} / #A

as published for IDT (Computational Linguistics 2025, section 5), and in addition coverage = #A / #C and

    RS_all = RS coverage = #{A: f_p(x') != y_p, f_u(x') = y_u} / #C,

which judges a mechanism that rewrites few texts over all its input texts. UR and PA are also reported over all test
texts in their released form. If several attributes are hidden together, a text is in C if all attributes are predicted
right, a success has all attributes wrong, and PA counts the texts with any attribute still right.

Intervals are over texts: Clopper and Pearson's for shares, bootstrap intervals for F1. If texts share a group (an
author, a pair), all intervals are bootstrap intervals over groups. Nothing here proves privacy: victims do not learn
from rewrites, as real attackers may (`attackers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.attributes.released import Released, check_classes, numbered
from epsilometer.auditing.worth.intervals import clustered_share, f1_interval
from epsilometer.auditing.worth.scoring import scores
from epsilometer.core.errors import UserError, by_number
from epsilometer.core.outcomes import FOUND
from epsilometer.metrics.changed import Changed
from epsilometer.models.classifier import Classifier
from epsilometer.models.tagging import sentences, words_and_marks

if TYPE_CHECKING:
    from epsilometer.models.tagging import Tagger

_QUARTERS = 4


@dataclass(frozen=True)
class Reading:
    """A victim's predictions of one label, as indices of classes [n].

    truth: the true classes. clean: predicted from the originals. released: predicted from the releases.
    """

    truth: NDArray[np.integer]
    clean: NDArray[np.integer]
    released: NDArray[np.integer]


@dataclass(frozen=True)
class Read:
    """A victim's predictions of the attributes and the task of n test texts.

    attributes: predictions of one attribute, or of several that are hidden together. task: predictions of the label to
    preserve, or None. rewritten: [n], as the function `rewritten` returns it. groups: [n], names that dependent texts
    share.
    """

    attributes: Sequence[Reading]
    task: Reading | None
    rewritten: NDArray[np.bool_]
    groups: NDArray[Any]

    @property
    def both_right(self) -> NDArray[np.bool_]:
        """C: True if the victim predicts all attributes and the task (if any) right from the original [n]."""
        right = self.attributes_right
        return right if self.task is None else right & (self.task.clean == self.task.truth)

    @property
    def attributes_right(self) -> NDArray[np.bool_]:
        """True if the victim predicts all attributes right from the original [n]."""
        return np.all([attribute.clean == attribute.truth for attribute in self.attributes], axis=0)

    @property
    def exposed(self) -> NDArray[np.bool_]:
        """True if the victim predicts any attribute right from the release [n]."""
        return np.any([attribute.released == attribute.truth for attribute in self.attributes], axis=0)

    @property
    def success(self) -> NDArray[np.bool_]:
        """True if the victim predicts all attributes wrong from the rewrite, and the task (if any) right [n]."""
        hidden = self.rewritten & ~self.exposed
        return hidden if self.task is None else hidden & (self.task.released == self.task.truth)


def read(test: Released, attributes: Sequence[str], task: str | None, victims: Mapping[str, Classifier]) -> Read:
    """Return the victims' predictions on the test texts that have all of these labels. victims: classifiers by label.

    Raises UserError for a label that is both attribute and task, for a class that is missing from a part, and if no
    text has all its labels predicted right.
    """
    if task in attributes:
        raise UserError(
            f"label {task!r} cannot be both the attribute to hide and the task to keep; name another", "EPS-S045"
        )
    labels = attributes if task is None else (*attributes, task)
    test = test.with_labels(*labels)
    readings = []
    for label in labels:
        check_classes(test, label, victims[label].classes)
        truth = numbered(test.classes_of(label), victims[label].classes)
        clean, released = (victims[label].probabilities(t).argmax(axis=1) for t in (test.originals, test.rewrites))
        readings.append(Reading(truth, clean, released))
    groups = np.arange(len(test)) if test.groups is None else np.asarray(test.groups)
    of_task = None if task is None else readings[-1]
    every = Read(readings[: len(attributes)], of_task, rewritten(test), groups)
    if not every.both_right.any():
        raise UserError(
            f"the victim predicts {' and '.join(labels)} right for no test text: it predicts "
            f"{' and '.join(map(_accuracy, labels, readings))}; train it on more texts, or choose labels that can be "
            "learned",
            "EPS-S046",
        )
    return every


def rewritten(test: Released) -> NDArray[np.bool_]:
    """Return [n]: True for a changed rewrite or, if an anonymiser asks classifiers, for the status "found".

    Raises UserError for a text with the status "found" that is released unchanged.
    """
    if test.outcomes is None:
        return ~test.unchanged
    succeeded = np.array([status == FOUND for status in test.outcomes.status], bool)
    if same := (np.flatnonzero(succeeded & test.unchanged) + 1).tolist():
        raise UserError(
            f"{by_number('text', same)} of {len(test):,} with the status {FOUND!r} are released unchanged; a text "
            "that is not rewritten must have another status",
            "EPS-S047",
        )
    asks = test.outcomes.asked.any() or test.outcomes.asked_victim.any()
    return succeeded if asks else ~test.unchanged


def shares(read: Read, alpha: float) -> dict[str, Any]:
    """Return the columns of `tables.ANONYMITY` from `texts` to the shares. alpha: error of each interval.

    If a share is over no texts, the share and its bounds are null. Without a task, all columns about the task are
    missing.
    """
    right = read.both_right
    among = right & read.rewritten  # A
    exposed, every = read.exposed, np.ones(len(right), bool)
    of = {
        "rs_all": (read.success, right),
        "rs": (read.success, among),
        "pa": (exposed, among),
        "coverage": (read.rewritten, right),
        "pa_released": (exposed, every),
    }
    columns: dict[str, Any] = {
        "texts": len(right),
        "groups": len(np.unique(read.groups)),
        "attribute_accuracy": float(read.attributes_right.mean()),
        "both_right": int(right.sum()),
        "rewritten": int(among.sum()),
        "fooled": int((among & read.success).sum()),
        "exposed": int((among & exposed).sum()),
    }
    if read.task is not None:
        same_task = read.task.released == read.task.clean
        of |= {"ur": (same_task, among), "ur_released": (same_task, every)}
        columns |= {
            "task_accuracy": float((read.task.clean == read.task.truth).mean()),
            **_task_f1(read.task, read.groups, alpha),
            "same_task": int((among & same_task).sum()),
        }
    for name, (hits, chosen) in of.items():
        columns |= _share(name, hits[chosen], read.groups[chosen], alpha)
    return columns


def _task_f1(task: Reading, groups: NDArray[Any], alpha: float) -> dict[str, float]:
    """Return the macro F1 of the task's victim on originals and releases, and the interval on releases over groups."""
    classes = int(max(task.truth.max(), task.clean.max(), task.released.max())) + 1
    names = list(map(str, range(classes)))
    clean, released = (scores(task.truth, read, names).macro_f1 for read in (task.clean, task.released))
    low, high = f1_interval(task.truth, task.released[None], classes, alpha, sources=groups)
    return {"task_f1_clean": clean, "task_f1": released, "task_f1_low": low, "task_f1_high": high}


def by_length(read: Read, words: NDArray[np.integer], alpha: float) -> Iterator[dict[str, Any]]:
    """Yield rows of table `BY_LENGTH` from `shortest` on: the texts of C in quarters by length, shortest first.

    words: [n], the number of words of each text. Quarters have about equal size. Texts of one length are in one
    quarter, so there may be fewer than four quarters.
    """
    right = read.both_right
    ends = np.unique(np.quantile(words[right], np.arange(1, _QUARTERS + 1) / _QUARTERS, method="inverted_cdf"))
    quarter = np.searchsorted(ends, words)
    for number in range(len(ends)):
        of = right & (quarter == number)
        yield {
            "shortest": int(words[of].min()),
            "longest": int(words[of].max()),
            "both_right": int(of.sum()),
            "rewritten": int((of & read.rewritten).sum()),
            "fooled": int((of & read.success).sum()),
            **_share("rs_all", read.success[of], read.groups[of], alpha),
            **_share("coverage", read.rewritten[of], read.groups[of], alpha),
        }


@dataclass(frozen=True)
class Edits:
    """The extent of changes to n texts.

    words: [n] shares of words changed. same_tags: [n], True if all part-of-speech tags are equal; None without a
    tagger.
    """

    words: NDArray[np.float64]
    same_tags: NDArray[np.bool_] | None

    def take(self, rows: NDArray[np.integer]) -> Edits:
        """Return the edits of these rows [m], in their order."""
        return Edits(self.words[rows], None if self.same_tags is None else self.same_tags[rows])


def edits(test: Released, tagger: Tagger | None = None) -> Edits:
    """Return the extent of changes, from the anonymiser's outcomes or, without outcomes, from the metric `changed`."""
    outcomes, differs = test.outcomes, np.flatnonzero(~test.unchanged).tolist()
    if outcomes is None:
        share = Changed().measure(test.originals, test.rewrites)
    else:
        share = outcomes.changed / np.maximum(outcomes.words, 1)
    if tagger is None:
        return Edits(share, None)
    pairs = [[_split(side[i]) for side in (test.originals, test.rewrites)] for i in differs]
    every = [sentence for pair in pairs for text in pair for sentence in text]
    tags = dict(zip(every, tagger.upos(every), strict=True))
    same = np.ones(len(test), bool)
    same[differs] = [
        [tags[sentence] for sentence in before] == [tags[sentence] for sentence in after] for before, after in pairs
    ]
    return Edits(share, same)


def changes(test: Released, read: Read, edits: Edits) -> dict[str, Any]:
    """Return the columns of `tables.ANONYMITY` from `unchanged` on. test: the texts that have all labels."""
    outcomes, differs, among = test.outcomes, ~test.unchanged, read.both_right & read.rewritten
    same = None if edits.same_tags is None else edits.same_tags[differs]
    return {
        "unchanged": int(test.unchanged.sum()),
        "words_changed": float(edits.words.mean()),
        "words_changed_rewritten": float(edits.words[among].mean()) if among.any() else None,
        "tags_equal": None if same is None or not len(same) else float(same.mean()),
        "asked": None if outcomes is None else int(outcomes.asked.sum()),
        "asked_victim": None if outcomes is None else int(outcomes.asked_victim.sum()),
    }


def statuses(test: Released) -> Iterator[dict[str, Any]]:
    """Yield rows of table `OUTCOMES` from `status` on, in alphabetical order; none without outcomes."""
    status = np.array([] if test.outcomes is None else list(test.outcomes.status))
    for name in np.unique(status):
        of = status == name
        yield {"status": str(name), "texts": int(of.sum()), "unchanged": int((of & test.unchanged).sum())}


def _split(text: str) -> list[tuple[str, ...]]:
    """Return the words and marks of each sentence, as anonymisers tag them."""
    return [tuple(words_and_marks(sentence)) for sentence in sentences(text)]


def _accuracy(label: str, reading: Reading) -> str:
    right, most = (reading.clean == reading.truth).mean(), np.bincount(reading.truth).max() / len(reading.truth)
    return f"{label!r} with accuracy {right:.2f} (the most frequent class has {most:.2f})"


def _share(name: str, hits: NDArray[np.bool_], groups: NDArray[Any], alpha: float) -> dict[str, float | None]:
    share_and_ends = clustered_share(hits, groups, alpha) if len(hits) else (None, None, None)
    return dict(zip((name, f"{name}_low", f"{name}_high"), share_and_ends, strict=True))
