"""What an attack is: rewrites and candidates in, guessed slots out. Knows no statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from epsilometer.core.cases import ByCase, Table
from epsilometer.core.errors import UserError
from epsilometer.core.likelihood import by_column, covers, in_slots, posteriors
from epsilometer.core.mechanism import LATENTS, PROVIDER, TEXT, UNITS, Mechanism, Rewrites, law_of
from epsilometer.core.randomness import Noise

SLOT = np.int16  # a guessed slot: candidate sets of up to 32,767 texts
SEES = (TEXT, UNITS, LATENTS, PROVIDER)

_GRID = 1e-6  # scores closer than this are a tie: the last bits of a sum must not decide
_CELLS = 1 << 22  # scores at a time: 32 MB, whatever the number of candidates


@dataclass(frozen=True)
class Embedded:
    """Sentence embeddings of the texts by one model: vectors [texts, dimensions], unit rows."""

    model: str
    precision: str
    vectors: NDArray[np.float32]


@dataclass(frozen=True)
class Context:
    """What an adversary knows besides the rewrite and its candidates.

    texts: the audited texts that candidates number; mechanism and epsilon: what made the rewrites (None: unknown);
    noise: the attack's own stream, one for each trial; embedded: embeddings of the texts, where they exist already;
    public: whether the texts may leave this machine; log_likelihoods: [n, k], of the rewrites under each candidate,
    where they are computed already (`likelihood.computed`): shown to attacks that see what the mechanism's law
    describes, and by case, where these are few, to attacks that say `takes_cases`; prior: how likely the source is to
    stand in each slot, None where in each alike.
    """

    texts: Sequence[str]
    mechanism: Mechanism | None
    epsilon: float
    noise: Noise
    embedded: Embedded | None = None
    public: bool = False
    log_likelihoods: Table | None = None
    prior: Sequence[float] | None = None


@dataclass(frozen=True)
class Guesses:
    """slots: int16 [n], which candidate was named; scores: [n], how sure of it the attack is (`margins`), or None;
    posteriors: [n], how likely it is the source by the mechanism's law, or None where that is not known."""

    slots: NDArray[np.int16]
    scores: NDArray[np.float64] | None = None
    posteriors: NDArray[np.float64] | None = None


class Attack(Protocol):
    """An adversary that names the source of each rewrite among its candidates.

    One that reads with a large model says so by a class variable `large = True`; it then runs only where it is named.
    """

    def guess(self, rewrites: Rewrites, candidates: NDArray[np.integer], context: Context) -> NDArray[np.int16]:
        """candidates: [n, k] text numbers -> [n] guessed slots. Ties are broken by the context's stream."""
        ...


@runtime_checkable
class GuessesGrid(Protocol):
    """An attack that shares work between privacy budgets."""

    def guess_grid(
        self, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
    ) -> list[NDArray[np.int16]]:
        """As `guess`, for the rewrites of the same trials at several epsilons."""
        ...


@runtime_checkable
class Scores(Protocol):
    """An attack that names the candidate with the largest of its scores, and so can say how sure it is."""

    def score_grid(
        self, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
    ) -> Sequence[Table]:
        """For the rewrites of the same trials at several epsilons, a score of each candidate: [n, k] an epsilon."""
        ...


class ByScore:
    """What an attack needs besides `score_grid`; where candidates are many it is asked about some trials at a time."""

    def guess(self: Scores, rewrites: Rewrites, candidates: NDArray[np.integer], context: Context) -> NDArray[np.int16]:
        """The candidate with the largest score."""
        return _by_score(self, [rewrites], candidates, [context])[0].slots

    def guess_grid(
        self: Scores, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
    ) -> list[NDArray[np.int16]]:
        """All epsilons at once."""
        return [guess.slots for guess in _by_score(self, rewrites, candidates, contexts)]


@runtime_checkable
class Selective(Protocol):
    """An attack that not every mechanism can be attacked with."""

    def applies(self, mechanism: Mechanism | None) -> bool:
        """Whether this attack works on rewrites of this mechanism."""
        ...


@runtime_checkable
class Sees(Protocol):
    """An attack that looks at more than the text."""

    def sees(self, mechanism: Mechanism | None) -> str:
        """What it looks at: TEXT, UNITS, LATENTS or PROVIDER (`epsilometer.core.mechanism`)."""
        ...


@runtime_checkable
class Validated(Protocol):
    """An attack that was validated for small candidate sets alone."""

    @property
    def largest_set(self) -> int | None:
        """The largest k at which its power was checked; None: any."""
        ...


@runtime_checkable
class Checked(Protocol):
    """An attack, or a mechanism, that can tell before any work whether it may and can run."""

    def check(self, public: bool) -> None:
        """Raise UserError where it must not see texts of a data set that is public or not, or lacks what it needs."""
        ...


@runtime_checkable
class HasTally(Protocol):
    """An attack that counts what it does, for the report."""

    def tally(self, epsilon: float) -> dict[str, float]:
        """What was counted while guessing at this epsilon, by name."""
        ...


