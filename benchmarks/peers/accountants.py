"""Processor time of accountants and auditors of other libraries compared with this project, on one thread.

The peers are libraries that this project does not need. Install them into a separate environment with the same Python,
and add its packages after those of this project:

    pip install dp-accounting==0.6.0 jax-privacy==2.0.0          in the peers' environment
    python -m benchmarks.peers.fetch                             for dp_auditorium
    PYTHONPATH=ENVIRONMENT/lib/python3.11/site-packages python -m benchmarks.peers.accountants

Opacus is in the test extra. Rows without an installed peer are left out. Both sides take turns; figures are medians of
three runs. Two rows compare slightly different computations. This project's one-run bounds include their ceilings, and
use curves of Gaussians where the peer's third method is Clopper and Pearson's. Its bound of 10^6 scores searches for
the largest epsilon, whereas the peer tests one epsilon.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.peers import truth_bounds
from benchmarks.peers.__main__ import rates, timed
from epsilometer.accounting.dominating_pairs import Added, Removed
from epsilometer.accounting.loss_distribution import bracket
from epsilometer.accounting.renyi import RELEASED, renyi_on
from epsilometer.accounting.steps import Step
from epsilometer.auditing.estimation.abstention import worst_output
from epsilometer.studies.training.one_run.scores import one_run

SIGMA, RATE, DELTA, ERROR = 1.0, 0.01, 1e-5, 0.005
DIRECTIONS = [Step((Removed(SIGMA, RATE),)), Step((Added(SIGMA, RATE),))]
STEPS = (1_000, 10_000, 100_000)
GUESSES, SCORES = 100_000, 1_000_000

Side = Callable[[], object]


def one_run_bounds() -> tuple[Side, Side]:
    from jax_privacy.auditing import CanaryScoreAuditor

    draw = np.random.default_rng(0)
    coins = draw.random(GUESSES) < 0.5
    scores = draw.normal(size=GUESSES) + coins
    auditor = CanaryScoreAuditor(scores[coins], scores[~coins])
    names = ("epsilon_one_run", "epsilon_one_run_fdp", "epsilon_clopper_pearson")
    return (
        lambda: [getattr(auditor, name)(ERROR, DELTA) for name in names],
        lambda: one_run(scores[coins], scores[~coins], DELTA, alpha=2 * ERROR),
    )


def loss_distributions(steps: int) -> tuple[Side, Side]:
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    return (
        lambda: from_gaussian_mechanism(SIGMA, sampling_prob=RATE).self_compose(steps).get_epsilon_for_delta(DELTA),
        lambda: bracket(DIRECTIONS, steps, DELTA),
    )


def renyi_epsilons(sigma: float, rate: float, steps: int) -> tuple[Side, Side]:
    from opacus.accountants.analysis import rdp

    orders = list(RELEASED)
    directions = [Step((Removed(sigma, rate),)), Step((Added(sigma, rate),))]

    def theirs() -> object:
        losses = rdp.compute_rdp(q=rate, noise_multiplier=sigma, steps=steps, orders=orders)
        return rdp.get_privacy_spent(orders=orders, rdp=losses, delta=DELTA)

    return theirs, lambda: renyi_on(RELEASED, directions, steps, DELTA)


def confident_guesses() -> tuple[Side, Side]:
    draw = np.random.default_rng(0)
    first = draw.random(SCORES) < 0.5
    loss = draw.normal(size=SCORES) + np.where(first, 0.5, -0.5)
    package = truth_bounds.CODE / "dp_auditorium/python/dp_auditorium/dp_auditorium"
    for name in ("", ".configs", ".testers"):
        truth_bounds.bare(f"dp_auditorium{name}", package / name.lstrip("."))
    from dp_auditorium.configs.privacy_property import ApproximateDp
    from dp_auditorium.configs.property_tester_config import HistogramPropertyTesterConfig
    from dp_auditorium.testers.histogram_tester import HistogramTester

    reach = float(np.quantile(np.abs(loss), 0.99))
    claim = ApproximateDp(epsilon=1.0, delta=DELTA)

    def theirs() -> object:
        tester = HistogramTester(HistogramPropertyTesterConfig(False, 20, -reach, reach, claim))
        return tester.reject_property(tester.estimate_lower_bound(loss[first], loss[~first], ERROR))

    return theirs, lambda: worst_output((loss > 0) == first, np.abs(loss), 2, 2 * ERROR, delta=DELTA)


ROWS: dict[tuple[str, str], Callable[[], tuple[Side, Side]]] = {
    ("one-run bounds, 100,000 guesses", "jax_privacy"): one_run_bounds,
    **{(f"loss distribution, {n:,} steps", "dp_accounting"): lambda n=n: loss_distributions(n) for n in STEPS},
    ("Renyi, sigma 1, rate .01, 1,000 steps", "opacus"): lambda: renyi_epsilons(1.0, 0.01, 1_000),
    ("Renyi, sigma .7, rate .004, 10,000 steps", "opacus"): lambda: renyi_epsilons(0.7, 0.004, 10_000),
    ("Renyi, sigma 2, rate .02, 5,000 steps", "opacus"): lambda: renyi_epsilons(2.0, 0.02, 5_000),
    ("most confident guesses, 10^6 scores", "dp_auditorium"): confident_guesses,
}


def lines() -> Iterator[str]:
    """Yield the lines of the table in Markdown."""
    yield "| question | peer | peer, ms | ours, ms | times as fast |"
    yield "|---|---|---|---|---|"
    for (question, peer), make in ROWS.items():
        try:
            theirs, ours = make()
        except ImportError:
            yield f"| {question} | {peer}: not installed | | | |"
            continue
        theirs(), ours()  # compiles, loads
        slow, fast = rates(lambda run, side=theirs: timed(1, side), lambda run, side=ours: timed(1, side))
        yield f"| {question} | {peer} | {1e3 / slow:,.1f} | {1e3 / fast:,.1f} | {fast / slow:.3g} |"


if __name__ == "__main__":
    os.environ["JAX_PLATFORMS"] = "cpu"
    print(f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, numpy {np.__version__}, one thread\n")
    for line in lines():
        print(line, flush=True)
