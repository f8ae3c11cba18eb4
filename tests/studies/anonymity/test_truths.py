"""True labels: which texts have them, who is told, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import Mechanism, Rewrites, Truths
from epsilometer.mechanisms.controls.identity import Identity
from epsilometer.studies.anonymity.anonymizing import with_truths
from epsilometer.studies.anonymity.labelled import truths, with_true_labels
from epsilometer.studies.anonymity.stages import anonymize, privatize


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


def test_a_text_has_the_labels_that_its_row_has() -> None:
    rows = pl.DataFrame({"text": ["a", "b"], "gender": ["F", None], "rating": ["1", "2"]})
    assert truths(rows, ["gender", "rating"]) == {"a": {"gender": "F", "rating": "1"}, "b": {"rating": "2"}}


@pytest.mark.parametrize("as_published", [True, False])
def test_stages_tell_mechanisms_that_run_as_published(monkeypatch: pytest.MonkeyPatch, as_published: bool) -> None:
    params: Any = SimpleNamespace(downstream={"cell": None}, anonymity={"cell": SimpleNamespace(true_labels=None)})
    for stage in (privatize, anonymize):
        monkeypatch.setattr(stage, "build", lambda params, cell: Asking(as_published))
        built: Any = stage._mechanism(params, "cell", {"a": {"gender": "F"}})
        assert built.truths == ({"a": {"gender": "F"}} if as_published else {})


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("as_published", [True, False])
def test_a_cell_may_say_who_is_told(monkeypatch: pytest.MonkeyPatch, as_published: bool, wanted: bool) -> None:
    params: Any = SimpleNamespace(anonymity={"cell": SimpleNamespace(true_labels=wanted)})
    monkeypatch.setattr(anonymize, "build", lambda params, cell: Asking(as_published))
    built: Any = anonymize._mechanism(params, "cell", {"a": {"gender": "F"}})
    assert built.truths == ({"a": {"gender": "F"}} if wanted else {})
    with pytest.raises(UserError, match="asks no classifiers"):
        with_true_labels(Identity(), {}, wanted=True)
    assert isinstance(with_true_labels(Identity(), {}, wanted=False), Identity)


@pytest.mark.parametrize(
    ("labels", "message"),
    [({"gender": ["F", None]}, "row 2 has no gender"), ({"gender": ["F", "M"]}, "row 2 has another gender")],
)
def test_labels_that_miss_a_row_or_contradict_each_other_are_refused(labels: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        with_truths(Asking(True), ["a", "a"], labels)
    built: Any = with_truths(Asking(True), ["a", "b"], {"gender": ["F", "M"]})
    assert built.truths == {"a": {"gender": "F"}, "b": {"gender": "M"}}
