"""The interface of attacks: rewrites and candidates in, guessed slots out. A slot is a candidate's place in its set."""

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

SLOT = np.int16  # data type of a guessed slot; candidate sets have at most 32,767 texts
SEES = (TEXT, UNITS, LATENTS, PROVIDER)

_GRID = 1e-6  # closer scores count as tied, so that rounding decides no guess
_CELLS = 1 << 22  # scores per block (32 MB), whatever the number of candidates


@dataclass(frozen=True)
class Embedded:
    """Sentence embeddings of the texts by one model: vectors [texts, dimensions], unit rows."""

    model: str
    precision: str
    vectors: NDArray[np.float32]


@dataclass(frozen=True)
class Context:
    """The adversary's knowledge besides the rewrite and its candidates.

    texts: the audited texts; candidates are indices into this list. mechanism: the mechanism that made the rewrites, at
    this epsilon; None if the adversary does not know it. noise: the attack's random streams, one for each trial.
    embedded: embeddings of the texts, if already computed. public: True if the texts may leave this machine.
    log_likelihoods: [n, k], ln of the probability of each rewrite given each candidate, if already computed
    (`likelihood.computed`). An attack gets this table only if the mechanism's law describes the view that the attack
    sees. If few trials are distinct, an attack with `takes_cases` gets the table as `ByCase` (`core.cases`). prior: for
    each slot, the probability that it holds the source; None if uniform.
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
    """The guesses on n rewrites.

    slots: int16 [n], the guessed candidates. scores: [n], the confidence in each guess (`margins`), or None.
    posteriors: [n], the probability under the mechanism's law that each guess is right, or None if unknown.
    """

    slots: NDArray[np.int16]
    scores: NDArray[np.float64] | None = None
    posteriors: NDArray[np.float64] | None = None


class Attack(Protocol):
    """An adversary that guesses which candidate is the source of each rewrite.

    An attack that needs a large model sets the class variable `large = True`. It then runs only if requested by name.
    """

    def guess(self, rewrites: Rewrites, candidates: NDArray[np.integer], context: Context) -> NDArray[np.int16]:
        """Return the guessed slots [n]. candidates: text numbers [n, k]. The context's `noise` breaks ties."""
        ...


@runtime_checkable
class GuessesGrid(Protocol):
    """An attack that shares work between privacy budgets."""

    def guess_grid(
        self, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
    ) -> list[NDArray[np.int16]]:
        """Return the guesses of `guess` for each epsilon. The rewrites at all epsilons belong to the same trials."""
        ...


@runtime_checkable
class Scores(Protocol):
    """An attack that guesses the candidate with the largest score. The scores also give the attack's confidence."""

    def score_grid(
        self, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
    ) -> Sequence[Table]:
        """Return scores [n, k] of the candidates for each epsilon, from the rewrites of the same trials."""
        ...


class ByScore:
    """Mixin that derives `guess` and `guess_grid` from `score_grid`, in blocks of trials to limit memory."""

    def guess(self: Scores, rewrites: Rewrites, candidates: NDArray[np.integer], context: Context) -> NDArray[np.int16]:
        """Return the slot of the candidate with the largest score."""
        return _by_score(self, [rewrites], candidates, [context])[0].slots

    def guess_grid(
        self: Scores, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
    ) -> list[NDArray[np.int16]]:
        """Return the guesses at all epsilons at once."""
        return [guess.slots for guess in _by_score(self, rewrites, candidates, contexts)]


@runtime_checkable
class Selective(Protocol):
    """An attack that applies to some mechanisms only."""

    def applies(self, mechanism: Mechanism | None) -> bool:
        """Return whether this attack works on rewrites of this mechanism."""
        ...


@runtime_checkable
class Sees(Protocol):
    """An attack that sees more than the text."""

    def sees(self, mechanism: Mechanism | None) -> str:
        """Return the view that the attack sees: TEXT, UNITS, LATENTS or PROVIDER (`epsilometer.core.mechanism`)."""
        ...


@runtime_checkable
class Validated(Protocol):
    """An attack validated only for small candidate sets."""

    @property
    def largest_set(self) -> int | None:
        """The largest number of candidates for which the attack's power was validated; None: any number."""
        ...


@runtime_checkable
class Checked(Protocol):
    """An attack or a mechanism that checks, before any work, whether it is allowed and able to run."""

    def check(self, public: bool) -> None:
        """Raise UserError if a requirement is missing, or if only public texts are allowed and `public` is False."""
        ...


@runtime_checkable
class HasTally(Protocol):
    """An attack that counts its own events for the report."""

    def tally(self, epsilon: float) -> dict[str, float]:
        """Return the counts of the guesses at this epsilon, by name."""
        ...


@runtime_checkable
class Queries(Protocol):
    """An attack with query access: the mechanism rewrites texts that the adversary chooses."""

    def queries(self, texts: Sequence[str], candidates: NDArray[np.integer]) -> list[str]:
        """Return the texts to rewrite at each epsilon, repeats included.

        texts: the audited texts. candidates: the numbers of all texts that are candidates in any trial, in any order.
        """
        ...

    def ask(
        self,
        mechanism: Mechanism,
        texts: Sequence[str],
        candidates: NDArray[np.integer],
        epsilons: Sequence[float],
    ) -> None:
        """Have the texts of `queries` rewritten, so that guesses on these candidates need no further queries."""
        ...


@runtime_checkable
class Encodes(Protocol):
    """An attack that encodes rewrites with a sentence encoder and shares the vectors."""

    model: str
    precision: str

    @property
    def encoded(self) -> Mapping[str, NDArray[np.float32]]:
        """Return vectors by text, as `models.encoder` computes them. Not every text has a vector here."""
        ...


