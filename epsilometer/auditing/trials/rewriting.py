"""Running a mechanism over trials in blocks. Results do not depend on where blocks run (`runtime/scaling.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from epsilometer.auditing.trials.answers import Tally
from epsilometer.core.errors import UserError, name_text
from epsilometer.core.mechanism import Latents, Mechanism, Repeated, Rewrites, RewritesGrid, TakesRepeated, wants_all
from epsilometer.core.outcomes import FOUND, Outcomes
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.runtime.progress import PacedWork, span
from epsilometer.runtime.scaling import HERE, Engine, run, slices

BLOCK = 1 << 16  # largest number of trials in a block
_ROUND = [digit * 10**power for power in range(5, 0, -1) for digit in (5, 2, 1)]  # numbers to suggest to the user


@dataclass(frozen=True)
class Block:
    """The rewrites of some trials, one `Rewrites` per epsilon. rows: [n], the indices of these trials."""

    rows: NDArray[np.int64]
    rewrites: list[Rewrites]


@dataclass(frozen=True)
class Job:
    """A rewriting job: at each epsilon, trial t rewrites the text at index source[t].

    noises: for each epsilon, a stream per trial. tally: counts the rewrites made by `rewrite_blocks` and `rewrite_all`.
    """

    texts: Sequence[str]
    source: NDArray[np.integer]
    epsilons: Sequence[float]
    noises: Sequence[Noise]
    tally: Tally = field(default_factory=Tally, compare=False)

    def run(self, mechanism: Mechanism, rows: NDArray[np.int64]) -> Block:
        """Return the rewrites of these trials [n]. Raises UserError for output that breaks a mechanism's rules."""
        return Block(rows, self.rewrites(mechanism, rows))

    def count(self, rewrites: Sequence[Rewrites], rows: NDArray[np.int64] | slice) -> None:
        """Add the rewrites of these trials, one `Rewrites` per epsilon, to the tally."""
        sources = Repeated(self.texts, self.source[rows])
        for epsilon, output in zip(self.epsilons, rewrites, strict=True):
            self.tally.add(epsilon, output, sources)

    def rewrites(self, mechanism: Mechanism, rows: NDArray[np.int64] | slice) -> list[Rewrites]:
        """Return the rewrites of these trials, one `Rewrites` per epsilon. Raises UserError as `run` does.

        Each call gets a new list of texts, and returned lists are copied. So a mechanism may mutate its input, or reuse
        one list for all results.
        """
        private, streams = Repeated(self.texts, self.source[rows]), [noise[rows] for noise in self.noises]

        def shown() -> Sequence[str]:
            return private if isinstance(mechanism, TakesRepeated) else list(private)

        try:
            if isinstance(mechanism, RewritesGrid):
                return [_own(output, private) for output in mechanism.rewrite_grid(shown(), self.epsilons, streams)]
            at = zip(self.epsilons, streams, strict=True)
            return [_own(mechanism.rewrite(shown(), epsilon, noise), private) for epsilon, noise in at]
        except Exception as error:
            name_text(error, private.numbers.tolist(), len(self.texts))
            raise


def rewrite_blocks(
    build: Callable[[], Mechanism], job: Job, block: int = BLOCK, engine: Engine = HERE
) -> Iterator[Block]:
    """Yield the rewrites of all trials, block by block.

    Trials of one text are consecutive. So work that depends only on the text, such as a forward pass, is done only once
    per text. A trial's rewrite depends neither on its block nor on the engine. The joined blocks have the same trials
    in the same order for any block size. build: makes the mechanism, in this process or once in each worker.
    """
    parts = slices(job.source, block, engine.workers)
    for done in run(partial(_rewriter, build, job), parts, engine, "rewrite"):
        job.count(done.rewrites, done.rows)
        yield done


def _rewriter(build: Callable[[], Mechanism], job: Job) -> Callable[[NDArray[np.int64]], Block]:
    return partial(job.run, build())


