"""Speed of the authors' reference code compared with this project: units per second of processor time, on one thread.

Vectors are random, with the authors' shape of 34,573 words and 300 dimensions; 5,000 words if the reference code stores
a table of all pairs of words. Epsilon is 10. Runs of both sides take turns, and figures are medians. The paths are:

    warm            every word was rewritten before
    cold            all words and the mechanism are new; vectors are loaded
    one at a time   as cold, with one call per word, as the reference code is called
    publication     this project samples exactly from the operating system's randomness, and every word was rewritten
                    before; the reference code always samples in floating point
    publication, cold as publication, but all words and the mechanism are new

If the reference code prepares nothing in advance, its only figure is compared with each of ours. `published` is this
project's version of the reference code's law; all other rows are the corrected form.

`--against FILE` measures the rows of such a table (CSV) again, lists the rows below two thirds of the printed ratio,
and exits with 1 if there are any. Ratios are compared, so the table may come from another machine. But a ratio may
depend on the speed of matrix products, if they dominate only this project's time. So their speed is measured before and
after the rows: if it has fallen as much as a row, that row is not evidence of slower code.

usage: python -m benchmarks.peers [ROW...] [--against results/peers/the-reference-code-beside-ours.csv]
first: pip install --no-deps -r benchmarks/peers/requirements.txt and python -m benchmarks.peers.fetch
"""

from __future__ import annotations

import math
import os
import platform
import statistics
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers import reference
from benchmarks.peers.fetch import sources
from epsilometer.auditing.text_audit import audit, mechanism
from epsilometer.auditing.trials.design import Design
from epsilometer.auditing.trials.sampling import sample
from epsilometer.core.mechanism import Mechanism
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse
from epsilometer.mechanisms.words.shared.lists import WordLists
from epsilometer.report import archive
from epsilometer.text.vectors import WordVectors

WORDS, FEW, DIMENSIONS, EPSILON, RUNS = 34_573, 5_000, 300, 10.0, 3
KEPT = 2 / 3  # share of a printed ratio below which a row counts as slower
Work = Callable[[int], tuple[int, float]]  # maps the number of a run to units and seconds of processor time


class Row(NamedTuple):
    """A comparison: the reference code's work and this project's work, by path."""

    columns: dict[str, tuple[Work, Work]]


def timed(units: int, work: Callable[[], Any]) -> tuple[int, float]:
    """Return the units, and the processor time that the work takes."""
    begun = time.process_time()
    work()
    return units, time.process_time() - begun


def rates(theirs: Work, ours: Work) -> tuple[float, float]:
    """Return the units per second of both sides, medians of runs that take turns."""
    figures: tuple[list[float], list[float]] = [], []
    for run in range(RUNS):
        for side, work in zip(figures, (theirs, ours), strict=True):
            units, seconds = work(run)
            side.append(units / seconds)
    return statistics.median(figures[0]), statistics.median(figures[1])


