"""True labels: which texts have them, which mechanisms get them, and refusals."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from epsilometer.core.mechanism import Mechanism, Rewrites, Truths
from epsilometer.mechanisms.controls.identity import Identity
from epsilometer.studies.anonymity.anonymizing import with_truths
from epsilometer.studies.anonymity.labelled import takes_truths, truths
from epsilometer.studies.anonymity.stages import anonymize, privatize
from tests.support.refusals import refused


class Asking:
    """A mechanism that may be told."""

    has_budget = False

    def __init__(self, as_published: bool) -> None:
        self.as_published, self.truths = as_published, {}  # type: ignore[var-annotated]

    def rewrite(self, texts: Any, epsilon: float, noise: Any) -> Rewrites:
        return Rewrites(list(texts))

    def guarantee(self, epsilon: float) -> None:
        return None

    def with_truths(self, truths: Truths) -> Mechanism:
        other = Asking(self.as_published)
        other.truths = dict(truths)
        return other


def test_every_text_has_the_labels_of_its_row() -> None:
    rows = pl.DataFrame({"text": ["a", "b"], "gender": ["F", "M"], "rating": ["1", "2"]})
    expected = {"a": {"gender": "F", "rating": "1"}, "b": {"gender": "M", "rating": "2"}}
    assert truths(rows, ["gender", "rating"], "songs") == expected


def test_a_text_without_a_label_is_refused_where_labels_are_told() -> None:
    rows = pl.DataFrame({"text": ["a", "b"], "gender": ["F", None], "rating": ["1", "2"]})
    with refused("EPS-S013", "2", "2"):
        truths(rows, ["gender", "rating"], "songs")


@pytest.mark.parametrize("as_published", [True, False])
@pytest.mark.parametrize("wanted", [True, False, None])
def test_mechanisms_that_run_as_published_are_told_unless_a_cell_says_otherwise(
    as_published: bool, wanted: bool | None
) -> None:
    assert takes_truths(Asking(as_published), wanted) is (as_published if wanted is None else wanted)
    assert not takes_truths(Identity(), wanted=False)
    with refused("EPS-S014"):
        takes_truths(Identity(), wanted=True)


def test_stages_tell_what_there_is_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    params: Any = SimpleNamespace(downstream={"cell": None}, anonymity={"cell": None})
    for stage in (privatize, anonymize):
        monkeypatch.setattr(stage, "build", lambda params, cell: Asking(True))
        for true_labels in ({"a": {"gender": "F"}}, None):
            built: Any = stage._mechanism(params, "cell", true_labels)
            assert built.truths == (true_labels or {})


@pytest.mark.parametrize(
    ("labels", "refusal"),
    [
        ({"gender": ["F", None]}, ("EPS-S005", "row 2", "gender")),
        ({"gender": ["F", "M"]}, ("EPS-S006", "row 2", "gender")),
    ],
)
def test_labels_that_miss_a_row_or_contradict_each_other_are_refused(labels: Any, refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        with_truths(Asking(True), ["a", "a"], labels)
    built: Any = with_truths(Asking(True), ["a", "b"], {"gender": ["F", "M"]})
    assert built.truths == {"a": {"gender": "F"}, "b": {"gender": "M"}}
