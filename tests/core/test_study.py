"""Studies are found by their entry points, and a study that fails to load is reported."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from epsilometer.core import study
from epsilometer.core.study import studies
from tests.support.refusals import refused

OWN = ("anonymity", "bench", "deployed", "leaderboard", "training")


def point(name: str, value: str | None = None) -> EntryPoint:
    return EntryPoint(name, value or f"epsilometer.studies.{name}.study:STUDY", study.GROUP)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """The entry points of this environment, which a test may change."""
    points = [point(name) for name in OWN]
    monkeypatch.setattr(study, "entry_points", lambda group: tuple(points))
    studies.cache_clear()
    yield points
    studies.cache_clear()


def test_they_are_in_the_order_of_their_names(installed: list[EntryPoint]) -> None:
    installed.reverse()
    assert [each.package for each in studies()] == [f"epsilometer.studies.{name}" for name in OWN]
    assert all((each.folder / "__init__.py").is_file() for each in studies())


def test_an_install_that_is_older_than_a_study_says_so(installed: list[EntryPoint]) -> None:
    del installed[3:]
    with refused("EPS-C118", "leaderboard, training", "make setup"):
        studies()


def test_an_install_whose_study_is_gone_says_so(installed: list[EntryPoint]) -> None:
    installed.append(point("texts"))
    with refused("EPS-C120", "epsilometer.studies.texts"):
        studies()


def test_two_studies_have_two_names(installed: list[EntryPoint]) -> None:
    installed.append(point("bench", "other.study:STUDY"))
    with refused("EPS-C119", "bench"):
        studies()


def test_what_a_study_leaves_out_is_empty() -> None:
    class Nothing(study.Study):
        pass

    nothing = Nothing()
    assert nothing.params() is None
    assert not [*nothing.commands(), *nothing.models(None), *nothing.uses(None), *nothing.components("", None, None)]
    assert not [*nothing.accepted(None), *nothing.searches(), *nothing.attack_kinds(), *nothing.sections]