@runtime_checkable
class Queries(Protocol):
    """An attack of an adversary with query access, who lets the mechanism rewrite texts of its own choice."""

    def queries(self, texts: Sequence[str], candidates: NDArray[np.integer]) -> list[str]:
        """Return the texts that it has rewritten at each epsilon, repeats included.

        texts: the audited texts. candidates: numbers of those that are candidates in some trial, in any order.
        """
        ...

    def ask(
        self,
        mechanism: Mechanism,
        texts: Sequence[str],
        candidates: NDArray[np.integer],
        epsilons: Sequence[float],
    ) -> None:
        """Have the texts of `queries` rewritten; guesses on these candidates then ask for nothing more."""
        ...


@runtime_checkable
class Encodes(Protocol):
    """An attack that encodes rewrites with a sentence encoder, which need not encode them again elsewhere."""

    model: str
    precision: str

    @property
    def encoded(self) -> Mapping[str, NDArray[np.float32]]:
        """The vectors, as `models.encoder` gives them, of texts that it has encoded; not of all where they are many."""
        ...


def sees(attack: Attack, mechanism: Mechanism | None) -> str:
    """What the attack looks at when it attacks this mechanism; the text where it does not say."""
    seen = attack.sees(mechanism) if isinstance(attack, Sees) else TEXT
    if seen not in SEES:
        raise UserError(f"{type(attack).__name__}.sees must return one of {', '.join(SEES)}, got {seen!r}")
    return seen


def is_validated(attack: Attack, candidates: int) -> bool:
    """Whether the attack was validated for candidate sets of this size."""
    limit = attack.largest_set if isinstance(attack, Validated) else None
    return limit is None or candidates <= limit


def visible(rewrites: Rewrites, seen: str) -> Rewrites:
    """The rewrites as an adversary with this view has them: an attack cannot look at more than it declares."""
    return Rewrites(
        rewrites.texts,
        rewrites.units if seen in (UNITS, PROVIDER) else None,
        rewrites.latents if seen == LATENTS else None,
    )


def applies(attack: Attack, mechanism: Mechanism | None) -> bool:
    """Whether rewrites of this mechanism can be attacked so."""
    return not isinstance(attack, Selective) or attack.applies(mechanism)


def guesses_of(
    attacks: Mapping[str, Attack],
    rewrites: Mapping[float, Rewrites],
    candidates: NDArray[np.integer],
    context: Callable[[str, float], Context],
) -> Iterator[tuple[str, list[Guesses]]]:
    """Yields each attack's name and guesses, in the order of the epsilons.

    rewrites: of the same trials, by epsilon. candidates: [n, k]. context: of an attack's name and an epsilon.
    """
    for name, attack in attacks.items():
        contexts = [context(name, epsilon) for epsilon in rewrites]
        yield name, guess_and_score(attack, list(rewrites.values()), candidates, contexts)


def guess_and_score(
    attack: Attack, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
) -> list[Guesses]:
    """The guesses at every epsilon of a grid, how sure of them an attack is that has scores, and how likely they are
    by the mechanism's law, where the contexts have likelihoods of all that the attack sees.

    The attack is shown what it says that it sees, and can change nothing of it for another. Raises UserError for
    guesses that are no slots.
    """
    mechanism, tables = contexts[0].mechanism, [context.log_likelihoods for context in contexts]
    seen = sees(attack, mechanism)
    candidates = candidates.view()
    candidates.flags.writeable = False
    texts = _copied(contexts[0].texts)
    contexts = [replace(context, texts=texts) for context in contexts]
    if seen != law_of(mechanism):
        contexts = [replace(context, log_likelihoods=None) for context in contexts]
    elif not getattr(attack, "takes_cases", False):
        contexts = [replace(context, log_likelihoods=_whole(context.log_likelihoods)) for context in contexts]
    shown = [replace(visible(output, seen), texts=_copied(output.texts)) for output in rewrites]
    guesses = _guesses(attack, shown, candidates, contexts)
    for guess in guesses:
        _check(attack, guess.slots, candidates.shape)
    if not covers(mechanism, seen):
        return guesses
    return [
        guess if table is None else replace(guess, posteriors=posteriors(table, guess.slots))
        for guess, table in zip(guesses, tables, strict=True)
    ]


def _copied(texts: Sequence[str]) -> Sequence[str]:
    return list(texts) if isinstance(texts, list) else texts


def _check(attack: Attack, slots: Any, shape: tuple[int, ...]) -> None:
    """Raises UserError unless the guesses are a slot for each row of candidates of this shape [n, k]."""
    trials, candidates = shape
    whole = isinstance(slots, np.ndarray) and slots.dtype.kind in "iu" and slots.shape == (trials,)
    if whole and (trials == 0 or 0 <= slots.min() <= slots.max() < candidates):
        return
    returned = f"an array of {slots.dtype} {list(slots.shape)}" if isinstance(slots, np.ndarray) else repr(type(slots))
    beyond = f" from {slots.min()} to {slots.max()}" if whole else ""
    raise UserError(
        f"{type(attack).__name__}.guess must return an array of {trials} slots, whole numbers from 0 to "
        f"{candidates - 1}, one a rewrite, got {returned}{beyond}; return choose(scores, context.noise)"
    )


