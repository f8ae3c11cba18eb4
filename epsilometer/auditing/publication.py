"""Rewrites for publication: of the lines of a file or stream, or of columns of a table.

Shipped mechanisms, and users' mechanisms that draw by `core.laws.sample`, draw exactly from the operating system's
randomness (`epsilometer.core.exact_samplers`). These mechanisms reserve a millionth of the epsilon for the rounding of
the laws. For a user's mechanism, the only check is that it draws from the given noise. With a seed, rewrites are
reproducible: anyone who knows the seed can invert them, so these rewrites must not be published.
"""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl

from epsilometer.auditing.claims.verdicts import count_public
from epsilometer.auditing.trials.answers import Tally
from epsilometer.auditing.trials.rewriting import Job
from epsilometer.auditing.trials.unread import unread
from epsilometer.core.atomic import whole
from epsilometer.core.errors import UserError, printable
from epsilometer.core.exact_samplers import SLACK
from epsilometer.core.file_names import listed, no_column
from epsilometer.core.mechanism import Mechanism, Unread
from epsilometer.core.randomness import Noise
from epsilometer.corpora import files
from epsilometer.corpora.files import Layout
from epsilometer.corpora.reading import check_strings
from epsilometer.runtime.progress import PacedWork, note, span
from epsilometer.runtime.streams import results
from epsilometer.runtime.withholding import withheld

_LINES = 10_000  # largest number of lines rewritten at a time
_TWICE = 8  # number of rewrites that are made twice with the same noise, and must be equal


@dataclass
class Publisher:
    """A mechanism at an epsilon that rewrites texts for publication.

    seed: None to draw from the operating system. own: True if the mechanism's code is a user's. unread: counts of
    truncated texts and out-of-vocabulary words so far. public: the number of texts so far that are among the
    mechanism's public texts. tally: counts the rewrites.
    """

    mechanism: Mechanism
    epsilon: float
    seed: int | None = None
    own: bool = False
    unread: Unread = field(default_factory=Unread)
    public: int = 0
    tally: Tally = field(default_factory=Tally)

    def rewrite(self, texts: Sequence[str], first: int) -> list[str]:
        """Return the rewrites, each on one line without control characters. first: the index of the first text.

        A text that is among the mechanism's public texts is rewritten like any other: a refusal would reveal that the
        input contains this text. Raises UserError if a user's mechanism has a claim but draws from other noise, and for
        a mechanism without a proved bound on the rounding of its draws (`publishes = False`).
        """
        if self.seed is None and not getattr(self.mechanism, "publishes", True):
            raise UserError(
                "this mechanism has no proved bound on what rounding adds to its claim, so it does not publish; use "
                "another mechanism (docs/concepts/security-releases.md), or give --seed for an audit",
                "EPS-A240",
            )
        if self.own and first == 0:
            self._check_draws(texts)
        numbers = np.arange(len(texts))
        if self.seed is None:
            noise, spent = Noise.operating_system(len(texts)), self.epsilon * (1 - SLACK)
        else:
            noise, spent = Noise.named(first + numbers, self.seed, "rewrite", self.epsilon), self.epsilon
        with withheld():  # the mechanism's own output must not reach the publication
            self.public += count_public(self.mechanism, texts)
            self.unread += unread(self.mechanism, texts)
            job = Job(texts, numbers, [spent], [noise], tally=self.tally)
            (rewrites,) = job.rewrites(self.mechanism, numbers)
            job.count([rewrites], numbers)
        return [printable(" ".join(text.split())) for text in rewrites.texts]

    def _check_draws(self, texts: Sequence[str]) -> None:
        with withheld():
            if self.mechanism.guarantee(self.epsilon) is None:
                return
        rows = np.arange(_TWICE)
        job = Job(texts, rows % len(texts), [self.epsilon], [Noise.named(rows, 0, "drawn twice")])
        with withheld():
            once, again = (job.run(self.mechanism, rows) for _ in range(2))
        if list(once.rewrites[0].texts) != list(again.rewrites[0].texts):
            raise UserError(
                "two calls with the same noise give different rewrites: the mechanism draws from another source "
                "(random, numpy, torch), which may have a fixed seed, so its claim is not reliable; draw only from "
                "`noise`, or let `guarantee` return None",
                "EPS-A145",
            )
        note(
            "the mechanism is not part of epsilometer: draws by `laws.sample` are exact, draws by comparing "
            "floating-point numbers are not (docs/concepts/security-releases.md)"
        )


