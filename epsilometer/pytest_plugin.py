"""A pytest fixture for tests of one's own rewriter; pytest finds it where epsilometer is installed.

def test_it_hides_who_wrote(assert_leaks_at_most):
    assert_leaks_at_most(rewrite, texts, loss=1.0, identifiers=0.05)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest


@pytest.fixture
def assert_leaks_at_most() -> Callable[..., None]:
    """Returns a check that fails where a rewriter leaks more than it may, or where that is not settled."""
    import polars as pl

    from epsilometer.auditing.gate import PASSED, STANDARD
    from epsilometer.auditing.gating import Rules, gate, subject
    from epsilometer.auditing.text_audit import Named
    from epsilometer.core.errors import UserError
    from epsilometer.report.gate import Decision, lines
    from epsilometer.runtime.withholding import withheld
    from epsilometer.studies.anonymity.gating import AttributeLimit

    def check(
        rewrite: Named,
        texts: Sequence[str] | pl.DataFrame,
        loss: float | None = None,
        *,
        delta_at_4: float | None = None,
        identifiers: float | tuple[float, Sequence[str]] | None = None,
        attribute: tuple[float, str] | None = None,
        epsilon: float | None = None,
        budget: int = 20_000,
    ) -> None:
        """rewrite, texts: as in `epsilometer.audit`; delta_at_4: the largest delta at 4 nats, the tail that an average
        loss hides; identifiers: the largest share of those of each kind that may survive, planted or recorded
        (`surviving_identifiers`), and if not all, of which kinds; attribute: the largest loss of who infers it from
        rewrites, and its column in texts, a table then; budget: rewrites at most.
        """
        rate, kinds = identifiers if isinstance(identifiers, tuple) else (identifiers, None)
        rules = Rules(loss, delta_at_4, max_identifiers=rate, identifiers=kinds, budget=budget)
        of, table = subject(texts, rewrite, epsilon), texts if isinstance(texts, pl.DataFrame) else None
        if attribute is not None and (table is None or attribute[1] not in table.columns):
            raise UserError(f"an attribute is a column of texts, and there is none called {attribute[1]!r}")
        counted = [] if attribute is None or table is None else [AttributeLimit(table, attribute[1], attribute[0])]
        with withheld():
            verdict = gate(of, rules, counted=counted)
        decision = Decision.of(of, STANDARD, verdict)
        assert verdict.status == PASSED, "\n".join(lines(decision))

    return check