def _whole(table: Table | None) -> NDArray[np.floating] | None:
    return table.whole if isinstance(table, ByCase) else table


def _guesses(
    attack: Attack, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
) -> list[Guesses]:
    # Where a setting rules scores out, an attack has None in their place: a Protocol of a property does not see that.
    if isinstance(attack, Scores) and callable(attack.score_grid):
        return _by_score(attack, rewrites, candidates, contexts)
    if isinstance(attack, GuessesGrid):
        return [Guesses(slots) for slots in attack.guess_grid(rewrites, candidates, contexts)]
    return [Guesses(attack.guess(output, candidates, of)) for output, of in zip(rewrites, contexts, strict=True)]


def _by_score(
    attack: Scores, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
) -> list[Guesses]:
    """Block after block of trials: of all scores, n times k, no more than a block's are held."""
    count, k = candidates.shape
    blocks: list[list[Guesses]] = [[] for _ in contexts]
    rows = max(1, _CELLS // k)
    for start in range(0, max(1, count), rows):
        part = slice(start, start + rows)
        whole = count <= rows
        shown = rewrites if whole else [output.take(np.arange(count)[part]) for output in rewrites]
        of = contexts if whole else [_part(context, part) for context in contexts]
        for guesses, scores, context in zip(blocks, attack.score_grid(shown, candidates[part], of), of, strict=True):
            slots = choose(scores, context.noise)
            guesses.append(Guesses(slots, margins(scores, slots)))
    return [_joined(guesses) for guesses in blocks]


def _part(context: Context, part: slice) -> Context:
    table = context.log_likelihoods
    return replace(context, noise=context.noise[part], log_likelihoods=None if table is None else table[part])


def _joined(blocks: Sequence[Guesses]) -> Guesses:
    scores = [block.scores for block in blocks if block.scores is not None]
    return Guesses(np.concatenate([block.slots for block in blocks]), np.concatenate(scores))


def margins(scores: Table, slots: NDArray[np.integer]) -> NDArray[np.float64]:
    """By how much the score of the named candidate exceeds every other's: [n], on the grid of ties, 0 among equals.

    Infinite where it alone is possible. scores: [n, k]; slots: [n].
    """
    if isinstance(scores, ByCase):
        return scores.of_slots(margins, slots)
    out = np.empty(len(scores))
    for part, columns in by_column(scores):
        best, second = np.maximum(*columns[:2]), np.minimum(*columns[:2])
        for column in columns[2:]:
            second = np.maximum(second, np.minimum(best, column))
            best = np.maximum(best, column)
        named = in_slots(columns, slots[part])
        other = np.where(named < best, best, second)
        with np.errstate(invalid="ignore"):
            out[part] = np.where(named > other, np.round((named - other) / _GRID) * _GRID, 0.0)
    return out


def choose(scores: Table, noise: Noise) -> NDArray[np.int16]:
    """The slot of the largest score in each row [n, k]; ties, within the grid, broken at random and not by position.

    Raises UserError for a score that is no number.
    """
    if isinstance(scores, ByCase):
        slots, tied = _largest(scores.rows.T)
        return _without_ties(slots.take(scores.number), tied, noise, scores.number)
    slots = np.empty(len(scores), SLOT)
    for part, columns in by_column(scores):
        slots[part] = _without_ties(*_largest(columns), noise[part])
    return slots


def _largest(columns: NDArray[np.floating]) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
    """The slot of the largest score in each row [n], where it is the only one, and which slots have it [k, n]."""
    largest = columns.max(axis=0)
    if np.isnan(largest).any():
        raise UserError(
            "an attack's score of a candidate is NaN; give what cannot be scored -inf, or the score of the others"
        )
    with np.errstate(invalid="ignore"):
        tied = columns >= largest - _GRID
    slots = np.zeros(columns.shape[1], SLOT)
    for slot, is_best in enumerate(tied):
        slots += is_best * SLOT(slot)
    return slots, tied


def _without_ties(
    slots: NDArray[np.int16], tied: NDArray[np.bool_], noise: Noise, case: NDArray[np.intp] | None = None
) -> NDArray[np.int16]:
    """The slots [n], drawn anew among those that are tied [k, n]; with cases [n], tied is [k, d], of each case."""
    unsure = tied.sum(axis=0, dtype=SLOT) != 1
    if unsure.any():
        rows = np.flatnonzero(unsure if case is None else unsure.take(case))
        among = tied[:, rows if case is None else case[rows]].T
        slots[rows] = np.where(among, noise[rows].uniforms(len(tied)), -1.0).argmax(axis=1)
    return slots
