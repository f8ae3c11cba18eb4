"""The ledger adds up a person's losses over releases, for each kind of claim."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path

import pytest

from epsilometer.accounting.ledger import Ledger, Sum, spent
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from tests.support.refusals import refused

USER = Guarantee(1.0, Granularity.USER, Neighbours.REPLACED)
PEOPLE = {"ann": 3, "bob": 1}


def test_what_a_claim_spends_of_a_person() -> None:
    assert spent(USER, 7) == Sum(1.0)
    assert spent(Guarantee(1.0, Granularity.DOCUMENT, Neighbours.REPLACED), 7) == Sum(7.0)
    assert spent(Guarantee(1.0, Granularity.USER, Neighbours.ADDED_OR_REMOVED), 7) == Sum(2.0)
    approximate = spent(Guarantee(0.5, Granularity.DOCUMENT, Neighbours.ANY, delta=1e-6), 3)
    assert approximate.epsilon == 1.5
    assert approximate.delta == pytest.approx(3 * math.exp(1.0) * 1e-6)
    assert spent(Guarantee(9.0, Granularity.DOCUMENT, Neighbours.ANY, delta=1e-6), 1000) == Sum(9000.0, 1.0)


@pytest.mark.parametrize(
    "claim",
    [
        None,
        Guarantee(1.0, Granularity.WORD, Neighbours.SAME_LENGTH),
        Guarantee(1.0, Granularity.SENTENCE, Neighbours.ANY),
        Guarantee(1.0, Granularity.DOCUMENT, Neighbours.SAME_LENGTH),
        Guarantee(1.0, Granularity.DOCUMENT, Neighbours.ANY, metric="distance"),
        Guarantee.zcdp(0.1),
    ],
)
def test_claims_that_bound_nothing_here_are_unbounded(claim: Guarantee | None) -> None:
    assert spent(claim, 2) == Sum(unbounded=1)


def test_epsilons_and_deltas_of_the_same_people_add_up(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.enter(USER, PEOPLE, again=False).after == Sum(1.0)
    assert ledger.enter(USER, {"eve": 1}, again=False).after == Sum(1.0)
    claim = Guarantee(0.5, Granularity.USER, Neighbours.ANY, delta=1e-5)
    standing = ledger.enter(claim, {"ann": 1, "dan": 1}, again=True)
    assert (standing.before, standing.after, standing.again) == (Sum(1.0), Sum(1.5, 1e-5), 1)
    assert standing.of_all == Sum(2.5, 1e-5)
    after = ledger.enter(None, {"ann": 1}, again=True)
    assert after.after == Sum(1.5, 1e-5, 1)
    assert "and 1 release without a bound" in after.after.describe()


def test_people_of_an_earlier_release_are_refused_and_nothing_is_recorded(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.enter(USER, PEOPLE, again=False)
    before = (tmp_path / "ledger.jsonl").read_bytes()
    for attempt, code in ((ledger.enter, "EPS-L012"), (ledger.check, "EPS-L013")):
        with refused(code, "epsilon 1", "epsilon 2", "--again"):
            attempt(USER, {"bob": 1, "cy": 1}, again=False)
    assert (tmp_path / "ledger.jsonl").read_bytes() == before


def test_ids_are_keyed_digests_in_private_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        Ledger(tmp_path / name).enter(USER, PEOPLE, again=False)
    texts = [(tmp_path / name / "ledger.jsonl").read_text() for name in ("one", "two")]
    assert not any(person in text for person in PEOPLE for text in texts)
    assert not set(json.loads(texts[0])["people"]) & set(json.loads(texts[1])["people"])
    for file in (tmp_path / "one").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o700


def test_an_entry_cut_short_by_a_kill_is_dropped_and_a_damaged_one_is_an_error(tmp_path: Path) -> None:
    ledger, file = Ledger(tmp_path), tmp_path / "ledger.jsonl"
    ledger.enter(USER, PEOPLE, again=False)
    first = file.read_bytes()
    file.write_bytes(first + first[: len(first) // 2])
    assert ledger.enter(USER, {"eve": 1}, again=False).of_all == Sum(2.0)
    assert file.read_bytes().startswith(first)
    assert len(file.read_bytes().splitlines()) == 2
    file.write_bytes(b"{\n" + first)
    with refused("EPS-L015", "line 1"):
        ledger.enter(USER, {"kim": 1}, again=False)


def test_a_lost_key_is_an_error(tmp_path: Path) -> None:
    Ledger(tmp_path).enter(USER, PEOPLE, again=False)
    (tmp_path / "key").unlink()
    with refused("EPS-L014"):
        Ledger(tmp_path).enter(USER, {"eve": 1}, again=True)
