"""Rewrites made outside this process: by a program in any language, or recorded in a file."""

from __future__ import annotations

import difflib
import re
import shlex
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epsilometer.auditing.estimation.successes import estimate
from epsilometer.auditing.results.losses import Losses
from epsilometer.auditing.text_audit import Attacks, Pool, attacked, chosen_attacks, embed, say_what_is_left_out
from epsilometer.auditing.trials.design import STANDARD, Design, as_installed, check_trials
from epsilometer.auditing.trials.sampling import Trials, sample
from epsilometer.auditing.trials.unread import say_language
from epsilometer.core.errors import UserError, by_number
from epsilometer.core.file_names import no_column
from epsilometer.core.guarantees import NO_BUDGET, Guarantee, at_budget, check_epsilons, restored, stored
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.corpora import files
from epsilometer.corpora.reading import layout_free, prepare
from epsilometer.runtime import program
from epsilometer.runtime.progress import note
from epsilometer.runtime.withholding import WHY, shows

COLUMNS = ("original", "epsilon", "rewrite")

LINES = 1000  # texts per process

_SEEDS = 1 << 31
_BLOCK = 512  # candidate sets are drawn among this many texts at a time
_ROUNDS = 16  # approximate number of rounds of drawing sets


@dataclass(frozen=True)
class CommandMechanism:
    """A program as a mechanism: it reads texts on standard input and writes rewrites to standard output, one per line.

    command: split as a shell would, but run without a shell. `{epsilon}` is replaced by the privacy budget, `{seed}` by
    a number that differs from process to process. workers: the number of processes that run at a time. Each process
    gets at most `LINES` texts, for any number of workers. So if a program's rewrites depend only on its input and seed,
    they do not depend on the number of workers. The audit's seed does not determine the randomness of a program without
    `{seed}`. restarts: how often a process that crashes is started again on its texts.

    The mechanism has no claim. Raises UserError for a program that does not exist, keeps failing, does not end, or does
    not write one line per text.
    """

    command: str
    workers: int = 1
    restarts: int = 2
    wants_all: ClassVar[bool] = True

    @property
    def has_budget(self) -> bool:
        """True if the command contains `{epsilon}`."""
        return "{epsilon}" in self.command

    @property
    def shown_as(self) -> str:
        """The name of the program, as results show it."""
        return program_name(self.command)

    def __post_init__(self) -> None:
        arguments = self._arguments(1)
        if not arguments or shutil.which(arguments[0]) is None:
            raise UserError(
                f"the program of the command {self.command!r} does not exist; check its name and path", "EPS-A092"
            )
        for name, number in (("workers", self.workers), ("restarts", self.restarts)):
            if number < (least := int(name == "workers")):
                raise UserError(f"{name} of a command must be at least {least}, got {number}", "EPS-A093")
        for name in re.findall(r"\{(\w+)\}", self.command):
            if name != "epsilon" and difflib.get_close_matches(name.lower(), ["epsilon"]):
                raise UserError(
                    f"the command {self.command!r} contains {{{name}}}; the privacy budget is {{epsilon}}", "EPS-A094"
                )

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Return None: nothing is claimed."""
        return None

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Rewrite the texts; line breaks within a text become spaces. `noise` gives only the seeds of the processes."""
        lines = [" ".join(text.splitlines()) for text in texts]
        starts = range(0, len(lines), LINES)
        parts = [lines[start : start + LINES] for start in starts]
        seeds = [int(noise[start : start + 1].uniforms()[0, 0] * _SEEDS) for start in starts]
        with ThreadPoolExecutor(self.workers) as pool:
            running = [
                pool.submit(self._rewrites, part, epsilon, seed) for part, seed in zip(parts, seeds, strict=True)
            ]
            try:
                return Rewrites([rewrite for each in running for rewrite in each.result()])
            finally:
                pool.shutdown(wait=True, cancel_futures=True)  # after a failure, no further part starts

    def _rewrites(self, lines: Sequence[str], epsilon: float, seed: int) -> list[str]:
        """Return the output of a process for some texts; a process that crashes is started again."""
        for left in reversed(range(self.restarts + 1)):
            try:
                done = program.run(self._arguments(epsilon, seed), lines, self._named(epsilon))
            except OSError as error:
                raise UserError(f"{self._named(epsilon)} cannot be run ({error.strerror})", "EPS-A095") from error
            if not done.status:
                return self._checked(done.written, len(lines), epsilon)
            failed = f"{self._named(epsilon)} failed with exit status {done.status}"
            if left:
                note(f"{failed}; it is started again on the same {len(lines):,} texts ({left} attempts left)")
        said = "\n".join(done.said.decode(errors="replace").splitlines()[-5:])
        why = "" if not said else f":\n{said}" if shows() else f"; its standard error is {WHY}"
        raise UserError(f"{failed}{why}", "EPS-A096")

    def _checked(self, content: bytes, texts: int, epsilon: float) -> list[str]:
        """Return the written lines, one per text."""
        try:
            written = content.decode()
        except UnicodeDecodeError as error:
            raise UserError(
                f"{self._named(epsilon)} wrote output that is not UTF-8 (byte {error.start})", "EPS-A097"
            ) from error
        rewrites = [line.removesuffix("\r") for line in written.removesuffix("\n").split("\n")] if written else []
        if len(rewrites) != texts:
            raise UserError(
                f"{self._named(epsilon)} wrote {len(rewrites)} lines for {texts}; write exactly one line for each "
                "line read, an empty one for an empty rewrite",
                "EPS-A098",
            )
        return rewrites

    def _arguments(self, epsilon: float, seed: int = 0) -> list[str]:
        try:
            parts = shlex.split(self.command)
        except ValueError as error:
            raise UserError(f"the command {self.command!r} cannot be split into words: {error}", "EPS-A099") from error
        stands_for = {"{epsilon}": str(epsilon).removesuffix(".0"), "{seed}": str(seed)}
        for name, value in stands_for.items():
            parts = [part.replace(name, value) for part in parts]
        return parts

    def _named(self, epsilon: float) -> str:
        return f"the command {shlex.join(self._arguments(epsilon))!r}"


