"""Checks that refuse a corpus before its release, and figures that only the curator sees.

Checks and figures depend on private texts. So a refusal can reveal something about these texts. The claim covers only
the published results of completed runs. No published file contains the curator's figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.claims.verdicts import count_public
from epsilometer.core.corpus_mechanism import CorpusMechanism, PrivateCorpus, Release
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Granularity
from epsilometer.core.mechanism import HasPublicTexts
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.shared.base import NoisyVotes
from epsilometer.mechanisms.corpora.shared.counting import Counting
from epsilometer.mechanisms.corpora.shared.public_cells import ByEncoder
from epsilometer.mechanisms.corpora.vote_histogram import VoteHistogram
from epsilometer.models.locate import ENCODER

FEWEST = 30  # smallest number of people
LARGEST = 0.2  # largest share of the counted texts that one person may have written
SAMPLE = 2000  # private texts in the sample for the curator's figures
FAR, NEAR = 0.25, 0.95  # cosines: two texts have little in common below FAR, and are almost equal above NEAR


def check(mechanism: CorpusMechanism, corpus: PrivateCorpus, epsilon: float) -> None:
    """Raise UserError for a corpus that must not be released by this mechanism at this epsilon."""
    if getattr(mechanism, "control", False):
        raise UserError(
            f"{type(mechanism).__name__} is a control, not for publication; release with vote_histogram", "EPS-A201"
        )
    by_user = mechanism.guarantee(epsilon).granularity is Granularity.USER
    most = mechanism.most if isinstance(mechanism, Counting) and by_user else len(corpus)
    written = Counter(range(len(corpus)) if corpus.people is None else corpus.people)
    if len(written) < FEWEST:
        raise UserError(
            f"the corpus has texts of {len(written)} people, but a publication needs at least {FEWEST}; add people, or "
            "do not publish it",
            "EPS-A202",
        )
    count = [min(texts, most) for texts in written.values()]
    if max(count) > LARGEST * sum(count):
        raise UserError(
            f"one person wrote {max(count):,} of the {sum(count):,} texts that count, more than {LARGEST:.0%}; count "
            "fewer texts of each person (--per-person), or leave this person out",
            "EPS-A203",
        )
    if isinstance(mechanism, HasPublicTexts) and (shared := count_public(mechanism, corpus.texts)):  # type: ignore[arg-type]
        raise UserError(
            f"{shared:,} of the private texts are among the public texts, which must be collected separately; remove "
            "them from the public texts if both have the same source, else from the private ones",
            "EPS-A204",
        )
    _check_labels(mechanism, corpus)
    if isinstance(mechanism, NoisyVotes) and (units := mechanism.units(corpus)) < (needed := mechanism.needed(epsilon)):
        noun = "people" if by_user else "texts"
        raise UserError(
            f"at epsilon {epsilon:g} the votes of {units:,} {noun} are too few for the noise; give {needed:,} {noun}, "
            "a larger epsilon, fewer labels or fewer exemplars (m)",
            "EPS-A205",
        )


def _check_labels(mechanism: CorpusMechanism, corpus: PrivateCorpus) -> None:
    listed = set(mechanism.labels) if isinstance(mechanism, Counting) else set()
    if corpus.labels is None or corpus.people is None or not listed:
        return
    if both := listed & set(corpus.people):
        raise UserError(
            f"{len(both)} of the labels are also identifiers of people, so a label would identify a person; give a "
            "column of labels that many people share",
            "EPS-A206",
        )
    people: dict[str, set[str]] = {}
    for person, label in zip(corpus.people, corpus.labels, strict=True):
        if label in listed:
            people.setdefault(label or "", set()).add(person)
    if not people:
        raise UserError("no text has any of the labels given with --labels; check the spelling", "EPS-A207")
    single = sum(len(each) == 1 for each in people.values())
    if single > len(people) / 2:
        raise UserError(
            f"{single} of {len(people)} labels belong to one person each, so a label identifies a person; give a "
            "column of labels that many people share",
            "EPS-A208",
        )


@dataclass(frozen=True)
class ForTheCurator:
    """Figures of private texts, for the curator alone.

    people: the number of people. f1: the macro F1 of a classifier that is trained on the release and tested on a sample
    of private texts; None without labels. far, near: the share of the sample with a cosine below FAR to every released
    text, and the share with a cosine above NEAR to some released text. sample: the size of the sample.
    """

    people: int
    f1: float | None = None
    far: float | None = None
    near: float | None = None
    sample: int = 0

    def describe(self) -> Sequence[str]:
        """Return a line for each figure."""
        lines = [f"{self.people:,} people"]
        if self.f1 is not None:
            lines.append(
                f"macro F1 {self.f1:.3f} on {self.sample:,} private texts, for a classifier trained on the release"
            )
        if self.far is not None and self.near is not None:
            lines.append(
                f"{self.far:.1%} of {self.sample:,} private texts are unlike every released text (cosine below {FAR}), "
                f"{self.near:.1%} are nearly equal to a released text (cosine above {NEAR})"
            )
        return lines


def for_the_curator(mechanism: CorpusMechanism, corpus: PrivateCorpus, release: Release) -> ForTheCurator:
    """Return the curator's figures; only the number of people if the release has no texts, or only labels as texts."""
    if not release.texts or list(release.texts) == list(release.labels or ()):
        return ForTheCurator(corpus.count_people)
    vectors_of = mechanism.vectors_of if isinstance(mechanism, VoteHistogram) else ByEncoder(ENCODER)
    rows = np.argsort(Noise.operating_system(len(corpus)).uniforms()[:, 0])[:SAMPLE].tolist()
    own, released = vectors_of([corpus.texts[row] for row in rows]), vectors_of(release.texts)
    nearness = np.concatenate([(part @ released.T).max(1) for part in np.array_split(own, 1 + len(own) // 256)])
    far, near = float((nearness < FAR).mean()), float((nearness > NEAR).mean())
    listed = set(mechanism.labels if isinstance(mechanism, Counting) else release.labels or ())
    labels = None if corpus.labels is None else [corpus.labels[row] for row in rows]
    named = None if labels is None else [label if label in listed else None for label in labels]
    f1 = None if named is None else learnt(head(released, release), own, named)
    return ForTheCurator(corpus.count_people, f1, far, near, sample=len(rows))


class Head(Protocol):
    """A classifier of vectors [n, d]."""

    def predict(self, vectors: NDArray[np.float64]) -> NDArray[np.str_]:
        """Return the label of each vector, [n]."""
        ...


def head(released: NDArray[np.float64], release: Release) -> Head | None:
    """Return a classifier trained on the released texts' vectors; None if the release has no labels.

    If the release has a single label, every prediction is this label.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression

    if not release.labels:
        return None
    if len(set(release.labels)) == 1:
        return DummyClassifier(strategy="most_frequent").fit(released, list(release.labels))
    fitted = LogisticRegression(C=10, max_iter=60, tol=1e-3)  # the same F1 as a converged fit, in a third of the time
    fitted.fit(released, list(release.labels), release.weights / release.weights.mean())
    return fitted


def learnt(fitted: Head | None, own: NDArray[np.float64], labels: Sequence[str | None]) -> float | None:
    """Return the macro F1 of a classifier on texts with vectors `own` and labels; None without a classifier.

    Texts without a label (None) are left out. A label that the classifier never guesses counts with an F1 of 0.
    """
    from sklearn.metrics import f1_score

    rows = [row for row, label in enumerate(labels) if label is not None]
    if fitted is None or not rows:
        return None
    return float(f1_score([labels[row] for row in rows], fitted.predict(own[rows]), average="macro", zero_division=0))
