from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm, uniform

from epsilometer.core import system


def test_numpy_draws_its_laws_from_the_operating_system_s_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three KS tests at 1e-6 each, on fresh bits; and the bits are those words."""
    generator = system.generator()
    for sample, law in (
        (generator.random(2_000), uniform()),
        (generator.standard_normal(2_000), norm()),
        (generator.chisquare(7, 2_000), chi2(7)),
    ):
        assert kstest(sample, law.cdf).pvalue > 1e-6
    bits = np.random.default_rng(0).integers(0, 2**64, 1 << 10, np.uint64)
    monkeypatch.setattr(system, "system_words", lambda count: bits[:count])
    stream = system.generator()
    assert np.array_equal(stream.random(3), (bits[:3] >> np.uint64(11)) * 2.0**-53)
    assert stream.integers(0, 2**64, dtype=np.uint64) == bits[3]
    assert np.array_equal(system.words(stream, 5), bits[:5])


def test_a_system_s_generator_knows_itself() -> None:
    assert system.is_system(system.generator())
    seeded = np.random.default_rng(3)
    assert not system.is_system(seeded)
    assert np.array_equal(system.words(seeded, 4), np.random.default_rng(3).bit_generator.random_raw(4))