def program_name(command: str) -> str:
    """Return the file name of a command's program, and of a script that it runs: `python mine.py`.

    Other arguments are left out, since they may hold secrets.
    """
    try:
        program, *arguments = shlex.split(command)
    except ValueError:  # no program, or an open quote
        return "command"
    script = Path(next((each for each in arguments if not each.startswith("-")), ""))
    return " ".join([Path(program).name, *([script.name] if script.is_file() else [])])


def recorded(path: str | Path, layout: files.Layout = files.PLAIN) -> pl.DataFrame:
    """Read rewrites from a CSV, TSV, JSON lines or Parquet file.

    The columns are original, epsilon (Float64; optional) and rewrite. layout: the layout of the file. Each row is one
    independent run of a mechanism. Without a column epsilon, the mechanism has no privacy budget. Raises UserError for
    a damaged file and for missing columns and values.
    """
    return _checked(files.read(Path(path), layout), str(path))


def audit_recorded(
    table: pl.DataFrame,
    attacks: Attacks | None = None,
    trials: int | None = None,
    design: Design = STANDARD,
) -> pl.DataFrame:
    """Measure the empirical privacy loss of recorded rewrites; attacks, columns and units as in `epsilometer.audit`.

    table: from `recorded`; originals that differ only in white space are one text. At each epsilon, candidate sets of
    originals are drawn, and each candidate is assigned one of its recorded rewrites, which no other trial gets. Then
    the target is drawn uniformly, and the adversary sees the target's rewrite. So the target is uniform given the set,
    and each rewrite is used at most once. If the rows are independent runs of the mechanism, the estimate is as valid
    as an estimate from fresh rewrites. (If trials used up only the rewrites of targets, k times as many trials would be
    possible. But texts in many sets would run out of rewrites first, and candidates with rewrites left would be
    likelier targets.) So each trial takes k rewrites. The sets are slightly less extreme than the temperature requests,
    since the most extreme texts run out of rewrites first.

    trials: the number of trials at each epsilon; None for as many trials as the rewrites allow. design: the settings
    for drawing and judging trials. Raises UserError for too few rewrites, before any model loads.
    """
    table = _checked(table, "the table of rewrites")
    if "epsilon" not in table.columns:
        note("the rewrites have no column epsilon, so they count as one mechanism without a privacy budget")
        table = table.with_columns(epsilon=pl.lit(NO_BUDGET))
    if trials is not None:
        check_trials(trials)
    chosen, design = chosen_attacks(attacks), as_installed(design)
    say_what_is_left_out(chosen, None, explicit=attacks is not None)
    originals = table.select(text="original", split=pl.lit("train"))
    texts = prepare(originals).table.select("text", key=layout_free("text")).with_row_index("number")
    rows = table.with_columns(key=layout_free("original")).join(texts, on="key", maintain_order="left")
    epsilons = [restored(stored(epsilon)) for epsilon in rows["epsilon"].unique().sort()]  # each NaN becomes NO_BUDGET
    counts = {e: _counts(rows.filter(epsilon=e), len(texts)) for e in epsilons}
    for epsilon, count in counts.items():
        if (count > 0).sum() < design.k:
            raise UserError(
                f"candidates (k) must be at most the number of distinct originals, "
                f"{(count > 0).sum()}{at_budget(epsilon)}, got {design.k}",
                "EPS-A100",
            )
    distinct = texts["text"].to_list()
    embedded = embed(distinct) if design.temperature else None
    vectors = np.zeros((len(distinct), 1), np.float32) if embedded is None else embedded.vectors
    say_language(distinct, chosen)
    pool, audits = Pool(distinct, embedded), list[Losses]()
    for epsilon in epsilons:
        sampled, row = _draw(counts[epsilon], vectors, trials, epsilon, design=design)
        drew = len(sampled.target)
        if not estimate(drew, drew, design.k, design.alpha, prior=design.prior).loss:
            raise UserError(
                f"{drew} trials{at_budget(epsilon)} would prove nothing, even if every guess were right; record "
                "more texts or more rewrites of each, or ask for more trials",
                "EPS-A101",
            )
        # Sorted by text, an original's rewrites are consecutive.
        rewrites = rows.filter(epsilon=epsilon).sort("number", maintain_order=True)["rewrite"].gather(row)
        audits.append(attacked(pool, sampled, {epsilon: Rewrites(rewrites.to_list())}, chosen, design=design))
    losses = Losses(pl.concat(audits))
    losses.by_text = pl.concat(each.by_text for each in audits)
    return losses


