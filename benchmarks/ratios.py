"""Processor time of `gate`, `exact` and an audit of a function, as ratios to a fixed loop that runs in between.

The ratios hardly depend on the machine. The record, `benchmarks/ratios.json`, has the ratios of an earlier commit. CI
prints the table, and marks work that takes twice its recorded time or more; nothing fails. Each command is a process of
its own on one thread, so the time includes its imports. Of several runs the smallest time counts.

usage: python -m benchmarks.ratios [--runs N] [--record]     --record: replace the record
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.shared.pages import ROOT, dated, table
from epsilometer.core.atomic import write_text
from epsilometer.corpora.synthetic import generate

RECORD = ROOT / "benchmarks/ratios.json"
DOUBLED = 2.0
_TEXTS = 100
_CLI = "-m epsilometer.cli"
_LOOP = "x = 0\nfor number in range(10_000_000): x = (x * 31 + number) % 1_000_003"
_AUDIT = """
from pathlib import Path
import epsilometer

def rewrite(text, epsilon, rng):
    return text if rng.random() < 0.5 else "nothing"

epsilometer.audit(Path("texts.txt").read_text().splitlines(), rewrite, [1.0])
"""
WORK = {
    "gate": shlex.split(f"{_CLI} gate texts.txt --mechanism randomized_response --epsilon 1 --limit which_text=1.5"),
    "exact": shlex.split(f"{_CLI} exact texts.txt --mechanism tem --epsilons 1,5"),
    "audit of a function": ["-c", _AUDIT],
}


def measured(runs: int) -> dict[str, float]:
    """Return the ratio of each work's processor time to that of the loop."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_text("\n".join(generate("queries", _TEXTS, 0)["text"]), folder / "texts.txt")
        seconds: dict[str, list[float]] = {work: [] for work in ("loop", *WORK)}
        for _ in range(runs):
            for work, command in WORK.items():
                seconds["loop"].append(_processor(["-c", _LOOP], folder))
                seconds[work].append(_processor(command, folder))
    loop = min(seconds.pop("loop"))
    return {work: round(min(each) / loop, 2) for work, each in seconds.items()}


def rows(now: Mapping[str, float], recorded: Mapping[str, float]) -> list[str]:
    """Return the rows of the table: the work, its ratio, the recorded ratio, and a mark if it has doubled."""
    lines = []
    for work, ratio in now.items():
        before = recorded.get(work)
        mark = "**doubled**" if before and ratio >= DOUBLED * before else ""
        lines.append(f"| {work} | {ratio:.2f} | {'not recorded' if before is None else f'{before:.2f}'} | {mark} |")
    return lines


def _processor(command: Sequence[str], folder: Path) -> float:
    """Return the seconds of processor time of a Python process and its children. Raises CalledProcessError."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = ArgumentParser(prog="python -m benchmarks.ratios")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--record", action="store_true", help="replace the record")
    options = parser.parse_args(arguments)
    record = json.loads(RECORD.read_text()) if RECORD.is_file() else {"ratios": {}}
    now = measured(options.runs)
    about = f"Multiples of the processor time of a fixed loop. Recorded: {record.get('when', 'nothing')}"
    print("\n".join(table("Processor time", about, "| work | now | recorded | |", rows(now, record["ratios"]))))
    if options.record:
        write_text(json.dumps({"when": dated(), "ratios": now}, indent=2) + "\n", RECORD)


if __name__ == "__main__":
    main(sys.argv[1:])
