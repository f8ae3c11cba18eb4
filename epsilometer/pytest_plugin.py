"""A pytest fixture for tests of one's own rewriter; pytest finds it where epsilometer is installed.

def test_it_hides_who_wrote(assert_leaks_at_most):
    assert_leaks_at_most(rewrite, texts, loss=1.0, identifiers=0.05)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict, Unpack

import pytest


class Leaks(TypedDict, total=False):
    """The most that may leak; what is left out is not limited.

    loss: of each attack, in nats; delta_at_4: the largest delta at 4 nats, the tail that an average loss hides;
    identifiers: the largest share of those of each kind that may survive, planted or recorded
    (`surviving_identifiers`), and if not all, of which kinds; attribute: the largest loss by attackers who
    infer it from rewrites, and its column in the texts, a table then; `a,b` joins two columns.
    """

    loss: float
    delta_at_4: float
    identifiers: float | tuple[float, Sequence[str]]
    attribute: tuple[float, str]


@pytest.fixture
def assert_leaks_at_most() -> Callable[..., None]:
    """Returns a check that fails where a rewriter leaks more than it may, or where that is not settled."""
    import polars as pl

    from epsilometer.auditing.gate import Rules, gate, subject
    from epsilometer.auditing.gate_statistics import PASSED, STANDARD
    from epsilometer.auditing.text_audit import Named
    from epsilometer.core.errors import UserError, unknown
    from epsilometer.corpora.joint import with_joint
    from epsilometer.report.gate import Decision, lines
    from epsilometer.runtime.withholding import withheld
    from epsilometer.studies.anonymity.gating import AttributeLimit

    def attributes(texts: Sequence[str] | pl.DataFrame, most: float, column: str) -> AttributeLimit:
        if isinstance(texts, pl.DataFrame):
            texts = with_joint(texts, [column])
        if not isinstance(texts, pl.DataFrame) or column not in texts.columns:
            raise UserError(f"an attribute is a column of texts, and there is none called {column!r}")
        return AttributeLimit(texts, column, most)

    def check(
        rewrite: Named,
        texts: Sequence[str] | pl.DataFrame,
        *,
        epsilon: float | None = None,
        budget: int = 20_000,
        **leaks: Unpack[Leaks],
    ) -> None:
        """rewrite, texts, epsilon: as in `epsilometer.audit`; budget: rewrites at most; leaks: `Leaks`."""
        for name in leaks.keys() - Leaks.__annotations__.keys():
            raise unknown("limit", name, Leaks.__annotations__)
        identifiers = leaks.get("identifiers")
        rate, kinds = identifiers if isinstance(identifiers, tuple) else (identifiers, None)
        rules = Rules(
            leaks.get("loss"), leaks.get("delta_at_4"), max_identifiers=rate, identifiers=kinds, budget=budget
        )
        counted = [attributes(texts, *leaks["attribute"])] if "attribute" in leaks else []
        of = subject(texts, rewrite, epsilon)
        with withheld():
            verdict = gate(of, rules, counted=counted)
        decision = Decision.of(of, STANDARD, verdict)
        assert verdict.status == PASSED, "\n".join(lines(decision))

    return check
