"""PrivFill with DP-Prompt: each sentence is blanked in turn, and a model fills the blank (NAACL Findings 2025).

In plain words it has a language model guess each sentence anew from the other sentences, choosing each word at random.

For each sentence, the model reads the text with "[blank]" in place of that sentence. It writes at most `max_new_tokens`
tokens from clipped logits l at temperature T = 2 Delta / epsilon,

    P(y_t | x, y_<t) = softmax(clip(l) / T),    Delta = high - low.

The written parts are joined by spaces (Meisenbacher, Chevli and Matthes, "On the Impact of Noise in Differentially
Private Text Rewriting"). Each token is a sample of the exponential mechanism, and costs epsilon between any two texts
(`shared/generative.py`). Every prompt contains the private text except for one sentence, so the costs of all sentences
add up to the number of sentences times max_new_tokens times epsilon.

`as_published: true` follows the released code (privfill 0.1.0, sjmeis/PrivFill d7c80a7, `PrivFillDP`), which fills as
many blanks as the text has sentences. With DP-BART that code divides epsilon by the number of sentences; with DP-Prompt
each token of each sentence gets the whole epsilon. The number of sentences is private, and the claim ignores this: an
output of more than max_new_tokens tokens excludes every text of one sentence. So no finite epsilon holds, as a test and
a script show. The stated claim is generous: it counts epsilon for every token that the text with more sentences may
get.

The corrected form (default) fills a public number of blanks (`sentences`), one for each of the text's first sentences.
If the text has fewer sentences, each remaining blank is put after its end. So the claim is sentences * max_new_tokens *
epsilon between any two texts. Later sentences are read, but never blanked.

Assumptions: the claim is per generated token; any two texts are neighbours; clip range and maxima are public.

Departures: the released code clips to [-95, 8] (Delta = 103) for every model; here each model has its own clip range.
The released code's models are trained to fill blanks; the default model here is not. The released code replaces a
sentence wherever the same characters occur in the text; here only `as_published: true` does so. Sentences are those of
`text/sentences.py`, not NLTK's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.core.component import component
from epsilometer.core.exact_samplers import ExactDraws
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours, check_epsilons
from epsilometer.core.mechanism import OneOfGrid, Rewrites, Unread
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.tokens.shared.generative import Filler
from epsilometer.models.bounds import Clip
from epsilometer.models.embedded import seq2seq
from epsilometer.text.sentences import sentences

BLANK = "[blank]"


@component
class PrivFill(OneOfGrid):
    """An encoder-decoder that fills one blank per sentence, with tokens sampled by the exponential mechanism.

    resource:       an encoder-decoder.
    sentences:      public number of blanks.
    max_new_tokens: public maximum of tokens per blank.
    clip:           [low, high] of the logits; None: the model's measured bounds.
    as_published:   True to fill one blank for each sentence of the text.
    """

    default_resource: ClassVar[Callable[[], Path]] = staticmethod(seq2seq)

    resource: str | Path
    sentences: Annotated[int, Field(ge=1, le=1024)] = 2
    max_new_tokens: Annotated[int, Field(ge=1, le=4096)] = 32
    clip: Clip | None = None
    as_published: bool = False
    precision: Literal["float32", "bfloat16", "auto"] = "float32"

    @cached_property
    def _filler(self) -> Filler:
        return Filler(
            resource=self.resource, max_new_tokens=self.max_new_tokens, clip=self.clip, precision=self.precision
        )

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon per generated token, between any two texts; `distance` returns the number of tokens."""
        return Guarantee(epsilon, Granularity.TOKEN, Neighbours.ANY)

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return the most tokens that a rewrite of either text of a pair may have; 0 for equal texts."""
        most = self.max_new_tokens * np.array([len(self.blanked(text)) for text in texts])[pairs].max(axis=1)
        return np.where([texts[i] == texts[j] for i, j in pairs], 0.0, most)

    def blanked(self, text: str) -> list[str]:
        """Return one prompt text per blank: the text with this blank in it."""
        parts = sentences(text)
        if self.as_published:
            return [text.replace(sentence, BLANK) for sentence, _ in parts] or [BLANK]
        filled = []
        for number in range(self.sentences):
            if number < len(parts):
                here = [(BLANK if i == number else sentence) + gap for i, (sentence, gap) in enumerate(parts)]
                filled.append("".join(here))
            else:
                filled.append(f"{text} {BLANK}")
        return filled

    def unread(self, texts: Sequence[str]) -> Unread:
        """Return the number of texts with a prompt that does not fit into the model's window."""
        room, filler = self._filler.model.room(self.max_new_tokens), self._filler
        cut = [any(len(ids) > room for ids in filler.framed(self.blanked(text))) for text in texts]
        return Unread(cut=sum(cut), texts=len(texts))

    def tokens(self, text: str) -> list[str]:
        """Return the tokens with which the model would write a text, then `(end)`."""
        return self._filler.tokens(text)

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Return the rewrites at each epsilon. Units are the sampled tokens of all blanks, one blank after another."""
        from epsilometer.models.generation import generate

        check_epsilons(epsilons)
        each = [self.blanked(text) for text in texts]
        counts, filler = np.array([len(blanks) for blanks in each]), self._filler
        prompts = filler.prompts([blank for blanks in each for blank in blanks])
        own = np.arange(counts.max(initial=1)) < counts[:, None]  # [texts, most blanks]: True for a blank that exists
        results = []
        for epsilon, noise in zip(epsilons, noises, strict=True):
            draws: ExactDraws | NDArray[np.float64]
            if noise.exact is not None:
                draws = noise.exact
            else:
                draws = noise.uniforms(own.shape[1] * self.max_new_tokens).reshape(*own.shape, -1)[own]
            units = generate(
                filler.model,
                filler.law,
                prompts,
                np.arange(len(prompts)),
                epsilons=np.full(len(prompts), float(epsilon)),
                limits=np.full(len(prompts), self.max_new_tokens),
                draws=draws,
            )
            written = [filler.model.text(units.row(row)) for row in range(len(prompts))]
            ends = np.cumsum(counts)
            joined = [" ".join(written[end - count : end]) for end, count in zip(ends, counts, strict=True)]
            offsets = units.offsets[np.concatenate([[0], ends])]
            results.append(Rewrites(joined, Ragged(units.values, offsets)))
        return results

    def log_likelihoods(
        self,
        texts: Sequence[str],
        candidates: NDArray[np.integer],
        rewrites: Sequence[Rewrites],
        epsilons: Sequence[float],
    ) -> list[NDArray[np.float64]]:
        """Return log-likelihoods, summed over blanks; minus infinity for a candidate with another number of blanks."""
        each = [self.blanked(text) for text in texts]
        first = np.cumsum([0, *(len(blanks) for blanks in each)])
        flat = [blank for blanks in each for blank in blanks]
        tables = []
        for output, epsilon in zip(rewrites, epsilons, strict=True):
            if output.units is None:
                raise TypeError("the likelihood of a rewrite needs its drawn tokens")
            parts = [self._parts(output.units.row(trial)) for trial in range(len(candidates))]
            counts = np.array([len(part) for part in parts])
            trial = np.repeat(np.arange(len(parts)), counts)
            number = np.arange(len(trial)) - np.repeat(np.cumsum(counts) - counts, counts)
            fits = np.diff(first)[candidates] == counts[:, None]
            prompt = np.where(fits[trial], first[candidates[trial]] + number[:, None], 0)
            segments = Rewrites([""] * len(trial), Ragged.of([unit for part in parts for unit in part]))
            (values,) = self._filler.log_likelihoods(flat, prompt, [segments], [epsilon])
            total = np.zeros(candidates.shape)
            np.add.at(total, trial, values)
            tables.append(np.where(fits, total, -np.inf))
        return tables

    def _parts(self, tokens: NDArray[np.integer]) -> list[list[int]]:
        """Return the tokens of each blank. A blank ends with the end token, or after `max_new_tokens` tokens."""
        parts: list[list[int]] = [[]]
        for token in tokens.tolist():
            parts[-1].append(token)
            if token == self._filler.model.end or len(parts[-1]) == self.max_new_tokens:
                parts.append([])
        return parts if parts[-1] else parts[:-1]
