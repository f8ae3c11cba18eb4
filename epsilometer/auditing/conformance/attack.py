"""The rules that an attack must follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, chi2

from epsilometer.auditing.conformance.rules import FALSE_ALARM, TEXTS, Check, Rule, checked, lacks
from epsilometer.auditing.trials.rewriting import Job
from epsilometer.core.attack import SLOT, Attack, Context, GuessesGrid, applies, guess_and_score, sees, visible
from epsilometer.core.mechanism import TEXT, Latents, Mechanism, Rewrites
from epsilometer.core.randomness import Noise

_TRIALS, _SLOTS = 2000, 3


def check_attack(attack: Attack, mechanism: Mechanism | None = None, epsilon: float = 1.0) -> list[Check]:
    """Return the checks of an attack.

    mechanism: rewrites TEXTS for the attack. The default is the first of three simple mechanisms to which the attack
    applies. The first mechanism releases text, the second releases text and units and has a law, and the third releases
    latents.
    """
    return checked(_Checks(attack, mechanism, epsilon).rules())


@dataclass
class _Checks:
    """An attack under test.

    mechanism: None until the first rule chooses one of the simple mechanisms.
    """

    attack: Attack
    mechanism: Mechanism | None
    epsilon: float
    candidates: NDArray[np.int32] = field(init=False)
    target: NDArray[np.int16] = field(init=False)

    def __post_init__(self) -> None:
        draws = Noise.named(_TRIALS, "conformance", "candidates").uniforms(len(TEXTS) + 1)
        self.candidates = draws[:, :-1].argsort(axis=1)[:, :_SLOTS].astype(np.int32)
        self.target = (draws[:, -1] * _SLOTS).astype(SLOT)

    def rules(self) -> Iterator[Rule]:
        yield "guess exists and returns a slot for each rewrite", self._interface
        yield "guess works with the view that `sees` declares", self._declared
        yield "equal streams give equal guesses", self._deterministic
        yield "each guess depends on its own trial alone", self._alone
        if isinstance(self.attack, GuessesGrid):
            yield "guess_grid equals guess at each epsilon", self._grid
        yield "guesses use neither the targets nor the order of the candidates", self._blind
        yield "guesses are no worse than chance on texts that are released unchanged", self._sighted

    def _rewrites(self) -> Rewrites:
        """Return the rewrites of the targets of all trials."""
        assert self.mechanism is not None
        rows = np.arange(_TRIALS)
        texts = [TEXTS[i] for i in self.candidates[rows, self.target]]
        job = Job(texts, rows, [self.epsilon], [Noise.named(rows, "conformance")])
        (rewrites,) = job.run(self.mechanism, rows).rewrites
        return rewrites

    def _guess(self, rewrites: Rewrites, rows: NDArray[np.integer] | None = None) -> NDArray[np.int16]:
        """Return the attack's guesses. rows: the trials that the rewrites belong to; all by default."""
        rows = np.arange(_TRIALS) if rows is None else rows
        context = Context(TEXTS, self.mechanism, self.epsilon, Noise.named(rows, "conformance", "attack"))
        (guesses,) = guess_and_score(self.attack, [rewrites], self.candidates[rows], [context])
        return guesses.slots

    def _interface(self) -> str | None:
        if problem := lacks(self.attack, "guess", 3, "docs/how-to/your-own-attack.md"):
            return problem
        if self.mechanism is None:
            self.mechanism = next((simple for simple in _simple() if applies(self.attack, simple)), None)
            if self.mechanism is None:
                return (
                    "the attack does not apply to any of three simple mechanisms; name a mechanism that it applies to "
                    "(--mechanism)"
                )
        elif not applies(self.attack, self.mechanism):
            return "the attack does not apply to this mechanism; name another mechanism"
        guesses = self._guess(self._rewrites())
        if not isinstance(guesses, np.ndarray) or guesses.dtype.kind not in "iu" or guesses.shape != (_TRIALS,):
            return "guess must return an array of whole numbers, one per rewrite"
        if not ((guesses >= 0) & (guesses < _SLOTS)).all():
            return f"guesses must be slots from 0 to {_SLOTS - 1}, for {_SLOTS} candidates"
        return None

    def _declared(self) -> str | None:
        seen = sees(self.attack, self.mechanism)  # raises for an unknown view
        self._guess(visible(self._rewrites(), seen))
        return None

    def _deterministic(self) -> str | None:
        rewrites = self._rewrites()
        if (self._guess(rewrites) == self._guess(rewrites)).all():
            return None
        return "two calls with the same stream differ; draw from context.noise alone (`choose` breaks ties with it)"

    def _alone(self) -> str | None:
        rewrites, rows = self._rewrites(), np.arange(_TRIALS)[::-7].copy()
        if (self._guess(rewrites.take(rows), rows) == self._guess(rewrites)[rows]).all():
            return None
        return "a guess depends on other rewrites of the batch; use row i and stream i alone for guess i"

    def _grid(self) -> str | None:
        assert isinstance(self.attack, GuessesGrid)
        noises = [Noise.named(_TRIALS, "conformance", turn) for turn in range(2)]
        contexts = [Context(TEXTS, self.mechanism, self.epsilon, noise) for noise in noises]
        shown = visible(self._rewrites(), sees(self.attack, self.mechanism))
        together = self.attack.guess_grid([shown] * 2, self.candidates, contexts)
        for guesses, context in zip(together, contexts, strict=True):
            if not (self.attack.guess(shown, self.candidates, context) == guesses).all():
                return "guess_grid and guess return different guesses; make them equal at each epsilon"
        return None

    def _blind(self) -> str | None:
        """Check that, if all trials show the same rewrite, guesses are uniform over slots and right only by chance."""
        guesses = self._guess(self._rewrites().take(np.zeros(_TRIALS, np.int64)))
        frequent = np.bincount(guesses, minlength=_SLOTS)
        expected = _TRIALS / _SLOTS
        if chi2.sf(((frequent - expected) ** 2 / expected).sum(), _SLOTS - 1) < FALSE_ALARM:
            return (
                f"for rewrites without information, slots are guessed {', '.join(map(str, frequent.tolist()))} times "
                f"of {_TRIALS}; break ties with context.noise (`choose`), never by position"
            )
        right = int((guesses == self.target).sum())
        if binom.sf(right - 1, _TRIALS, 1 / _SLOTS) < FALSE_ALARM:
            return (
                f"for rewrites without information, {right} of {_TRIALS} guesses are right, so the attack reads the "
                "targets; use rewrites and candidates alone"
            )
        return None

    def _sighted(self) -> str | None:
        unchanged = _Unchanged()
        if not applies(self.attack, unchanged) or sees(self.attack, unchanged) != TEXT:
            return None
        texts = [TEXTS[i] for i in self.candidates[np.arange(_TRIALS), self.target]]
        context = Context(TEXTS, unchanged, self.epsilon, Noise.named(_TRIALS, "conformance", "sighted"))
        (guesses,) = guess_and_score(self.attack, [Rewrites(texts)], self.candidates, [context])
        right = int((guesses.slots == self.target).sum())
        if binom.cdf(right, _TRIALS, 1 / _SLOTS) < FALSE_ALARM:
            return (
                f"for texts released unchanged, {right} of {_TRIALS} guesses are right, fewer than by chance; give the "
                "most likely candidate the largest score (flip the sign of a distance)"
            )
        return None


class _Unchanged:
    """A mechanism that releases every text unchanged."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        return Rewrites(list(texts))

    def guarantee(self, epsilon: float) -> None:
        return None


class _Masks:
    """A mechanism for attacks on text: it masks each word with probability 1/2."""

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        uniforms = noise.uniforms(max((len(text.split()) for text in texts), default=0)).tolist()
        rows = [zip(text.split(), row, strict=False) for text, row in zip(texts, uniforms, strict=True)]
        return Rewrites([" ".join(word if u < 0.5 else "*" for word, u in row) for row in rows])

    def guarantee(self, epsilon: float) -> None:
        return None


class _Noisy:
    """A mechanism for attacks on latents: it adds uniform noise to the counts of letters."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([[text.count(chr(97 + i)) for i in range(26)] for text in texts], np.float32)

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        before = self.encode(texts)
        after = before + (noise.uniforms(before.shape[1]) - 0.5).astype(np.float32)
        return Rewrites(["hidden"] * len(texts), latents=Latents(before, after))

    def guarantee(self, epsilon: float) -> None:
        return None


def _simple() -> Iterator[Mechanism]:
    from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse

    yield _Masks()
    yield RandomizedResponse(resource=TEXTS)
    yield _Noisy()
