"""Learning curves of classifiers trained on rewritten texts, at the leaderboard's budgets.

Like `benchmarks.learning`, for fast mechanisms and all texts. Each row is a mechanism, a budget and a classifier. The
figure is the macro F1 of the task after training on a number of rewritten texts: the mean over five folds, with a 99 %
interval of Student's t. Each fold trains on four parts and tests on the fifth.

Budgets come from the leaderboard's finished cells for texts of equal length (runs/leaderboard). They are the budgets
with an average loss of .5, 1, 2 and 4 nats, or the largest budget searched, each shown with its loss. Another is the
largest budget with an average loss of at most one nat and a delta at 4 nats of at most .01. For MVC these losses are
lower bounds from attacks, so its losses may be larger. Texts are those of the training split outside the leaderboard's
public part, from which exemplars are chosen. Labels are not privatised.

Without a file the texts are generated requests, and no page is written.

usage: python -m benchmarks.curves [--snips FILE]
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import yaml

from benchmarks.learning import FOLDS, Labelled, rewrites, rows
from benchmarks.shared.pages import RESULTS, ROOT, head, write
from epsilometer.auditing.text_audit import mechanism, on_public
from epsilometer.core import tables
from epsilometer.core.mechanism import Mechanism
from epsilometer.corpora import synthetic
from epsilometer.corpora.parts import hashed
from epsilometer.corpora.reading import read
from epsilometer.studies.leaderboard.params import cell_name
from epsilometer.studies.leaderboard.tables import AVERAGE, EQUAL, ROWS, rows_path

FOLDER = RESULTS / "teda_curves"
BOARD = ROOT / "runs/leaderboard"
PROFILE = ROOT / "profiles/leaderboard.yaml"
CHEAP = (
    "exemplars", "exemplars_levels", "exemplars_distance", "exemplars_sets", "tem", "exponential", "diffractor", "mvc",
    "dp_mlm",
)  # fmt: skip
SHARES = (64, 16, 4, 1)
TAIL = 1.0  # nats; of the cell with this target, the budget for a small delta is shown, too


def budgets(dataset: str, name: str) -> dict[float, str]:
    """Return a mechanism's budgets on the leaderboard with their labels; empty if none of its cells has run."""
    called = {}
    for nats in (0.5, 1.0, 2.0, 4.0):
        path = BOARD / rows_path(cell_name(dataset, name, nats))
        if not path.is_file():
            continue
        cell = tables.read(path, ROWS).filter(pl.col("lengths") == EQUAL, pl.col("epsilon").is_not_null())
        for epsilon, budget, average in cell.select("epsilon", "budget", "average").iter_rows():
            if budget == AVERAGE:
                called[epsilon] = f"{average:.2g} nats"
            elif nats == TAIL:
                called.setdefault(epsilon, "delta at 4 of 0.01")
    return dict(sorted(called.items()))


def divided(table: pl.DataFrame, share: float, name: str) -> tuple[Labelled, list[str]]:
    """Return the private training texts with their intents, and the public texts, divided by the leaderboard's hash."""
    places = hashed(table)
    private = table.filter(pl.Series(places >= share), split="train")
    texts, labels = private["text"].to_list(), private["intent"].cast(pl.String).to_list()
    of = Labelled(name, texts, {"intent": labels}, shares=SHARES)
    return of, table.filter(pl.Series(places < share))["text"].to_list()


def built(name: str, entry: Mapping[str, Any], public: Path) -> Mechanism:
    """Return a mechanism of the leaderboard's profile, built on embedded resources or on the public texts."""
    kind = Path(entry.get("file", name)).stem
    settings = entry.get("settings", {})
    return mechanism(kind, on_public(kind, settings, public) if entry["resource"] == "public" else settings)


def table(of: Labelled, public: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a data set's table."""
    entries = yaml.safe_load(PROFILE.read_text())["leaderboard"]["mechanisms"]
    columns = " | ".join(f"{size:,}, clean | {size:,}, rewritten" for size in of.sizes)
    yield from ("", f"## {of.name}", "", f"{len(of.texts):,} texts, each of which is tested once.", "")
    yield f"| mechanism | epsilon | label | classifier | {columns} |"
    yield "|---" * (4 + 2 * len(of.sizes)) + "|"
    yield from rows(of, "clean texts", "–", of.texts, ())
    with TemporaryDirectory() as folder:
        listed = Path(folder) / "public.parquet"
        pl.DataFrame({"text": public}).write_parquet(listed)
        for name in CHEAP:
            begun, called = time.process_time(), budgets(of.name, name)
            if not called:
                continue
            entered = built(name, entries[name], listed)
            for (epsilon, said), texts in zip(called.items(), rewrites(of, name, entered, list(called)), strict=True):
                yield from rows(of, name, f"{epsilon:.3g} ({said})", texts, ())
            print(f"{name}: {time.process_time() - begun:.0f} s of processor time", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table; with a file of texts, write results/teda_curves."""
    parser = ArgumentParser(prog="python -m benchmarks.curves", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--snips", metavar="FILE", type=Path, help="public requests, with a column `intent`")
    options = parser.parse_args(arguments)
    sets = yaml.safe_load(PROFILE.read_text())["datasets"]
    if options.snips is None:
        requests = synthetic.generate("queries", 600, 0)
        of, public = divided(requests, sets["requests"]["public_part"], "requests")
    else:
        of, public = divided(read(options.snips, labels=["intent"]), sets["snips"]["public_part"], "snips")
    begun = time.process_time()
    lines = list(table(of, public))
    minutes = (time.process_time() - begun) / 60
    lines = (
        head(
            "Learning curves at the leaderboard's budgets",
            "curves --snips FILE",
            f"Macro F1 over {FOLDS} folds. {minutes:,.0f} minutes of processor time.",
        )
        + lines
    )
    print(*lines, sep="\n")
    if options.snips:
        write(lines, FOLDER)


if __name__ == "__main__":
    main(sys.argv[1:])
