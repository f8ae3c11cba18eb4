"""Guesses of attacks by trial, through every entry point that plays the game."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import chdir
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.goldens.recording import recorded, shown
from tests.goldens.studies import run
from tests.goldens.texts import call, write_texts

EPSILONS = {"coin": (0.5, 2.0), "tem": (5.0, 9.0), "plain": (1.0, 4.0)}  # a law on a grid, a general law, no law
SETTINGS = {"coin": {}, "tem": {"resource": "vectors.txt"}, "plain": {}}
PLAIN = """\
def rewrite(text, epsilon, rng):
    return " ".join(word if rng.random() < epsilon / (1 + epsilon) else "x" for word in text.split())
"""
SEEDS = (0, 1)


def results(of: str) -> dict[str, Any]:
    """Return the guesses on a mechanism by entry point and seed, or those in a project, by seed and round."""
    if of == "project":
        return _in_projects()
    by_run: dict[str, Any] = {}
    with TemporaryDirectory() as folder, chdir(folder):
        write_texts()
        Path("plain.py").write_text(PLAIN)
        for seed in SEEDS:
            for name, play in _plays(of, seed).items():
                records = recorded()
                play()
                assert records, f"{name} guessed nothing"
                by_run[f"{name}, seed {seed}"] = shown(records)
    return by_run


def _in_projects() -> dict[str, Any]:
    """Return the guesses of audits and of re-audits, whose round is another."""
    by_run: dict[str, Any] = {}
    for seed in SEEDS:
        for again in (0, 1):
            records = recorded()
            with TemporaryDirectory() as folder:
                Path(folder, f"plain_{seed}_{again}.py").write_text(PLAIN)  # a process loads each module name once
                run(
                    Path(folder),
                    _reaudited(seed, again),
                    ("prepare", "vectors", "embed", "trials", "rewrite", "attack"),
                )
            by_run[f"seed {seed}, round {again}"] = shown(records)
    return by_run


def _plays(name: str, seed: int) -> dict[str, Callable[[], object]]:
    import epsilometer
    from epsilometer.auditing.text_audit import as_mechanism

    texts = Path("requests.txt").read_text().splitlines()
    design = epsilometer.Design(temperature=0, seed=seed)
    low, high = EPSILONS[name]
    at, settings = f"{low},{high}", SETTINGS[name]
    mechanism = "plain.py" if name == "plain" else name
    attacks = "lexical,length" if name == "plain" else "lexical,length,likelihood"
    of = ("--mechanism", mechanism, "--seed", seed, "--attacks", attacks)
    of += tuple(f"--set={key}={value}" for key, value in settings.items())
    built = as_mechanism(mechanism, settings, texts)
    plays: dict[str, Callable[[], object]] = {
        "audit": lambda: call("audit", "requests.txt", *of, "--epsilons", at, "--trials", 250, "--temperature", 0),
        "all": lambda: call("audit", "requests.txt", *of, "--epsilons", at, "--trials", 100, "--candidates", "all"),
        "units": lambda: call("audit", "requests.txt", *of, "--epsilons", at, "--trials", 40, "--units"),
        "worst": lambda: call("audit", "requests.txt", *of, "--epsilons", at, "--trials", 400, "--worst"),
        "calibrate": lambda: epsilometer.calibrate(
            texts,
            mechanism,
            target=1.0,
            settings=settings,
            search=epsilometer.Search(low=low, high=high, budget=600),
            design=design,
        ),
        "compare": lambda: epsilometer.compare(texts, (built, low), (built, high), trials=100, design=design),
    }
    gate = ("gate", "requests.txt", *of, "--max-loss", 1, "--max-delta-at-4", 0.05, "--budget", 600)
    for epsilon in (low, high):
        plays[f"gate {epsilon}"] = partial(call, *gate, "--epsilon", epsilon)
    return plays


def _reaudited(seed: int, again: int) -> dict[str, Any]:
    """Return the parameters of a project with the mechanisms; a re-audit has another round."""
    of = {
        "coin": {"resource": "data/prepared/requests.parquet"},
        "tem": {"resource": "data/vectors/own.npz"},
        "plain": {"file": f"plain_{seed}_{again}.py"},
    }
    cells = {
        f"requests-{name}": {"dataset": "requests", "mechanism": name, "epsilons": list(at), **of[name]}
        for name, at in EPSILONS.items()
    }
    return {
        "audit": {"seed": seed, "round": again},
        "datasets": {"requests": {"source": "requests.txt", "public": True}},
        "embedding": {"model": "all-MiniLM-L6-v2"},
        "trials": {"count": 150, "candidates": 2, "temperature": 0},
        "words": {"sources": {"own": "vectors.txt"}},
        "mechanisms": {},
        "cells": cells,
        "attacks": {"lexical": {}, "likelihood": {}, "length": {}, "embedding": {"model": "all-MiniLM-L6-v2"}},
    }