class Resources:
    """Random vectors and a list of words, also as files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        draw = np.random.default_rng(0)
        self.words = [f"w{number}" for number in range(WORDS)]
        self.vectors = draw.normal(size=(WORDS, DIMENSIONS)).astype(np.float32)
        WordVectors(self.words, self.vectors).save(folder / "vectors.npz")
        WordVectors(self.words[:FEW], self.vectors[:FEW]).save(folder / "few.npz")
        WordLists(self.words, np.arange(WORDS)[None]).save(folder / "list.npz")

    def sample(self, run: int, count: int, size: int = WORDS) -> list[str]:
        """Return `count` distinct random words, the same for both sides."""
        return [self.words[i] for i in np.random.default_rng((1, run)).permutation(size)[:count]]


def built(name: str, resource: Path, **settings: Any) -> Any:
    """Return a mechanism of this project with its resources loaded."""
    ready = mechanism(name, {"resource": resource, **settings})
    ready.rewrite(["w0"], EPSILON, Noise.named(1, "load"))
    return ready


def ours(
    name: str, resource: Path, words: Callable[[int], list[str]], warm: Sequence[str] = (), **settings: Any
) -> dict[str, Work]:
    """Return this project's work by path, for a mechanism on words.

    words: function that returns the words of a run; warm: words that are rewritten before the runs.
    """
    met = built(name, resource, **settings)
    if warm:
        met.rewrite(list(warm), EPSILON, Noise.named(len(warm), "warm"))
    loaded = {run: built(name, resource, **settings) for run in range(RUNS)}

    def rewrite(ready: Mechanism, texts: list[str], noise: Noise) -> Callable[[], Any]:
        return lambda: ready.rewrite(texts, EPSILON, noise)

    def many(of_run: Callable[[int], Mechanism]) -> Work:
        return lambda run: timed(
            len(words(run)), rewrite(of_run(run), words(run), Noise.named(len(words(run)), "run", run))
        )

    def publication(run: int) -> tuple[int, float]:
        some = words(run)[: max(20, len(words(run)) // 20)]
        rewrite(met, some, Noise.operating_system(len(some)))()
        return timed(len(some), rewrite(met, some, Noise.operating_system(len(some))))

    def publication_new(run: int) -> tuple[int, float]:
        ready = built(name, resource, **settings)
        return timed(len(words(run)), rewrite(ready, words(run), Noise.operating_system(len(words(run)))))

    def alone(run: int) -> tuple[int, float]:
        ready, some = built(name, resource, **settings), words(run)[:10]
        noises = [Noise.named(1, "alone", run, i) for i in range(len(some))]
        return timed(len(some), lambda: [ready.rewrite([w], EPSILON, n) for w, n in zip(some, noises, strict=True)])

    return {
        "warm": many(lambda run: met),
        "cold": many(loaded.__getitem__),
        "one at a time": alone,
        "publication": publication,
        "publication, cold": publication_new,
    }


def diffractor(at: Resources, method: str) -> Row:
    rewrite = reference.diffractor(method, EPSILON, at.words)
    noise = {"geometric": "geometric", "TEM": "tem"}[method]

    def theirs(run: int) -> tuple[int, float]:
        some = at.sample(run, 2000)
        return timed(len(some), lambda: rewrite([" ".join(some[i : i + 20]) for i in range(0, len(some), 20)]))

    columns = ours("diffractor", at.folder / "list.npz", lambda run: at.sample(run, 20_000), ["w0"], noise=noise)
    columns.pop("one at a time")  # both take texts
    columns.pop("publication, cold")  # a publication prepares nothing
    return Row({name: (theirs, work) for name, work in columns.items()})


def word_by_word(at: Resources, theirs_name: str, name: str, count: int, published: bool = False) -> Row:
    """Return the comparison with a mechanism of MLDP, which takes one word per call and caches only its index."""
    vectors = reference.keyed_vectors(at.words, at.vectors)
    replace = reference.mldp(theirs_name, EPSILON, vectors)
    tables = name in ("tem", "truncated_gumbel")

    def theirs(run: int) -> tuple[int, float]:
        some = at.sample(run, count)
        return timed(count, lambda: [replace(word) for word in some])

    def words(run: int) -> list[str]:
        return at.sample(run, 2000 if tables else 500)

    settings = {"as_published": True} if published else {}
    met = [word for run in range(RUNS) for word in words(run)] if tables else ["w0"]
    columns = ours(name, at.folder / "vectors.npz", words, met, **settings)
    if not tables:
        columns.pop("publication, cold")  # a publication prepares nothing
    return Row({column: (theirs, work) for column, work in columns.items()})


def santext(at: Resources) -> Row:
    """Return the comparison with SanText, which first computes the probabilities of all pairs; cold includes this."""
    code = reference.santext()
    code.SanText_init(code.cal_probability(at.vectors[:FEW], at.vectors[:FEW], EPSILON))

    def warm(run: int) -> tuple[int, float]:
        numbers = [int(word[1:]) for word in at.sample(run, 1000, FEW)]
        return timed(1000, lambda: code.SanText(numbers))

    def cold(run: int) -> tuple[int, float]:
        numbers = [int(word[1:]) for word in at.sample(run, 1000, FEW)]

        def work() -> None:
            code.SanText_init(code.cal_probability(at.vectors[:FEW], at.vectors[:FEW], EPSILON))
            code.SanText(numbers)

        return timed(1000, work)

    columns = ours("santext", at.folder / "few.npz", lambda run: at.sample(run, 1000, FEW), at.words[:FEW])
    columns.pop("one at a time")
    return Row({name: (cold if name.endswith("cold") else warm, work) for name, work in columns.items()})


def custext(at: Resources) -> Row:
    """Return the comparison with CusText, which first forms all groups of 5,000 words; cold includes this."""
    import pandas

    words = at.words[:FEW]
    texts = [" ".join(words[i : i + 20]) for i in range(0, FEW, 20)]
    folder = at.folder / "custext"
    utils = reference.custext(folder, EPSILON, words, at.vectors[:FEW], texts)
    before = Path.cwd()

    def groups() -> Any:
        os.chdir(folder)
        try:
            return utils.get_customized_mapping(EPSILON, 20)
        finally:
            os.chdir(before)

    word_groups = groups()

    def rewrite(arguments: Any) -> None:
        utils.generate_new_sents_s1(pandas.DataFrame({"sentence": texts}), *arguments, False, "dev")

    # Writing the result is left out, since `to_csv` is the work of pandas.
    pandas.DataFrame.to_csv = lambda *_, **__: None  # type: ignore[method-assign,assignment]
    columns = ours("custext", at.folder / "few.npz", lambda run: texts, texts)
    columns.pop("one at a time")

    def in_words(work: Work) -> Work:
        return lambda run: ((result := work(run))[0] * 20, result[1])

    return Row(
        {
            name: (
                (lambda run: timed(FEW, lambda: rewrite(groups())))
                if name.endswith("cold")
                else (lambda run: timed(FEW, lambda: rewrite(word_groups))),
                in_words(work),
            )
            for name, work in columns.items()
        }
    )


def dpmlm(at: Resources) -> Row:
    """Return the comparison with DP-MLM, by one word at a time and in batches of 16 words.

    Every text is new. Each path has its own model, since a model caches what it has computed.
    """
    from epsilometer.corpora import synthetic
    from epsilometer.models.embedded import masked_lm
    from epsilometer.text.words import words as words_of

    folder = masked_lm()
    code = reference.dpmlm(folder)
    first, *texts = [" ".join(words_of(text)) for text in synthetic.generate("queries", 41, 0)["text"]]

    def part(run: int) -> list[str]:
        return texts[run::RUNS]

    def count(run: int) -> int:
        return sum(len(text.split()) for text in part(run))

    def theirs(batch: bool) -> Work:
        rewrite = code.dpmlm_rewrite_batch if batch else code.dpmlm_rewrite
        return lambda run: timed(count(run), lambda: [rewrite(text, EPSILON, STOP=True) for text in part(run)])

    def here(noise: Callable[[int, int], Noise]) -> Work:
        ready = mechanism("dp_mlm", {"resource": folder})
        ready.rewrite([first], EPSILON, Noise.named(1, "load"))
        return lambda run: timed(count(run), lambda: ready.rewrite(part(run), EPSILON, noise(len(part(run)), run)))

    def seeded(size: int, run: int) -> Noise:
        return Noise.named(size, "run", run)

    return Row(
        {
            "against its batches of 16": (theirs(True), here(seeded)),
            "against word by word": (theirs(False), here(seeded)),
            "publication": (theirs(True), here(lambda size, run: Noise.operating_system(size))),
        }
    )


def randomised_response(at: Resources) -> Row:
    """Return the comparison with LDP-Auditor. A unit is one run of the mechanism with its guess, of a million."""
    trials = 1_000_000
    auditor = reference.ldp_audit(trials // 2, 1.0)
    texts = ("the meeting is on", "the meeting is off")
    ready = RandomizedResponse(resource=texts)
    auditor.run_audit("GRR")  # compiles
    return Row(
        {
            "warm": (
                lambda run: timed(trials, lambda: auditor.run_audit("GRR")),
                lambda run: timed(
                    trials,
                    lambda: audit(
                        texts, ready, [1.0], ["likelihood"], trials=trials, design=Design(temperature=0, seed=run)
                    ),
                ),
            )
        }
    )


def candidates(at: Resources, count: int, k: int, temperature: float) -> Row:
    """Return the comparison with a naive loop over trials (TeDA's code is private) with precomputed similarities."""
    vectors = np.random.default_rng(0).normal(size=(5_000, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)

    def naive(run: int) -> tuple[int, float]:
        def work() -> None:
            draw, similarity = np.random.default_rng(run), vectors @ vectors.T
            for _ in range(count):
                chosen = [int(draw.integers(len(vectors)))]
                while len(chosen) < k:
                    score = temperature * similarity[chosen].sum(axis=0)
                    weight = np.exp(score - score.max())
                    weight[chosen] = 0
                    chosen.append(int(draw.choice(len(vectors), p=weight / weight.sum(dtype=np.float64))))

        return timed(count, work)

    return Row({"": (naive, lambda run: timed(count, lambda: sample(vectors, count, k, temperature, run)))})


ROWS: dict[str, tuple[str, Callable[[Resources], Row]]] = {
    "1-D geometric, 1 list": ("Diffractor", lambda at: diffractor(at, "geometric")),
    "1-D TEM, 1 list": ("Diffractor", lambda at: diffractor(at, "TEM")),
    "MVC": ("MLDP", lambda at: word_by_word(at, "MultivariateCalibrated", "mvc", 40)),
    "Vickrey": ("MLDP", lambda at: word_by_word(at, "VickreyMechanism", "vickrey", 40)),
    "Mahalanobis": ("MLDP", lambda at: word_by_word(at, "Mahalanobis", "mahalanobis", 10)),
    "truncated Gumbel": ("MLDP", lambda at: word_by_word(at, "TruncatedGumbel", "truncated_gumbel", 100)),
    "TEM": ("MLDP", lambda at: word_by_word(at, "TEM", "tem", 10)),
    "TEM, published": ("MLDP", lambda at: word_by_word(at, "TEM", "tem", 10, published=True)),
    "SanText": ("SanText", santext),
    "CusText": ("CusText", custext),
    "DP-MLM": ("DPMLM", dpmlm),
    "randomised response, k = 2": ("ldp-audit", randomised_response),
    "candidates, T = 2,000, k = 2, lambda -10,000": ("", lambda at: candidates(at, 2000, 2, -10_000)),
    "candidates, T = 2,000, k = 2, lambda 0": ("", lambda at: candidates(at, 2000, 2, 0)),
    "candidates, T = 2,000, k = 16, lambda -10,000": ("", lambda at: candidates(at, 2000, 16, -10_000)),
}


def lines(at: Resources, wanted: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the table, one per mechanism and path."""
    yield "| mechanism | path | reference | units/s | ours, units/s | times as fast | our commit |"
    yield "|---|---|---|---|---|---|---|"
    describe = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(describe, capture_output=True, text=True, check=False).stdout.strip()
    for name, (repository, row) in ROWS.items():
        if name not in wanted:
            continue
        pinned = f"{repository} {sources()[repository]['commit'][:7]}" if repository else "naive loop, ours"
        try:
            measured = row(at)
        except (ImportError, FileNotFoundError) as error:
            yield f"| {name} | | {pinned} | not available: {error} | | | |"
            continue
        for column, (theirs, here) in measured.columns.items():
            reached, own = rates(theirs, here)
            yield f"| {name} | {column} | {pinned} | {reached:,.4g} | {own:,.4g} | {own / reached:,.3g} | {commit} |"


def ratios(head: Sequence[str], rows: Iterable[Sequence[str]]) -> dict[tuple[str, str], float]:
    """Return the ratio of speeds in each row of a table, by mechanism and path; NaN if not measured."""
    if [*head[:2]] != ["mechanism", "path"] or "times as fast" not in head:
        raise SystemExit("The table needs the columns mechanism, path and times as fast. Give one of results/peers.")
    column = head.index("times as fast")
    return {(row[0], row[1]): float(row[column].replace(",", "") or "nan") for row in rows}


def slower(printed: Mapping[tuple[str, str], float], now: Mapping[tuple[str, str], float]) -> list[str]:
    """Return a sentence for each row that is below two thirds of the printed ratio, or was not measured."""
    said = []
    for row, before in printed.items():
        name, ratio = ", ".join(filter(None, row)), now.get(row, math.nan)
        if math.isnan(ratio):
            said.append(f"{name}: {before:,.3g} was printed; not measured now")
        elif ratio < KEPT * before:
            said.append(f"{name}: {ratio:,.3g} times as fast as the reference; {before:,.3g} was printed")
    return said


def product_speed(vectors: NDArray[np.float32]) -> float:
    """Return the speed of float32 products of 512 vectors with all vectors [n, d], in Gflop/s: the median of five."""
    seconds = [timed(0, lambda: vectors[:512] @ vectors.T)[1] for _ in range(5)]
    return 2e-9 * 512 * vectors.size / statistics.median(seconds)


def main(arguments: Sequence[str]) -> int:
    """Print the versions, the table in Markdown, and the rows slower than in a file; return 1 if there are any."""
    parser = ArgumentParser(prog="python -m benchmarks.peers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", metavar="ROW", nargs="*", help="a mechanism of the table (default: all)")
    parser.add_argument("--against", metavar="FILE", type=Path, help="list rows below two thirds of this table's ratio")
    options = parser.parse_args(arguments)
    printed = ratios(*archive.cells(options.against)) if options.against else {}
    if unknown := [name for name in options.rows if name not in ROWS]:
        parser.error(f"there is no row {unknown[0]!r}; the rows are {'; '.join(ROWS)}")
    wanted = options.rows or list(dict.fromkeys(name for name, _ in printed)) or list(ROWS)
    printed = {row: ratio for row, ratio in printed.items() if row[0] in wanted}
    reference.one_thread()
    print(f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, numpy {np.__version__}, ", end="")
    print(f"{WORDS:,} words x {DIMENSIONS}, one thread, medians of {RUNS}\n")
    table = []
    with TemporaryDirectory() as name:
        at = Resources(Path(name))
        before = product_speed(at.vectors)
        for line in lines(at, wanted):
            print(line, flush=True)
            table.append([cell.strip() for cell in line.strip("|").split("|")])
        after = product_speed(at.vectors)
    print(f"\nmatrix products: {before:.0f} Gflop/s before, {after:.0f} after the rows\n")
    head, _, *rows = table
    behind = slower(printed, ratios(head, rows))
    print(*behind, sep="\n")
    return bool(behind)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
