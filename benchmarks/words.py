"""Word mechanisms: tokens per second and per day after preparation, time of preparation, and peak memory.
There are 34,573 words of 300 dimensions, random unless a file of vectors is given. Each mechanism runs in a separate
process. It is prepared by one pass over the whole vocabulary; then it rewrites 1,000 texts of one random word, and a
corpus: the texts of a file, or 200,000 random tokens, with 20 in a text. Speeds are medians of three runs, by the
processor time of one thread from text to rewritten text. They are extrapolated to 24 hours as in 1-Diffractor (IWSPA
2024), Figure 6. With a file of texts, the table is also written to results/words_speed.

usage: python -m benchmarks.words [--vectors FILE] [--texts FILE] [--words N]
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from benchmarks.shared.pages import RESULTS, head, write
from epsilometer.auditing.text_audit import mechanism
from epsilometer.core.mechanism import Mechanism
from epsilometer.core.randomness import Noise
from epsilometer.corpora.reading import read
from epsilometer.mechanisms.words.shared.lists import WordLists
from epsilometer.text.vectors import WordVectors
from epsilometer.text.words import words as words_of

FOLDER = RESULTS / "words_speed"
WORDS, DIMENSIONS, LISTS = 34_573, 300, 5
TOKENS, LINE = 200_000, 20
EPSILON = 10.0  # within the paper's range; it hardly affects the speed
DAY = 24 * 60 * 60

CASES: dict[str, tuple[str, str, dict[str, Any]]] = {  # mechanism: module, resource, settings
    "1-D geometric, 1 list": ("diffractor", "list.npz", {}),
    "1-D geometric, 5 lists": ("diffractor", "lists.npz", {}),
    "1-D TEM, 1 list": ("diffractor", "list.npz", {"noise": "tem"}),
    "1-D TEM, 5 lists": ("diffractor", "lists.npz", {"noise": "tem"}),
    "TEM": ("tem", "vectors.npz", {}),
    "SanText": ("santext", "vectors.npz", {}),
    "CusText": ("custext", "vectors.npz", {}),
    "exponential": ("exponential", "vectors.npz", {}),
    "truncated Gumbel": ("truncated_gumbel", "vectors.npz", {}),
    "MVC": ("mvc", "vectors.npz", {}),
    "Vickrey": ("vickrey", "vectors.npz", {}),
    "Mahalanobis": ("mahalanobis", "vectors.npz", {}),
}


class Measured(NamedTuple):
    """Seconds of preparation, tokens per second for words and corpus, and peak memory of the process in MiB."""

    preparation: float
    words: float
    corpus: float
    peak: float


def alone(function: Callable[..., Any], *arguments: object) -> Any:
    """Return the function's result from a separate process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def peak() -> float:
    """Return the peak memory of this process in MiB. (That of getrusage includes the parent process's.)"""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def sources(vectors: str | None, texts: str | None, size: int) -> Iterator[WordVectors]:
    """Yield one set of vectors per list, all for the same words: the file's, or random vectors for the texts' words."""
    if vectors:
        whole = WordVectors.load(vectors).whole_words()
        for _ in range(LISTS):
            yield WordVectors(whole.words[:size], whole.vectors[:size])
        return
    vocabulary = dict.fromkeys(word for text in (read(texts)["text"] if texts else []) for word in words_of(text))
    made_up = (word for number in count() if (word := f"w{number}") not in vocabulary)
    words = [word for word, _ in zip(chain(vocabulary, made_up), range(size), strict=False)]
    for number in range(LISTS):
        yield WordVectors(words, np.random.default_rng(number).normal(size=(size, DIMENSIONS)))


def prepare(folder: Path, vectors: str | None, texts: str | None, size: int) -> tuple[str, list[float], float]:
    """Write vectors.npz, list.npz and lists.npz; return the size as text, seconds per list, and peak memory in MiB."""
    lists, seconds = list[WordLists](), list[float]()
    for number, source in enumerate(sources(vectors, texts, size)):
        if not number:
            source.save(folder / "vectors.npz")
        begun = time.perf_counter()
        lists.append(WordLists.build([source], 1, seed=number))
        seconds.append(time.perf_counter() - begun)
    lists[0].save(folder / "list.npz")
    WordLists(lists[0].words, np.concatenate([list.order for list in lists])).save(folder / "lists.npz")
    return f"{len(source):,} words x {source.vectors.shape[1]}", seconds, peak()


def lines(words: Sequence[str]) -> list[str]:
    """Return the words as texts of 20 words."""
    return [" ".join(words[start : start + LINE]) for start in range(0, len(words), LINE)]


def speed(built: Mechanism, texts: Sequence[str], tokens: int) -> float:
    """Return the tokens per second, as a median of three."""
    seconds = []
    for run in range(3):
        begun = time.process_time()
        built.rewrite(texts, EPSILON, Noise.named(len(texts), run))
        seconds.append(time.process_time() - begun)
    return tokens / statistics.median(seconds)


def once(folder: Path, texts: str | None, name: str) -> Measured:
    """Return all figures of one mechanism."""
    vocabulary = WordLists.load(folder / "list.npz").words
    queries = np.random.default_rng(0).choice(vocabulary, 1000 + TOKENS).tolist()
    corpus = read(texts)["text"].to_list() if texts else lines(queries[1000:])
    tokens = sum(len(words_of(text)) for text in corpus)
    module, resource, settings = CASES[name]
    begun = time.process_time()
    built = mechanism(module, {"resource": folder / resource, **settings})
    everything = lines(vocabulary)
    built.rewrite(everything, EPSILON, Noise.named(len(everything), "preparation"))
    preparation = time.process_time() - begun
    return Measured(preparation, speed(built, queries[:1000], 1000), speed(built, corpus, tokens), peak())


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = ArgumentParser(prog="python -m benchmarks.words", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--vectors", metavar="FILE", help="word vectors (default: random ones)")
    parser.add_argument("--texts", metavar="FILE", help="a corpus with a column `text` (default: random words)")
    parser.add_argument("--words", metavar="N", type=int, default=WORDS, help="largest vocabulary")
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as name:
        folder = Path(name)
        size, seconds, memory = alone(prepare, folder, options.vectors, options.texts, options.words)
        corpus = Path(options.texts).name if options.texts else "random tokens"
        print(f"\n{size}; {statistics.median(seconds):.1f} s a list, peak {memory:,.0f} MiB")
        print(f"a process that does nothing: peak {alone(peak):,.0f} MiB\n")
        heads = ["mechanism", "prepared, s", "words, a second", "words, a day"]
        heads += [f"{corpus}, a second", f"{corpus}, a day", "peak, MiB"]
        table = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        print(*table, sep="\n")
        for case in CASES:
            measured = alone(once, folder, options.texts, case)
            speeds = (f"{each:,.0f} | {each * DAY:.2e}" for each in (measured.words, measured.corpus))
            table.append(f"| {case} | {measured.preparation:.1f} | {' | '.join(speeds)} | {measured.peak:,.0f} |")
            print(table[-1], flush=True)
    if options.texts:
        lines_of_page = [
            *head("Word mechanisms: tokens a day, after 1-Diffractor's figure 6", "words --texts", f"{size}."),
            "",
            "## Speed",
            "",
            *table,
        ]
        write(lines_of_page, FOLDER)


if __name__ == "__main__":
    main(sys.argv[1:])