def publish_table(
    publisher: Publisher, file: Path, out: Path | None, columns: Sequence[str], rows: int | None, layout: Layout
) -> None:
    """Rewrite these columns of a table, and write the table in the format of `file`; other columns are unchanged.

    out: None for standard output. rows: the number of first rows to rewrite, None for all. Raises UserError for columns
    that are missing or do not contain strings, and for an `out` of another format, before any text is rewritten.
    """
    kind = files.suffix(file)
    if out is None and kind == ".parquet":
        raise UserError("Parquet cannot be written to standard output; name a .parquet file with --out", "EPS-A146")
    if out is not None and files.suffix(out) != kind:
        raise UserError(f"--out must end with {kind}, as the input does, got {str(out)!r}", "EPS-A147")
    table = files.read(file, layout)
    table = table if rows is None else table.head(rows)
    for column in columns:
        if column not in table.columns:
            raise no_column(file, "text column", column, table.columns)
        check_strings(table, column, str(file))
    others = [name for name in table.columns if name not in columns]
    if others:
        note(f"only {', '.join(columns)} is rewritten; unchanged: {listed(others, 'column')}")
    texts = [" ".join(text.split()) for column in columns for text in table[column].fill_null("")]
    length = sum(len(text) + 1 for text in texts)
    rewritten = [text for block in _paced(publisher, iter(texts), length, len(texts)) for text in block]
    each = [rewritten[i * len(table) : (i + 1) * len(table)] for i in range(len(columns))]
    content = files.write(
        table.with_columns(pl.Series(c, t, pl.String) for c, t in zip(columns, each, strict=True)), out, kind, layout
    )
    if out is None:
        results().buffer.write(content)
        results().flush()


def publish_lines(publisher: Publisher, file: Path | None, out: Path | None, rows: int | None, encoding: str) -> None:
    """Rewrite the lines of standard input as they arrive, or the lines of a file once all are known to be decodable.

    out: written atomically; None for standard output. rows: the number of first lines to rewrite, None for all. Raises
    UserError with the line number for a line in another encoding.
    """
    if out is not None and out.suffix in (".gz", ".zst"):
        raise UserError(
            f"rewritten lines cannot be compressed, got --out {str(out)!r}; leave out the ending {out.suffix}",
            "EPS-A148",
        )
    length, count = math.inf, None
    lines: Iterable[bytes] = sys.stdin.buffer
    if file is not None:
        lines = io.BytesIO(files.content(file))
        sizes = [len(text) + 1 for text in islice(_decoded(lines, str(file), encoding), rows)]
        length, count = sum(sizes), len(sizes)
        lines.seek(0)
    with nullcontext(results().buffer) if out is None else whole(out) as written:
        texts = islice(_decoded(lines, str(file or "standard input"), encoding), rows)
        for block in _paced(publisher, texts, length, count):
            written.write("".join(text + "\n" for text in block).encode())
            written.flush()


def _paced(publisher: Publisher, texts: Iterator[str], length: float, count: int | None) -> Iterator[list[str]]:
    """Yield the rewrites of texts, in blocks of a few seconds. length: number of characters, infinite if unknown."""

    def shorter(seconds: float) -> str:
        if count is None or count < 20:
            return ""
        fewer = 10 ** (len(str(count - 1)) - 1)
        return f" for {count} texts; with --rows {fewer} about {span(seconds * fewer / count)}"

    done, units, block = 0, 0, list[str]()
    with PacedWork("rewrite", length, shorter) as pace:
        while True:
            text = next(texts, None)
            if text is not None:
                block.append(text)
                units += len(text) + 1
            if block and (text is None or units >= pace.next or len(block) == _LINES):
                pace.begin(units)
                yield publisher.rewrite(block, done)
                pace.end()
                done, units, block = done + len(block), 0, []
            if text is None:
                return


def _decoded(lines: Iterable[bytes], name: str, encoding: str) -> Iterator[str]:
    """Yield the decoded lines with normalised white space."""
    for number, line in enumerate(lines, start=1):
        try:
            yield " ".join(line.decode(encoding).split())
        except UnicodeError as error:
            place = f" (byte {error.start} of the line)" if isinstance(error, UnicodeDecodeError) else ""
            raise UserError(
                f"{name}, line {number}: not {encoding.upper()}{place}; give --layout encoding=..., or convert it",
                "EPS-A149",
            ) from error
