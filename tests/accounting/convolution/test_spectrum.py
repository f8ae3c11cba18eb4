"""The transform of a sum at few frequencies agrees with that at all, and the error is at most the stated bound."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.fft import irfft

from epsilometer.accounting.convolution import spectrum as module
from epsilometer.accounting.convolution.spectrum import Summand, spectrum

SIZE = 4096


def summands(kind: str, count: int = 400) -> list[Summand]:
    rng = np.random.default_rng(0)
    if kind == "coins":  # sums of coins lie on every second grid point, so the highest frequencies are as strong
        return [Summand(np.array([-1, 1]), np.array([share, 1 - share])) for share in rng.uniform(0.3, 0.7, count)]
    if kind == "tens":
        places = [10 * np.unique(rng.integers(-3, 4, 4)) for _ in range(count)]
    else:
        places = [np.unique(rng.integers(-20, 21, 9)) for _ in range(count)]
    return [Summand(at, rng.dirichlet(np.ones(len(at)))) for at in places]


@pytest.mark.parametrize("kind", ["coins", "tens", "spread"])
def test_at_few_frequencies_as_at_all(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    every = spectrum(summands(kind), SIZE)
    assert every.left_out == 0
    monkeypatch.setattr(module, "_BY_FFT", 0)
    monkeypatch.setattr(module, "_TABLE", 20_000)  # so that only the widest sums are transformed at all frequencies
    few = spectrum(summands(kind), SIZE)
    assert 0 < few.left_out < 1e-16
    assert (few.values == 0).sum() > SIZE / 4
    apart = float(np.linalg.norm(irfft(every.values, SIZE) - irfft(few.values, SIZE)))
    shares = irfft(few.values, SIZE)
    assert apart <= few.left_out + np.finfo(float).eps * 400 * few.terms * float(np.linalg.norm(shares))
    np.testing.assert_allclose(shares, irfft(every.values, SIZE), atol=1e-14)


def test_where_no_frequency_fades_all_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    nearly_certain = [Summand(np.array([0, 1]), np.array([1 - 1e-4, 1e-4]))] * 50
    every = spectrum(nearly_certain, SIZE)
    monkeypatch.setattr(module, "_BY_FFT", 0)
    few = spectrum(nearly_certain, SIZE)
    assert few.left_out == 0
    np.testing.assert_allclose(few.values, every.values, atol=1e-13)
