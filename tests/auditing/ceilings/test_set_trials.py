"""Trials of sets audit every pair of a set equally often, and each text of a pair is equally often the source."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from epsilometer.auditing.ceilings.set_trials import draw_trials

FALSE_ALARM = 1e-6


def test_a_trial_is_a_pair_of_its_set() -> None:
    sets = [np.arange(10 * i, 10 * i + 10) for i in range(7)] * 10
    trials = draw_trials(sets, seed=3)
    assert len(trials.target) == 70
    assert (trials.candidates // 10 == np.tile(np.arange(7), 10)[:, None]).all()
    assert (trials.candidates[:, 0] != trials.candidates[:, 1]).all()
    again, other = draw_trials(sets, seed=3), draw_trials(sets, seed=4)
    assert (again.candidates == trials.candidates).all()
    assert (other.candidates != trials.candidates).any()


def test_pairs_and_sources_are_uniform() -> None:
    """Chi-squared tests of the 45 pairs, and of the ten sources; each errs once in 10^6."""
    trials = draw_trials([np.arange(10)] * 20_000)
    number = {pair: i for i, pair in enumerate(combinations(range(10), 2))}
    places = [number[tuple(sorted(pair))] for pair in trials.candidates.tolist()]
    assert stats.chisquare(np.bincount(places, minlength=45)).pvalue > FALSE_ALARM
    assert stats.chisquare(np.bincount(trials.source, minlength=10)).pvalue > FALSE_ALARM
    assert stats.chisquare(np.bincount(trials.target, minlength=2)).pvalue > FALSE_ALARM


def test_a_set_of_one_text_is_refused() -> None:
    with pytest.raises(ValueError, match="got 1"):
        draw_trials([np.array([3])])