def _checked(table: pl.DataFrame, name: str) -> pl.DataFrame:
    budgeted = bool(difflib.get_close_matches("epsilon", table.columns, n=1))  # a misspelt name is an error
    columns = COLUMNS if budgeted else tuple(column for column in COLUMNS if column != "epsilon")
    for column in columns:
        if column not in table.columns:
            raise no_column(name, "column", column, table.columns)
    for column in ("original", "rewrite"):
        if table.schema[column] != pl.String:
            raise UserError(f"{name}: {column} must hold strings, got {table.schema[column].base_type()}", "EPS-A102")
    numbers = pl.col("epsilon").cast(pl.Float64, strict=False)
    checked = table.select("original", *([numbers] if budgeted else []), "rewrite")
    if checked.is_empty():
        raise UserError(f"{name} holds no rewrites", "EPS-A103")
    for column in columns:
        if rows := (checked[column].is_null().arg_true() + 1).to_list():
            rule = "must be a number" if column == "epsilon" else "must be a string"
            hidden = ", since an empty rewrite would count as perfectly hidden"
            raise UserError(
                f"{name}: {column} {rule}, which {by_number('row', rows)} of {len(checked):,} "
                f"{'does' if len(rows) == 1 else 'do'} not have; leave these rows out{hidden * (column == 'rewrite')}",
                "EPS-A104",
            )
    if budgeted:
        check_epsilons(checked["epsilon"].unique().to_list(), f"{name}: epsilon")
    return checked