def rewrite_all(mechanism: Mechanism, job: Job, paced: bool = False) -> list[Rewrites]:
    """Return the rewrites of all trials in their order, one `Rewrites` per epsilon, in memory.

    paced: True to work in parts of a few seconds, and print the remaining time.
    """
    if isinstance(mechanism, TakesRepeated):  # too fast to need a progress estimate
        parts = (slice(start, start + BLOCK) for start in range(0, len(job.source), BLOCK))
        whole = _by_epsilon([job.rewrites(mechanism, part) for part in parts])
        job.count(whole, slice(None))
        return whole
    if paced and not wants_all(mechanism):
        blocks = list(_paced(mechanism, job))
    else:
        blocks = list(rewrite_blocks(lambda: mechanism, job))
    rows = np.concatenate([b.rows for b in blocks])
    joined = _by_epsilon([block.rewrites for block in blocks])
    if (rows[1:] > rows[:-1]).all():
        return joined
    back = np.empty_like(rows)
    back[rows] = np.arange(len(rows))
    return [output.take(back) for output in joined]


def _paced(mechanism: Mechanism, job: Job) -> Iterator[Block]:
    """Yield the blocks of a job; the speed of earlier blocks determines the size of the next block."""
    shares = isinstance(mechanism, RewritesGrid)
    order = np.argsort(job.source.astype(np.min_scalar_type(len(job.texts))), kind="stable")
    source = job.source[order]
    effort = np.array([len(text) + 1 for text in job.texts])[source]
    if shares:  # the first trial of a text does the work for all trials of this text
        effort[1:][source[1:] == source[:-1]] = 0
    done, begin = np.append(0, np.cumsum(effort)), 0
    with PacedWork("rewrite", effort.sum(), partial(_shorter, job, shares)) as pace:
        while begin < len(order):
            # A block has at least one trial, and all following trials that cause no additional work.
            end = int(np.searchsorted(done, max(done[begin] + pace.next, done[begin + 1]), side="right")) - 1
            pace.begin(done[end] - done[begin])
            block = job.run(mechanism, order[begin:end])
            job.count(block.rewrites, block.rows)
            yield block
            pace.end()
            begin = end


def _shorter(job: Job, shares: bool, seconds: float) -> str:
    """Return a remark on the size of the job and on smaller jobs.

    The suggested jobs take a tenth of `seconds`, or a minute if that is longer, but at most half of `seconds`. shares:
    True if all trials and epsilons of a text share its work.
    """
    trials, texts, aim = len(job.source), len(np.unique(job.source)), max(seconds / 10, min(60, seconds / 2))
    ways = []
    for fewer in (n for n in _ROUND if n < trials):
        # If work is shared, `share` is an upper bound of the share of time, since some work is per trial.
        share = _length(job, fewer) / _length(job, trials) if shares else fewer / trials
        if share * seconds <= 1.01 * aim:
            ways.append(f"with {fewer} trials about {span(share * seconds)}")
            break
    if shares:
        ways += [
            f"with {n} texts about {span(seconds * n / texts)}"
            for n in _ROUND
            if n < texts and n <= 1.01 * texts * aim / seconds
        ][:1]
    elif len(job.epsilons) > 1:
        ways.append(f"with one epsilon about {span(seconds / len(job.epsilons))}")
    return f" for {trials} trials of {texts} texts, the attacks not counted" + (f"; {', '.join(ways)}" if ways else "")


def _length(job: Job, trials: int) -> int:
    """Return the number of characters in the distinct texts of the first trials."""
    return sum(len(job.texts[i]) + 1 for i in np.unique(job.source[:trials]))


def _own(output: Rewrites, private: Repeated) -> Rewrites:
    """Check the output, and return it with a copy of its list of texts, which no later call can change."""
    _check(output, private)
    if output.outcomes is not None:
        _check_outcomes(output.outcomes, output.texts, private)
    return replace(output, texts=list(output.texts)) if isinstance(output.texts, list) else output


