"""Estimators of other libraries on the truth bench, with the same samples as this project's estimators.

    python -m benchmarks.peers.truth samples FOLDER        here: 20 seeds of 10,000 samples of every mechanism
    ENVIRONMENT/bin/python benchmarks/peers/truth_bounds.py PEER FOLDER      there, for each peer; needs no epsilometer
    python -m benchmarks.peers.truth table FOLDER          here: written to results/truth-peers

Each peer needs a separate environment, since their versions conflict:

    jax_privacy      pip install jax-privacy==2.0.0
    ldp_audit        pip install numpy scipy numba==0.68.1 statsmodels==0.15.0; python -m benchmarks.peers.fetch
    dp_auditorium    pip install numpy etils typing_extensions; python -m benchmarks.peers.fetch
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.shared import pages
from epsilometer.studies.bench.bench import summary, truths
from epsilometer.studies.bench.estimators import ERROR, OURS
from epsilometer.studies.bench.known import KnownMechanism
from epsilometer.studies.bench.mechanisms import every
from epsilometer.studies.bench.samples import samples

COUNT, SEEDS = 10_000, 20
LIMIT = 50.0  # nats; infinite losses are clipped to this, since the peers need finite thresholds


def write(folder: Path) -> None:
    """Write the samples of each mechanism to an archive: first, loss and guess, [seeds, n] each; sets for ldp-audit."""
    folder.mkdir(parents=True, exist_ok=True)
    for mechanism in every():
        sampled = [samples(mechanism, COUNT, seed) for seed in range(SEEDS)]
        arrays = {
            "first": np.array([sample.first for sample in sampled]),
            "loss": np.clip([sample.loss for sample in sampled], -LIMIT, LIMIT),
            "guess": np.array([sample.guess for sample in sampled]),
        }
        if " k=2 " in mechanism.name:
            arrays["sets"] = np.array([sample.outputs[:, :2] for sample in sampled])
        about = json.dumps({"mechanism": mechanism.name, "delta": mechanism.delta, "error": ERROR})
        np.savez(folder / f"{mechanism.name.replace(' ', '_')}.npz", about=about, **arrays)


def lines(folder: Path) -> Iterator[str]:
    """Yield the lines of the page: the bounds of each peer compared with this project's."""
    said = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    peers = {name: column for peer in said for name, column in peer["columns"].items()}
    yield "# The truth bench: peers' estimators\n"
    yield (
        "Written by `python -m benchmarks.peers.truth`; do not edit.\n\n"
        f"{pages.dated()} Medians of {SEEDS} seeds of {COUNT:,} "
        "samples, the same for all. Brackets contain the number of bounds above the truth, of which "
        f"{ERROR:.0%} are allowed. Losses are in nats. *pure* is the largest loss of the pair; with a delta, it is the "
        "smallest epsilon that holds. The columns are explained below.\n"
    )
    yield f"| mechanism | pure | ours, abstention | {' | '.join(peers)} |"
    yield f"|---|{'---|' * (len(peers) + 2)}"
    total = dict.fromkeys(["ours", *peers], 0)
    for mechanism in every():
        truth = truths(mechanism)["pure"]
        bounds = {"ours": _ours(mechanism)} | {name: column.get(mechanism.name, []) for name, column in peers.items()}
        facts = {name: summary(np.array(each), truth) for name, each in bounds.items() if each}
        for name, fact in facts.items():
            total[name] += fact["above"]
        cells = [f"{facts[name]['bound']:.3f} ({facts[name]['above']})" if name in facts else "" for name in bounds]
        yield f"| {mechanism.name} | {truth:.4g} | {' | '.join(cells)} |"
    yield f"| above the truth, in all | | {' | '.join(map(str, total.values()))} |\n"
    for peer in said:
        yield f"- **{peer['peer']}** ({peer['version']}): {peer['note']}"


def _ours(mechanism: KnownMechanism) -> list[float]:
    (abstention,) = [estimator.bound for estimator in OURS if estimator.name == "abstention"]
    return [abstention(samples(mechanism, COUNT, seed), ERROR, mechanism.delta) for seed in range(SEEDS)]


def main(arguments: list[str]) -> None:
    """Write samples, or print the table and write it to results/."""
    action, folder = arguments[0], Path(arguments[1])
    if action == "samples":
        write(folder)
    else:
        page = list(lines(folder))
        print(*page, sep="\n")
        pages.write(page, pages.RESULTS / "truth-peers")


if __name__ == "__main__":
    main(sys.argv[1:])