def _counts(rows: pl.DataFrame, texts: int) -> NDArray[np.int64]:
    return np.bincount(rows["number"].to_numpy(), minlength=texts)


def _draw(
    counts: NDArray[np.int64],
    vectors: NDArray[np.float32],
    trials: int | None,
    epsilon: float,
    design: Design,
) -> tuple[Trials, NDArray[np.int64]]:
    """Draw trials; return them with the row of each trial's rewrite.

    counts: [texts], the number of rewrites of each text. Rows of rewrites are sorted by text. The names of the streams
    do not contain epsilon, so two epsilons with the same numbers of rewrites have the same trials.
    """
    sets, numbers = _allot(counts, vectors, design)
    if trials is not None and trials > len(sets):
        raise UserError(
            f"trials must be at most {len(sets)}{at_budget(epsilon)}, got {trials}: each trial uses "
            f"{design.k} of the {counts.sum()} recorded rewrites; record more rewrites, or ask for fewer trials",
            "EPS-A105",
        )
    noise = Noise.named(len(sets), design.seed, "recorded", "target")
    order = noise.uniforms(1)[:, 0].argsort(kind="stable")[:trials]
    target = (noise.uniforms(1, first=1)[order, 0] * design.k).astype(np.int16)
    sampled = Trials(sets[order].astype(np.int32), target)
    first = np.cumsum(counts) - counts
    return sampled, first[sampled.source] + numbers[order, target]


def _allot(
    counts: NDArray[np.int64], vectors: NDArray[np.float32], design: Design
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return candidate sets [n, k] and the indices [n, k] of the rewrites that are assigned to the candidates.

    In each round every text is in at most one set. If texts have many rewrites, a set serves several trials, each with
    its own target. So about `_ROUNDS` rounds use up all rewrites.
    """
    used = np.zeros_like(counts)
    share = -(-counts.max() // _ROUNDS)
    sets, numbers = [], []
    for turn in range(counts.sum()):
        texts = np.flatnonzero(used < counts)
        mixed = texts[Noise.named(len(texts), design.seed, "recorded", turn).uniforms()[:, 0].argsort(kind="stable")]
        blocks = np.array_split(mixed, max(1, len(texts) // max(_BLOCK, design.k)))
        disjoint = np.concatenate(
            [_disjoint(b, vectors, design, f"{design.seed} {turn} {i}") for i, b in enumerate(blocks)]
        )
        if not len(disjoint):
            break
        times = np.minimum(share, (counts - used)[disjoint].min(axis=1))
        repeat = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        sets.append(np.repeat(disjoint, times, axis=0))
        numbers.append(used[sets[-1]] + repeat[:, None])
        used[disjoint] += times[:, None]
    return np.concatenate(sets), np.concatenate(numbers)


def _disjoint(texts: NDArray[np.int64], vectors: NDArray[np.float32], design: Design, name: str) -> NDArray[np.int64]:
    """Return [n, k]: disjoint candidate sets of these texts, drawn until fewer than k texts are left."""
    candidates = design.k
    sets = [np.empty((0, candidates), np.int64)]
    while len(texts) >= candidates:
        sampled = sample(
            vectors[texts], len(texts) // candidates, candidates, design.temperature, seed=f"{name} {len(texts)}"
        )
        taken: set[int] = set()
        rows = []
        for row in sampled.candidates.tolist():
            if taken.isdisjoint(row):
                taken.update(row)
                rows.append(row)
        sets.append(texts[np.array(rows)])
        texts = np.delete(texts, list(taken))
    return np.concatenate(sets)