def sees(attack: Attack, mechanism: Mechanism | None) -> str:
    """Return the view that the attack has of this mechanism; the text by default."""
    seen = attack.sees(mechanism) if isinstance(attack, Sees) else TEXT
    if seen not in SEES:
        raise UserError(f"{type(attack).__name__}.sees must return one of {', '.join(SEES)}, got {seen!r}", "EPS-C004")
    return seen


def is_validated(attack: Attack, candidates: int) -> bool:
    """Return whether the attack was validated for candidate sets of this size."""
    limit = attack.largest_set if isinstance(attack, Validated) else None
    return limit is None or candidates <= limit


def visible(rewrites: Rewrites, seen: str) -> Rewrites:
    """Return the rewrites restricted to this view, so that an attack sees no more than it declares."""
    return Rewrites(
        rewrites.texts,
        rewrites.units if seen in (UNITS, PROVIDER) else None,
        rewrites.latents if seen == LATENTS else None,
    )


def applies(attack: Attack, mechanism: Mechanism | None) -> bool:
    """Return whether the attack applies to rewrites of this mechanism."""
    return not isinstance(attack, Selective) or attack.applies(mechanism)


def guesses_of(
    attacks: Mapping[str, Attack],
    rewrites: Mapping[float, Rewrites],
    candidates: NDArray[np.integer],
    context: Callable[[str, float], Context],
) -> Iterator[tuple[str, list[Guesses]]]:
    """Yield each attack's name and its guesses, in the order of the epsilons.

    rewrites: the rewrites of the same trials at each epsilon. candidates: [n, k]. context: a function from an attack's
    name and an epsilon to the context.
    """
    for name, attack in attacks.items():
        contexts = [context(name, epsilon) for epsilon in rewrites]
        yield name, guess_and_score(attack, list(rewrites.values()), candidates, contexts)


def guess_and_score(
    attack: Attack, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
) -> list[Guesses]:
    """Return the guesses at every epsilon, with confidences if the attack scores candidates.

    Guesses have posteriors if the mechanism's law covers everything that the attack sees, and the contexts hold its
    likelihoods.

    The attack gets only the view that it declares. It cannot change what other attacks get. Raises UserError for
    guesses that are not slots.
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
    """Raise UserError unless the guesses are one slot for each row of candidates of this shape [n, k]."""
    trials, candidates = shape
    whole = isinstance(slots, np.ndarray) and slots.dtype.kind in "iu" and slots.shape == (trials,)
    if whole and (trials == 0 or 0 <= slots.min() <= slots.max() < candidates):
        return
    returned = f"an array of {slots.dtype} {list(slots.shape)}" if isinstance(slots, np.ndarray) else repr(type(slots))
    beyond = f" from {slots.min()} to {slots.max()}" if whole else ""
    raise UserError(
        f"{type(attack).__name__}.guess must return an array of {trials} slots, one per rewrite, as whole numbers from "
        f"0 to {candidates - 1}, got {returned}{beyond}; return choose(scores, context.noise)",
        "EPS-C005",
    )


def _whole(table: Table | None) -> NDArray[np.floating] | None:
    return table.whole if isinstance(table, ByCase) else table


def _guesses(
    attack: Attack, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
) -> list[Guesses]:
    # An attack whose settings rule out scores has None as `score_grid`, which isinstance does not detect.
    if isinstance(attack, Scores) and callable(attack.score_grid):
        return _by_score(attack, rewrites, candidates, contexts)
    if isinstance(attack, GuessesGrid):
        return [Guesses(slots) for slots in attack.guess_grid(rewrites, candidates, contexts)]
    return [Guesses(attack.guess(output, candidates, of)) for output, of in zip(rewrites, contexts, strict=True)]


def _by_score(
    attack: Scores, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
) -> list[Guesses]:
    """Guess block by block of trials, so that only one block of the n times k scores is in memory."""
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
    """Return the lead [n] of the guessed candidate's score over the best other score, rounded to 1e-6.

    A tie has lead 0. The lead is infinite if no other candidate is possible. scores: [n, k]; slots: [n].
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
    """Return the slot of the largest score in each row [n, k]. Scores within 1e-6 tie; ties are broken at random.

    Raises UserError for a NaN score.
    """
    if isinstance(scores, ByCase):
        slots, tied = _largest(scores.rows.T)
        return _without_ties(slots.take(scores.number), tied, noise, scores.number)
    slots = np.empty(len(scores), SLOT)
    for part, columns in by_column(scores):
        slots[part] = _without_ties(*_largest(columns), noise[part])
    return slots


def _largest(columns: NDArray[np.floating]) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
    """Return the slot [n] of each trial's largest score (meaningless for ties), and the mask [k, n] of tied slots."""
    largest = columns.max(axis=0)
    if np.isnan(largest).any():
        raise UserError(
            "an attack's score of a candidate is NaN; set it to -inf, or to the score of the other candidates",
            "EPS-C006",
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
    """Return the slots [n], with each tie broken at random.

    case: [n], each trial's case, if trials are stored as d cases (`core.cases`). tied: the mask of tied slots, [k, n],
    or [k, d] with cases.
    """
    unsure = tied.sum(axis=0, dtype=SLOT) != 1
    if unsure.any():
        rows = np.flatnonzero(unsure if case is None else unsure.take(case))
        among = tied[:, rows if case is None else case[rows]].T
        slots[rows] = np.where(among, noise[rows].uniforms(len(tied)), -1.0).argmax(axis=1)
    return slots
