"""DP-Fusion: each token is drawn between the laws after a text and after its redaction (arXiv:2507.04531, ICLR 2026).

In plain words it has a language model rewrite a text, and keeps each word about as likely as with the secrets blanked.

    p = lambda p_private + (1 - lambda) p_public,
    lambda the largest in [0, 1] with max(D_a(p || p_public), D_a(p_public || p)) <= bound,

p_private the model's softmax after the text, p_public after its redaction, D_a the Renyi divergence of order a
(`models/fusion.py`). A text has the probability of the product of p_t(y_t), by two forward passes.

Which pairs. A step bounds the divergence between a text and its **redaction**, whose own law is p_public. Renyi bounds
of one order compose and convert, so T tokens keep (T bound + ln(1 / delta) / (a - 1), delta) between these two: the
claim here (default), with bound = epsilon a token.

Between **two secrets** with one redaction the bound says nothing: a single order has no triangle inequality.
Two tokens, a = 2, beta = .1: p_public gives the rarer one s; after one secret it may have .47 sqrt(s), after another
4.5 s^2, so D_2 between them is about ln(.049 / s), without a limit.

`as_published: true` has bound = a beta, epsilon = 4 beta, and the claim T 4 beta + ln(1 / delta) / (a - 1) between any
two texts of one redaction: dp-fusion-lib 0.1.0 says that its output is "statistically similar regardless of the
specific private information present". One step at s = 1e-5 and beta = .1 refutes it: 11.91 at delta 1e-5 is claimed,
and delta 1.4e-3 is attained (a test enumerates it). The paper's definition of neighbours was not at hand. Its abstract
(v1) says that the output "remains within a fixed statistical distance of the baseline distribution produced when no
privacy group is revealed": for a secret that is present or redacted the claim holds where a <= 4.

`released_code: true` (with as_published) has that package's 20 bisections, and probabilities raised to 1e-10 in the
divergences alone: then the bound does not hold against the redaction either.

Secrets are the words of the file `secrets`, and without a file all words with a capital letter or a digit; each becomes
one `_`. A secret that is not marked is part of the public text, and texts that differ in it are not covered.

Departures: a public maximum of tokens; one group of secrets; prompts are read without padding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours, check_epsilons
from epsilometer.core.mechanism import OneOfGrid, Rewrites, Unread
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.tokens.shared.prompts import fitted
from epsilometer.models.embedded import paraphraser
from epsilometer.text.words import words as words_of

if TYPE_CHECKING:
    from epsilometer.models.causal_lm import CausalLM
    from epsilometer.models.fusion import Fusion

PLACEHOLDER = "_"
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_MARKED = re.compile(r"[A-Z0-9]")
_FLOOR, _STEPS = math.log(1e-10), 20  # of the released code


@component
class DPFusion(OneOfGrid):
    """A causal language model whose tokens are drawn between two prompts.

    resource: a decoder-only model; template: its prompt, with {text}; secrets: a file of words, one a line.
    order: a; delta: of the claim; max_new_tokens: the public maximum of a rewrite. as_published: the published bound
    and claim; released_code: with it, the package's clamped divergences.
    """

    default_resource: ClassVar[Callable[[], Path]] = staticmethod(paraphraser)

    resource: str | Path
    template: str = "{text} >>>>>"
    secrets: Path | None = None
    order: Annotated[float, Field(gt=1, le=64)] = 2.0
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    max_new_tokens: Annotated[int, Field(ge=1, le=4096)] = 32
    as_published: bool = False
    released_code: bool = False
    precision: Literal["float32", "bfloat16", "auto"] = "float32"

    @field_validator("template")
    @classmethod
    def _has_text(cls, value: str) -> str:
        if value.count("{text}") != 1:
            raise ValueError("template must contain {text} once")
        return value

    @model_validator(mode="after")
    def _only_released(self) -> DPFusion:
        if self.released_code and not self.as_published:
            raise ValueError("released_code: true makes the published claim; give as_published: true, too")
        return self

    @cached_property
    def model(self) -> CausalLM:
        """The language model, loaded once."""
        from epsilometer.models.causal_lm import CausalLM

        return CausalLM(self.resource, self.precision)

    @cached_property
    def fusion(self) -> Fusion:
        """The mixture's law."""
        from epsilometer.models.fusion import Fusion

        return Fusion(self.order, _STEPS, _FLOOR) if self.released_code else Fusion(self.order)

    def bound(self, epsilon: float) -> float:
        """Return the bound of a token's divergence: epsilon, or a beta = a epsilon / 4 as published."""
        return self.order * epsilon / 4 if self.as_published else epsilon

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """T epsilon + ln(1 / delta) / (a - 1) for a whole text, between texts as in `distance`."""
        check_epsilons([epsilon])  # which the claim's own check would miss, since ln(1 / delta) is added
        total = self.max_new_tokens * epsilon - math.log(self.delta) / (self.order - 1)
        covers = "secrets that differ" if self.as_published else "secrets present or redacted"
        return Guarantee(
            total, Granularity.DOCUMENT, Neighbours.ANY, self.delta, metric=covers, public="all but the secrets"
        )

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return 1 for a text and its redaction, as published for texts of one redaction; infinite for others."""
        bare = [self.redacted(text) for text in texts]
        apart = np.full(len(pairs), np.inf)
        for place, (first, second) in enumerate(pairs):
            if texts[first] == texts[second]:
                apart[place] = 0.0
            elif bare[first] == bare[second] and (self.as_published or bare[first] in (texts[first], texts[second])):
                apart[place] = 1.0
        return apart

    def redacted(self, text: str) -> str:
        """Return the text with a placeholder in place of each secret word."""
        return _WORD.sub(lambda match: PLACEHOLDER if self._secret(match[0]) else match[0], text)

    def _secret(self, word: str) -> bool:
        if self.secrets is None:
            return _MARKED.search(word) is not None
        return word.lower() in self._listed

    @cached_property
    def _listed(self) -> set[str]:
        assert self.secrets is not None
        try:
            return set(words_of(self.secrets.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"the secret words {str(self.secrets)!r} cannot be read ({error}); give a text file with a word a line",
                "EPS-M109",
            ) from error

    def prompts(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the prompt of each text as token ids; a text too long for the model's window loses its end."""
        room = self.model.room(self.max_new_tokens)
        if room < max(len(ids) for ids in self._framed(["", "a"])):
            raise UserError(
                f"max_new_tokens must leave room for the prompt in the window of {self.resource} ({self.model.window} "
                f"tokens), got {self.max_new_tokens}; set fewer",
                "EPS-M110",
            )
        return fitted(texts, self._framed, room)

    def _framed(self, texts: Sequence[str]) -> list[list[int]]:
        written = [self.template.replace("{text}", text) for text in texts]
        return self.model.chat_tokens(written) if self.model.chats else self.model.tokens(written)

    def unread(self, texts: Sequence[str]) -> Unread:
        """Return the counts of texts that do not fit into the prompt."""
        room = self.model.room(self.max_new_tokens)
        return Unread(cut=sum(len(ids) > room for ids in self._framed(texts)), texts=len(texts))

    def _sides(self, texts: Sequence[str]) -> tuple[list[list[int]], NDArray[np.int64]]:
        """Return distinct prompts, and the private and the public one of each text [n, 2]."""
        sides = [(text, self.redacted(text)) for text in texts]
        numbers = {text: i for i, text in enumerate(dict.fromkeys(text for side in sides for text in side))}
        pairs = np.array([[numbers[text] for text in side] for side in sides], np.int64).reshape(-1, 2)
        return self.prompts(list(numbers)), pairs

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Draw each token from the mixture; units are the drawn tokens as ids of the model's vocabulary."""
        from epsilometer.models.fusion import generate_fused

        check_epsilons(epsilons)
        prompts, pairs = self._sides(texts)
        results = []
        for epsilon, noise in zip(epsilons, noises, strict=True):
            units = generate_fused(
                self.model,
                self.fusion,
                prompts,
                pairs,
                bounds=np.full(len(texts), self.bound(epsilon)),
                limit=self.max_new_tokens,
                draws=noise.exact or noise.uniforms(self.max_new_tokens),
            )
            results.append(Rewrites([self.model.text(units.row(row)) for row in range(len(texts))], units))
        return results

    def log_likelihoods(
        self,
        texts: Sequence[str],
        candidates: NDArray[np.integer],
        rewrites: Sequence[Rewrites],
        epsilons: Sequence[float],
    ) -> list[NDArray[np.float64]]:
        """Return log-likelihoods of the drawn tokens; the last one is the end of the sequence or at the maximum."""
        from epsilometer.models.fusion import fused_log_likelihoods

        used, place = np.unique(candidates, return_inverse=True)
        place = place.reshape(candidates.shape)
        prompts, sides = self._sides([texts[i] for i in used])
        tables = []
        for output, epsilon in zip(rewrites, epsilons, strict=True):
            if output.units is None:
                raise TypeError("the likelihood of a rewrite needs its drawn tokens")
            outputs = [output.units.row(trial) for trial in range(len(candidates))]
            jobs = {(int(place[at]), outputs[at[0]].tobytes()): at[0] for at in np.ndindex(*candidates.shape)}
            rows, trials = [key[0] for key in jobs], list(jobs.values())
            ended = [self._whole(outputs[i].tolist()) for i in trials]
            values = fused_log_likelihoods(
                self.model,
                self.fusion,
                prompts,
                sides[rows],
                bounds=np.full(len(rows), self.bound(epsilon)),
                sequences=[outputs[i] for i in trials],
            )
            by_job = dict(zip(jobs, np.where(ended, values, -np.inf), strict=True))
            table = [by_job[int(place[at]), outputs[at[0]].tobytes()] for at in np.ndindex(*candidates.shape)]
            tables.append(np.array(table).reshape(candidates.shape))
        return tables

    def _whole(self, tokens: list[int]) -> bool:
        """Return whether these tokens are a whole rewrite: the end is the last one, or there are as many as may be."""
        ended = self.model.end in tokens[-1:]
        inside = self.model.end not in tokens[:-1]
        return inside and (ended or len(tokens) == self.max_new_tokens) and len(tokens) <= self.max_new_tokens

    def tokens(self, text: str) -> list[str]:
        """Return the model's tokens of a text, as if it wrote the text; the end of the sequence is `(end)`."""
        return [*(self.model.text([i]) for i in self.model.plain(text)), "(end)"]
