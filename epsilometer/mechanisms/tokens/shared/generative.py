"""Base class of mechanisms in which a language model writes the rewrite by the exponential mechanism on tokens.

Claim: given the tokens sampled so far, the probability of the next token changes by a factor of at most e^epsilon
between any two private texts (`models/generation.py`). A rewrite y_1 ... y_m is the adaptive composition of m such
samples, so for any two texts

    P(y | x) <= e^(m epsilon) P(y | x'),    m <= max_new_tokens.

The end of the sequence is one of the outputs, so the length is sampled, too, and its cost is included. After the end
nothing is sampled or released. So the claim for whole texts is max_new_tokens times epsilon. max_new_tokens is public;
the actual number of tokens is private information.

The rewritten text does not determine the sampled tokens, since a text can be divided into tokens in several ways. With
the embedded model, tokenising the rewritten text gives other tokens than those sampled for 40 % of rewrites at epsilon
1, and for 3 % at epsilon 100. So the tokens do not count as released. The likelihood attack sees the tokens, so its
success is an upper bound for attacks on the text.

`as_published: true` stops after as many tokens as the prompt has, like the reference code. That number depends on the
private text, and the claim ignores this: an output longer than another text's prompt excludes that other text. The
published claim is epsilon per generated token, for as many tokens as the longer prompt has.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.core.between import Between
from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours, check_epsilons
from epsilometer.core.mechanism import OneOfGrid, Rewrites, Unread
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.tokens.shared.prompts import fitted
from epsilometer.models.bounds import Clip, bounds

if TYPE_CHECKING:
    from epsilometer.models.generation import TokenLaw
    from epsilometer.models.generator import Generator
    from epsilometer.models.seq2seq import Seq2Seq


@component
class GenerativeMechanism(OneOfGrid):
    """A mechanism whose language model writes the rewrite.

    resource:       a language model by id, folder or pin.
    max_new_tokens: public maximum of tokens in a rewrite.
    clip:           [low, high] of the logits; None: the model's measured bounds.
    as_published:   True for the published form.
    """

    resource: str | Path
    max_new_tokens: Annotated[int, Field(ge=1, le=4096)] = 32
    clip: Clip | None = None
    as_published: bool = False
    precision: Literal["float32", "bfloat16", "auto"] = "float32"

    @property
    @abstractmethod
    def model(self) -> Generator:
        """The language model, loaded once."""

    @abstractmethod
    def framed(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the prompt of each text as token ids, not truncated."""

    @property
    def top_k(self) -> int | None:
        """The number of likeliest tokens to which sampling is limited; None for no limit."""
        return None

    @cached_property
    def law(self) -> TokenLaw:
        """The distribution of one token."""
        from epsilometer.models.generation import TokenLaw

        return TokenLaw(*(self.clip or bounds(self.resource)), self.top_k)

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon for each generated token; max_new_tokens times epsilon for a text (`distance`)."""
        return Guarantee(epsilon, Granularity.TOKEN, Neighbours.ANY)

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return max_new_tokens for two different texts; as published, the number of tokens of the longer prompt."""
        longest = self._limits(self.prompts(texts))[pairs].max(axis=1) if self.as_published else self.max_new_tokens
        same = np.array([texts[i] == texts[j] for i, j in pairs], bool)
        return np.where(same, 0.0, longest)

    def prompts(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the prompt of each text as token ids. Texts that do not fit into the model's window are truncated."""
        room = self.model.room(self.max_new_tokens)
        if room < max(len(ids) for ids in self.framed(["", "a"])):
            raise UserError(
                f"max_new_tokens must leave room for the prompt in the window of {self.resource} ({self.model.window} "
                f"tokens to read, {self.model.longest(0)} to write), got {self.max_new_tokens}; set a smaller number",
                "EPS-M077",
            )
        return fitted(texts, self.framed, room)

    def unread(self, texts: Sequence[str]) -> Unread:
        """Return the number of texts that are truncated, or that have more tokens than a rewrite may have."""
        room = self.model.room(self.max_new_tokens)
        cut = [
            len(framed) > room or (not self.as_published and len(self.tokens(text)) > self.max_new_tokens)
            for text, framed in zip(texts, self.framed(texts), strict=True)
        ]
        return Unread(cut=sum(cut), texts=len(texts))

    def _limits(self, prompts: Sequence[Sequence[int]]) -> NDArray[np.int64]:
        """Return the most tokens that may be sampled after each prompt."""
        if not self.as_published:
            return np.full(len(prompts), self.max_new_tokens)
        return np.array([min(len(ids), self.model.longest(len(ids))) for ids in prompts])

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Return the rewrites at each epsilon. Each distinct text is read once for all trials and epsilons.

        Units are the sampled tokens as ids of the model's vocabulary, including the end of the sequence if reached.
        """
        from epsilometer.models.generation import generate

        check_epsilons(epsilons)
        distinct = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        prompts = self.prompts(list(distinct))
        source = np.array([distinct[text] for text in texts])
        limits = self._limits(prompts)[source]
        draws = int(limits.max(initial=1))
        every = len(epsilons)
        outputs = generate(
            self.model,
            self.law,
            prompts,
            np.tile(source, every),
            epsilons=np.repeat(np.array(epsilons, float), len(texts)),
            limits=np.tile(limits, every),
            draws=noises[0].exact or np.concatenate([noise.uniforms(draws) for noise in noises]),
        )
        results = []
        for i in range(every):
            units = outputs.take(np.arange(i * len(texts), (i + 1) * len(texts)))
            results.append(Rewrites([self.model.text(units.row(row)) for row in range(len(texts))], units))
        return results

    def log_likelihoods(
        self,
        texts: Sequence[str],
        candidates: NDArray[np.integer],
        rewrites: Sequence[Rewrites],
        epsilons: Sequence[float],
    ) -> list[NDArray[np.float64]]:
        """Return the sampled tokens' log-likelihoods; minus infinity if they exceed the limit or stop too early."""
        from epsilometer.models.generation import log_likelihoods

        used, place = np.unique(candidates, return_inverse=True)
        place = place.reshape(candidates.shape)
        prompts = self.prompts([texts[i] for i in used])
        limits = self._limits(prompts)
        pairs: dict[tuple[int, int, bytes], int] = {}  # each distinct (epsilon, candidate, output) is computed once
        sequences: list[NDArray[np.integer]] = []
        indices = []
        for number, of_epsilon in enumerate(rewrites):
            if of_epsilon.units is None:
                raise TypeError("the likelihood of a rewrite needs its drawn tokens")
            index = np.empty(candidates.shape, np.int64)
            for trial, slot in np.ndindex(*candidates.shape):
                output = of_epsilon.units.row(trial)
                key = number, int(place[trial, slot]), output.tobytes()
                if key not in pairs:
                    pairs[key] = len(pairs)
                    sequences.append(output)
                index[trial, slot] = pairs[key]
            indices.append(index)
        source = np.array([key[1] for key in pairs])
        budgets = np.array([epsilons[key[0]] for key in pairs], float)
        lengths = np.array([len(output) for output in sequences])
        ended = np.array([output[-1] == self.model.end for output in sequences])
        possible = np.flatnonzero((lengths == limits[source]) | (ended & (lengths < limits[source])))
        values = np.full(len(pairs), -np.inf)
        values[possible] = log_likelihoods(
            self.model,
            self.law,
            prompts,
            source[possible],
            sequences=[sequences[i] for i in possible],
            epsilons=budgets[possible],
        )
        return [values[index] for index in indices]

    def draws_between(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float, noise: Noise) -> Between:
        """Sample as in `DrawsBetween`, token by token.

        log_rho (`Between`) depends on the tokens, so no upper bound below 0 is known.
        """
        from epsilometer.models.between import generate_between

        used, at = np.unique(pairs, return_inverse=True)
        prompts, rows = self.prompts([texts[i] for i in used]), at.reshape(pairs.shape)
        limits = self._limits(prompts)[rows]
        uniforms = noise.uniforms(int(limits.max(initial=1)))
        log_rho, loss = generate_between(
            self.model, self.law, prompts, rows, epsilon=epsilon, limits=limits, uniforms=uniforms
        )
        return Between(log_rho, loss, np.zeros(len(pairs)))

    def tokens(self, text: str) -> list[str]:
        """Return the tokens with which the model would write a text, then `(end)`."""
        return [self._spelled(i) for i in [*self.model.plain(text), self.model.end]]

    def _spelled(self, token: int) -> str:
        return "(end)" if token == self.model.end else self.model.text([token])

    def first_tokens(self, text: str, epsilons: Sequence[float], count: int) -> list[list[tuple[str, float]]]:
        """Return the likeliest first tokens as in `HasFirstTokens`; the end of the sequence is `(end)`."""
        import torch

        from epsilometer.models.generation import forced

        ((_, logits),) = forced(self.model, self.prompts([text]), np.zeros(1, np.int64), [[self.model.end]])
        probabilities = [
            self.law.log_probabilities(logits[:1, 0], torch.tensor([epsilon], device=logits.device))[0].exp()
            for epsilon in epsilons
        ]
        tokens = []
        for values, places in (each.topk(count) for each in probabilities):
            ids = self.model.outputs[places.cpu().numpy()]
            tokens.append([(self._spelled(i), value) for i, value in zip(ids, values.tolist(), strict=True)])
        return tokens

    def logits(self, texts: Sequence[str]) -> Iterator[NDArray[np.float32]]:
        """Yield arrays [positions, outputs] of unclipped logits, when the model is forced to repeat each text.

        The model reads the mechanism's own prompts. `epsilometer bounds` measures clip bounds on these logits.
        """
        from epsilometer.models.generation import forced

        written = [[*self.model.plain(text), self.model.end][: self.max_new_tokens] for text in texts]
        for rows, logits in forced(self.model, self.prompts(texts), np.arange(len(texts)), written):
            for row, values in zip(rows, logits, strict=True):
                yield values[: len(written[row])].cpu().numpy()


@component
class Filler(GenerativeMechanism):
    """An encoder-decoder that fills one blank of a text. Its prompt is the text alone, without an instruction."""

    @cached_property
    def model(self) -> Seq2Seq:
        """The model, loaded once."""
        from epsilometer.models.seq2seq import Seq2Seq

        return Seq2Seq(self.resource, self.precision)

    def framed(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text."""
        return self.model.tokens(texts)
