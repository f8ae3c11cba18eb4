"""DP-Fusion: samples tokens from a mixture of two distributions, given a text and its redaction (arXiv:2507.04531).

In plain words it has a language model rewrite a text, and keeps each word about as likely as with the secrets blanked.

The paper is published at ICLR 2026. The next token is sampled from

    p = lambda p_private + (1 - lambda) p_public,
    with the largest lambda in [0, 1] for which max(D_a(p || p_public), D_a(p_public || p)) <= bound.

p_private is the model's softmax given the text, p_public the softmax given the text's redaction, and D_a the Renyi
divergence of order a (`models/fusion.py`). The probability of a rewrite is the product of its tokens' p, computed in
two forward passes.

The claim is for a text and its **redaction**. Each step bounds the divergence between p and p_public, and p_public is
the distribution for the redaction itself. Renyi bounds of one order compose and convert to (epsilon, delta). So T
tokens satisfy (T bound + ln(1 / delta) / (a - 1), delta) between a text and its redaction. By default bound = epsilon
per token.

There is no claim between **two texts with the same redaction** and different secrets, since the divergence of a single
order has no triangle inequality. Example for a vocabulary of two tokens, a = 2 and bound = .2: let s be p_public of the
rarer token. That token's probability may be .47 sqrt(s) after one secret and 4.5 s^2 after another. So D_2 between the
two secrets is about ln(.049 / s), which is unbounded as s goes to 0.

`as_published: true` sets bound = a beta and epsilon = 4 beta, and claims 4 T beta + ln(1 / delta) / (a - 1) between any
two texts with the same redaction. The reason for this claim is that dp-fusion-lib 0.1.0 calls its output "statistically
similar regardless of the specific private information present". One step of the example above (beta = .1) with s = 1e-5
refutes this claim. For one step the claim is epsilon 11.91 at delta 1e-5, but the exact delta at 11.91 is 1.4e-3 (a
test computes it). The paper was not at hand. A reading note on its ICLR version states a weaker claim, whose neighbours
(Definition 3) are documents with and without the tokens of one group of secrets. Between such documents the claim above
holds if a <= 4. For m groups of secrets the paper's claim is
T ln((m - 1 + e^(4 (a - 1) beta)) / m) / (a - 1) + ln(1 / delta) / (a - 1). For one group it equals the claim above.

`released_code: true` (with as_published) uses 20 bisections as dp-fusion-lib does, and raises probabilities below 1e-10
to 1e-10, but only in the divergences. Then the bound fails even between a text and its redaction.

Secrets are the words in the file `secrets`. Without a file they are all words with a capital letter or a digit. Each
secret is replaced by one `_`. A secret that this rule misses stays in the public text, and the claim does not cover
texts that differ in it. Departures: a public maximum of tokens; one group of secrets; prompts are read without padding.
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
_FLOOR, _STEPS = math.log(1e-10), 20  # minimum log-probability and number of bisections of the released code


@component
class DPFusion(OneOfGrid):
    """DP-Fusion.

    resource:       a decoder-only model.
    template:       the model's prompt, with {text}.
    secrets:        a file of secret words, one per line; None: all words with a capital letter or a digit.
    order:          a, the order of the Renyi divergence.
    delta:          delta of the claim.
    max_new_tokens: public maximum of tokens in a rewrite.
    as_published:   True for the published bound and claim.
    released_code:  True for the package's clamped divergences; needs as_published.
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
            raise ValueError("released_code: true makes the published claim; set as_published: true, too")
        return self

    @cached_property
    def model(self) -> CausalLM:
        """The language model, loaded once."""
        from epsilometer.models.causal_lm import CausalLM

        return CausalLM(self.resource, self.precision)

    @cached_property
    def fusion(self) -> Fusion:
        """The rule of the mixture."""
        from epsilometer.models.fusion import Fusion

        return Fusion(self.order, _FLOOR, _STEPS) if self.released_code else Fusion(self.order)

    def bound(self, epsilon: float) -> float:
        """Return the bound on a token's divergence: epsilon; as published, a beta = a epsilon / 4."""
        return self.order * epsilon / 4 if self.as_published else epsilon

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """T epsilon + ln(1 / delta) / (a - 1) for a whole text and its redaction."""
        check_epsilons([epsilon])  # `Guarantee` sees only the sum, which can be valid even if epsilon is not
        total = self.max_new_tokens * epsilon - math.log(self.delta) / (self.order - 1)
        covers = "secrets that differ" if self.as_published else "secrets present or redacted"
        return Guarantee(
            total, Granularity.DOCUMENT, Neighbours.ANY, self.delta, metric=covers, public="all but the secrets"
        )

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return 0 for equal texts, 1 for a text and its redaction (as published: equal redactions), else infinity."""
        bare = [self.redacted(text) for text in texts]
        apart = np.full(len(pairs), np.inf)
        for place, (first, second) in enumerate(pairs):
            if texts[first] == texts[second]:
                apart[place] = 0.0
            elif bare[first] == bare[second] and (self.as_published or bare[first] in (texts[first], texts[second])):
                apart[place] = 1.0
        return apart

    def redacted(self, text: str) -> str:
        """Return the text with each secret word replaced by a placeholder."""
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
                f"the secret words {str(self.secrets)!r} cannot be read ({error}); give a text file, one word per line",
                "EPS-M109",
            ) from error

    def prompts(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the prompt of each text as token ids. Texts that do not fit into the model's window are truncated."""
        room = self.model.room(self.max_new_tokens)
        if room < max(len(ids) for ids in self._framed(["", "a"])):
            raise UserError(
                f"max_new_tokens must leave room for the prompt in the window of {self.resource} ({self.model.window} "
                f"tokens), got {self.max_new_tokens}; set a smaller number",
                "EPS-M110",
            )
        return fitted(texts, self._framed, room)

    def _framed(self, texts: Sequence[str]) -> list[list[int]]:
        written = [self.template.replace("{text}", text) for text in texts]
        return self.model.chat_tokens(written) if self.model.chats else self.model.tokens(written)

    def unread(self, texts: Sequence[str]) -> Unread:
        """Return the number of truncated texts."""
        room = self.model.room(self.max_new_tokens)
        return Unread(cut=sum(len(ids) > room for ids in self._framed(texts)), texts=len(texts))

    def _sides(self, texts: Sequence[str]) -> tuple[list[list[int]], NDArray[np.int64]]:
        """Return the distinct prompts, and the indices of each text's private and public prompt, [n, 2]."""
        sides = [(text, self.redacted(text)) for text in texts]
        numbers = {text: i for i, text in enumerate(dict.fromkeys(text for side in sides for text in side))}
        pairs = np.array([[numbers[text] for text in side] for side in sides], np.int64).reshape(-1, 2)
        return self.prompts(list(numbers)), pairs

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Return the rewrites at each epsilon. Units are the sampled tokens, as ids of the model's vocabulary."""
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
        """Return log-likelihoods of the sampled tokens; minus infinity if they are not a whole rewrite."""
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
        """Return True if these tokens are a whole rewrite: they end with the end token or at the maximum."""
        ended = self.model.end in tokens[-1:]
        inside = self.model.end not in tokens[:-1]
        return inside and (ended or len(tokens) == self.max_new_tokens) and len(tokens) <= self.max_new_tokens

    def tokens(self, text: str) -> list[str]:
        """Return the tokens with which the model would write a text, then `(end)`."""
        return [*(self.model.text([i]) for i in self.model.plain(text)), "(end)"]