def _check(rewrites: Rewrites, private: Repeated) -> None:
    """Raise UserError for a mechanism's output that is not one string for each text."""
    expected = len(private)
    if not isinstance(rewrites, Rewrites):
        raise UserError(
            f"a mechanism's rewrite(texts, epsilon, noise) must return epsilometer.core.mechanism.Rewrites(texts), got "
            f"{type(rewrites).__name__}",
            "EPS-A181",
        )
    if len(rewrites.texts) != expected:
        raise UserError(
            f"the mechanism returned {len(rewrites.texts)} texts for {expected}; return exactly one "
            "text for each input",
            "EPS-A182",
        )
    texts = rewrites.texts.texts if isinstance(rewrites.texts, Repeated) else rewrites.texts
    wrong = next((kind for kind in dict.fromkeys(map(type, texts)) if not issubclass(kind, str)), None)
    if wrong is not None:
        refused = [type(text) is wrong for text in rewrites.texts]
        at, remedy = _text(private, refused), _remedy(rewrites.texts[refused.index(True)])
        raise UserError(f"the mechanism returned {wrong.__name__} for {at} instead of a string; {remedy}", "EPS-A183")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        at = _text(private, [not _encodes(text) for text in rewrites.texts])
        raise UserError(
            f"the mechanism returned a lone surrogate for {at}, which is not valid UTF-8; return whole characters",
            "EPS-A184",
        ) from None


def _text(private: Repeated, wrong: Sequence[bool]) -> str:
    """Return "text N of M" for the first text whose rewrite is wrong."""
    return f"text {int(private.numbers[wrong.index(True)]) + 1:,} of {len(private.texts):,}"


def _remedy(rewrite: object) -> str:
    """Return the remedy for a rewrite of another type than str."""
    if rewrite is None:
        return (
            "let it raise its error, or leave the text out of the audit: an empty rewrite would count as perfectly "
            "hidden"
        )
    return "return its .text" if hasattr(rewrite, "text") else "return the rewrite alone, as a str"


def _encodes(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _check_outcomes(outcomes: Outcomes, texts: Sequence[str], private: Repeated) -> None:
    """Raise UserError if there is not one outcome for each text, or if an unchanged text is reported as changed."""
    if len(outcomes) != len(texts):
        raise UserError(
            f"the mechanism returned {len(outcomes)} outcomes for {len(texts)} texts; return exactly one per text",
            "EPS-A185",
        )
    same = {i for i, (text, source) in enumerate(zip(texts, private, strict=True)) if text == source}
    wrong = [i in same and bool(outcomes.status[i] == FOUND or outcomes.changed[i]) for i in range(len(texts))]
    if any(wrong):
        raise UserError(
            f"the mechanism released {_text(private, wrong)} unchanged and calls it {FOUND!r}, or reports changed "
            "words for it; give such texts another status, and 0 changed words",
            "EPS-A186",
        )


def _by_epsilon(parts: Sequence[Sequence[Rewrites]]) -> list[Rewrites]:
    """Join the parts at each epsilon. parts: each with one `Rewrites` per epsilon."""
    return [joined(of_epsilon) for of_epsilon in zip(*parts, strict=True)]


def joined(parts: Sequence[Rewrites]) -> Rewrites:
    """Return the rewrites of all parts, in their order."""
    units = [part.units for part in parts if part.units is not None]
    latents = [part.latents for part in parts if part.latents is not None]
    outcomes = [part.outcomes for part in parts if part.outcomes is not None]
    flaws = [part.flaws for part in parts if part.flaws is not None]
    return Rewrites(
        _join_texts([part.texts for part in parts]),
        Ragged.join(units) if len(units) == len(parts) else None,
        _join_latents(latents) if len(latents) == len(parts) else None,
        Outcomes.join(outcomes) if len(outcomes) == len(parts) else None,
        flaws=np.concatenate(flaws) if len(flaws) == len(parts) else None,
    )


def _join_texts(parts: Sequence[Sequence[str]]) -> Sequence[str]:
    repeated = [part for part in parts if isinstance(part, Repeated)]
    if len(repeated) == len(parts) and all(part.texts is repeated[0].texts for part in repeated):
        return Repeated(repeated[0].texts, np.concatenate([part.numbers for part in repeated]))
    return [text for part in parts for text in part]


def _join_latents(parts: Sequence[Latents]) -> Latents:
    return Latents(np.concatenate([x.before for x in parts]), np.concatenate([x.after for x in parts]))
