"""Machine-readable output of commands, on generated texts and with fixed seeds."""

from __future__ import annotations

import csv
import json
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.goldens.system_words import restart
from tests.goldens.texts import call, write_texts
from tests.goldens.values import TIMED, compact, digest

_TEM = "--mechanism tem --set resource=vectors.txt"
_FAST = "--attacks lexical,likelihood,length"
_GATE = f"gate requests.txt {_FAST} --budget 600 --json gate.json"
COMMANDS = {
    "audit": f"audit requests.txt {_TEM} {_FAST},embedding --epsilons 5,9 --trials 60 --json",
    "audit of sets": f"audit requests.txt --mechanism coin {_FAST} --epsilons 1 --trials 200 --candidates 4 --json",
    "audit with a prior": f"audit requests.txt --mechanism coin {_FAST} --epsilons 1 --trials 200 --prior .7,.3 --json",
    "audit of units": f"audit requests.txt {_TEM} {_FAST} --epsilons 5,9 --trials 40 --units --json",
    "audit of the worst pair": f"audit requests.txt {_TEM} {_FAST} --epsilons 5 --trials 400 --worst --json",
    "audit of identifiers": f"audit requests.txt {_TEM} --epsilons 9 --identifiers all --trials 40 --json",
    "audit by linking": "audit people.jsonl --mechanism coin --epsilons 2 --facts claims --trials 40 --linkers bm25 "
    "--json",
    "audit of an attribute": "audit audited.csv --rewrites rewrites.csv --attribute gender --keep rating "
    "--labelled labelled.csv --kinds linear --json",
    "audit of rewrites": f"audit --rewrites rewrites.csv {_FAST} --json",
    "exact": f"exact requests.txt {_TEM} --epsilons 5,9 --trials 60 --json",
    "exact of few": "exact requests.txt --mechanism coin --epsilons 1,2 --json",
    "gate": f"{_GATE} {_TEM} --epsilon 9 --max-loss 1",
    "gate of the tail": f"{_GATE} --mechanism coin --epsilon 1 --max-delta-at-4 0.05",
    "gate of an attribute": "gate reviews.csv --mechanism coin --epsilon 1 --attribute gender --max-attribute-loss 1 "
    "--budget 600 --json gate.json",
    "calibrate": "calibrate requests.txt --mechanism coin --target 1 --budget 600 --json",
    "calibrate by law": f"calibrate requests.txt {_TEM} --target 1 --measure average --low 2 --high 20 --width 1.1 "
    "--json",
    "compare": "compare coin=1 coin=3 requests.txt --trials 100 --json",
    "claims": "claims tem --vectors vectors.txt --vocabulary 60 --epsilon 5 --json",
    "claims as published": "claims tem --as-published --vectors vectors.txt --vocabulary 60 --epsilon 5 --json",
    "plan": "plan --claim 2 --power .9 --json",
    "account": "account --texts 500 --batch 50 --epochs 2 --sigma 1 --json",
    "account of directions": "account --texts 500 --batch 50 --epochs 2 --noise vmf --kappa 5 --dimensions 20 --json",
    "canaries": "canaries reviews.csv --label rating --count 60 --seed 4 --out planted.csv --key key.csv",
    "one-run": "one-run scores.csv --key key.csv --delta 1e-4 --claim 1,1e-4 --json",
    "check a mechanism": "check --mechanism coin --json",
    "check an attack": "check --attack lexical --json",
    "check a metric": "check --metric jaccard --json",
    "rewrite": f"rewrite requests.txt {_TEM} --epsilon 9 --out private.txt",
    "rewrite by a seed": f"rewrite reviews.csv {_TEM} --epsilon 9 --seed 3 --out private.csv",
    "bench": "bench --json",
    "anonymize": "anonymize requests.txt --labelled labelled.csv --attribute gender --kind linear --rows 12 --set k=8 "
    "--set q=2 --seed 3 --vectors vectors.txt --json",
}
GROUPS = {"audit": "audit", "bench": "bench"} | dict.fromkeys(("gate", "calibrate", "compare"), "gate")  # by first word
# Fields that differ between runs of the same code.
_LEFT_OUT = TIMED | {"version", "time", "date", "commit", "folder", "file", "path"}


def results(of: str) -> dict[str, Any]:
    """Return exit code, standard output and written files of each command of a group."""
    by_name: dict[str, Any] = {}
    with TemporaryDirectory() as folder, chdir(folder):
        write_texts()
        for name, command in COMMANDS.items():
            if of != GROUPS.get(name.split()[0], "other"):
                continue
            if name == "one-run":
                _write_scores()
            before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
            restart()
            code, said = call(*command.split())
            assert code != 2, f"{name} ended in an error"
            written = [
                path for path in sorted(Path().iterdir()) if path.is_file() and before.get(path) != path.read_bytes()
            ]
            files = {path.name: _shown(path.read_text(encoding="utf-8")) for path in written}
            by_name[name] = (
                {"exit code": code} | ({"output": _shown(said)} if "--json gate" not in command else {}) | files
            )
    return by_name


def _write_scores() -> None:
    """Write scores of canaries that tell some of those that took part."""
    with Path("key.csv").open(encoding="utf-8") as key, Path("scores.csv").open("w", encoding="utf-8") as scores:
        scores.write("canary,score\n")
        for row in csv.DictReader(key):
            scores.write(
                f"{row['canary']},{int(row['included']) * (int(row['canary']) % 3 > 0) + 0.01 * int(row['canary'])}\n"
            )


def _shown(content: str) -> Any:
    try:
        return compact(_without_times(json.loads(content)))
    except ValueError:
        return f"{content[:40]!r} {digest(content)}"


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_times(part) for name, part in value.items() if name not in _LEFT_OUT}
    return [_without_times(part) for part in value] if isinstance(value, list) else value
