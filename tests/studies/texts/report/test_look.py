"""What is worth a look besides losses."""

from __future__ import annotations

import pytest

from epsilometer.core.errors import UserError
from epsilometer.studies.texts.report import look
from tests.support.audited import audit, bare, estimates, text_of


def test_what_was_found_is_said() -> None:
    results = audit()
    sentences = text_of(look.section(results), results)
    assert "mvc on queries at ε = 5: 70.0% of the rewrites are one and the same" in sentences
    assert "dp_bart on queries: no attack does better than chance at the largest budget, ε = 2500" in sentences


def test_texts_and_rewrites_of_private_data_are_refused() -> None:
    """Nothing else hands a section texts that it finds itself."""
    results = audit()
    for read in (lambda: results.texts("letters"), lambda: results.rewrites("letters", "mvc", 5.0)):
        with pytest.raises(UserError, match=r"'letters' must not be shown.*public: true"):
            read()


def test_without_outputs_there_is_no_section() -> None:
    assert look.section(bare(estimates())) is None
