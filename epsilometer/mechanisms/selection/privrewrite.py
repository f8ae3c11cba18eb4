"""PrivRewrite: releases one of k rewrites of a sanitised text by a black-box model (Applied Sciences 15(22) 11930).

In plain words it replaces words at random, has a language model rewrite the result several times, and chooses one of
these at random.

Phase 1 (section 4.1). Each of the T words x_i of the text is replaced by a sample of the exponential mechanism on the
clipped cosine of unit word vectors E, at epsilon_1 (`epsilometer.mechanisms.words.exponential`):

    P(z_i | x_i) ~ exp(epsilon_1 max(0, cos(x_i, z_i)) / 2).

The provider, a local language model or one behind an endpoint, sees only the sanitised text z, and writes k candidates
at a temperature. Candidates without a word, and candidates with more out-of-vocabulary words than other words, are
incoherent and are dropped. The remaining candidates are considered in order. A candidate is added to the pool if its
similarity s = (1 + cosine of sentence embeddings) / 2 to each candidate in the pool is at most tau. The pool C(z) is
post-processing of z.

Phase 2 (section 4.2). One candidate y of the pool is sampled by the exponential mechanism at epsilon_2:

    P(y | x, C(z)) ~ exp(epsilon_2 u(x, y) / (2 Delta)),    u(x, y) = clip01((<Phi(x), Phi(y)> + beta) / (1 + beta)),

where Phi is the plain average of a text's word vectors. Exchanging one word of x moves Phi(x) by at most 2 / T, so

    Delta = min(1, 2 / ((1 + beta) T))    (lemma 1),    or 1 in the variant `naive`.

If every candidate is incoherent, the pool is empty. Then z is released (section 4.3.2), or an empty text with
`fallback: abstain`. Both fallbacks are post-processing of z.

Claim (theorem 1, sequential composition): epsilon = epsilon_1 + epsilon_2 for texts of T words that differ in one word,
with epsilon_1 = split * epsilon. The claim holds for z and y together, so it also holds if provider and reader collude.
The provider's view alone has a loss of at most epsilon_1. For texts that differ in d words, u differs by at most min(1,
d Delta), so the loss is at most d epsilon_1 + min(d, 1 / Delta) epsilon_2 (`distance`).

Assumptions: the claim is per word and holds between any two words. Neighbours have the same number of words, since the
law depends on T, which is not protected. Vocabulary, vectors, encoder, provider, k, tau, beta and split are public and
chosen without looking at the texts. An out-of-vocabulary word is replaced by one fixed word before the noise. Private
texts may be rewritten through an endpoint, since the sanitised text that the endpoint sees has the claim epsilon_1 per
word.

The paper compares two more variants (section 5.1). Here they are separate mechanisms, on the encoder's word vectors.
`em` releases z at the whole epsilon without a provider, as `exponential` does. `wp` is `mvc`; its claim, epsilon times
a distance, is not comparable with the other variants' claims.

Departures. The formulas of u and Delta were reconstructed from the proof of lemma 1; every line of the proof agrees
with them. The paper's text calls <Phi(x), Phi(y)> the "cosine similarity" of "normalised average embeddings". If
averages were scaled to length 1, the lemma would be false, since one word can reverse the direction of a short average.
`as_published: true` scales the averages without changing Delta, and its claim must fail. With plain averages, beta
cancels if nothing is clipped and Delta < 1, since u / Delta = T (<Phi(x), Phi(y)> + beta) / 2. So the effect of beta
that the paper reports cannot come from this formula (docs/concepts/pitfalls-judges.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, field_validator, model_validator
from scipy.special import log_softmax

from epsilometer.core.between import Between, tilted, tilted_unit
from epsilometer.core.component import component
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours, check_epsilons
from epsilometer.core.laws import log_likelihood
from epsilometer.core.mechanism import PROVIDER, OneOfGrid, Rewrites, Unread
from epsilometer.core.ragged import Ragged
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.words.shared.cosine import CosineMechanism
from epsilometer.models.answers import store_path
from epsilometer.models.embedded import seq2seq
from epsilometer.models.encoder import Encoder
from epsilometer.models.endpoint import check_environment
from epsilometer.models.locate import ENCODER, locate
from epsilometer.models.provider import Provider, RemoteProvider, local
from epsilometer.models.spending import Spends
from epsilometer.text.words import words

SANITISED = -1  # used as the number of the chosen candidate if the pool is empty
_OTHERS = {"em": "exponential", "wp": "mvc"}  # variants in the paper that are separate mechanisms here
_CHOICE = 1 << 32  # position of phase 2's uniform in a trial's stream, after all uniforms for words


@component
class PrivRewrite(Spends, OneOfGrid):
    """The PrivRewrite mechanism.

    resource:     the local provider, a language model by id or folder; ignored with `endpoint`.
    endpoint:     name of a model at an OpenAI-compatible endpoint; None: a local provider.
    variant:      full, or naive (Delta = 1); as_published: True to scale averages to length 1.
    k:            number of candidates that the provider writes.
    temperature, max_new_tokens, prompt: settings of the request; {} in the prompt is replaced by the text.
    tau:          largest similarity of two candidates in the pool; 1 for no pruning.
    beta:         smoothing of the utility.
    split:        share of epsilon spent in phase 1.
    fallback:     release if no candidate is coherent: the `sanitised` text, or an empty text (`abstain`).
    encoder:      a public sentence encoder. Its token embeddings are the word vectors; its sentence embeddings measure
                  the similarity of candidates.
    max_requests, max_tokens, max_cost, prices, dry, workers: settings of an endpoint, as in `Spends`.
    """

    default_resource: ClassVar[Callable[[], Path]] = staticmethod(seq2seq)
    law_of: ClassVar[str] = PROVIDER  # the likelihood is that of the joint view of provider and reader

    resource: str | Path | None = None
    endpoint: str | None = None
    variant: Literal["full", "naive"] = "full"
    as_published: bool = False
    k: PositiveInt = 10
    tau: Annotated[float, Field(gt=0, le=1)] = 0.8
    beta: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    split: Annotated[float, Field(gt=0, lt=1)] = 0.5
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.75
    max_new_tokens: PositiveInt = 64
    prompt: str | None = None
    fallback: Literal["sanitised", "abstain"] = "sanitised"
    encoder: str = ENCODER

    @field_validator("variant", mode="before")
    @classmethod
    def _no_other_mechanism(cls, value: Any) -> Any:
        if value in _OTHERS:
            raise ValueError(
                f"{value} is the mechanism `{_OTHERS[value]}` on the encoder's word vectors: write `file: "
                f"epsilometer/mechanisms/words/{_OTHERS[value]}.py` and `resource: data/vectors/NAME.npz`"
            )
        return value

    @model_validator(mode="after")
    def _has_provider(self) -> PrivRewrite:
        if self.resource is None and self.endpoint is None:
            raise ValueError(
                "neither resource nor endpoint is set; set resource to a language model (id or folder), or endpoint "
                "to the name of a model at the endpoint"
            )
        bounds = self.max_requests, self.max_tokens, self.max_cost
        if self.endpoint is None and (self.dry or any(bound is not None for bound in bounds)):
            raise ValueError("dry, max_requests, max_tokens and max_cost apply only to an endpoint; omit them")
        return self

    @property
    def wants_all(self) -> bool:
        """True if the mechanism needs all texts in one call, to check an endpoint's cost before any request."""
        return self.endpoint is not None

    @cached_property
    def sanitiser(self) -> CosineMechanism:
        """The mechanism of phase 1."""
        return CosineMechanism(resource=locate(self.encoder))

    @cached_property
    def _sentences(self) -> Encoder:
        return Encoder(self.encoder)

    @cached_property
    def provider(self) -> Provider:
        """The provider that writes the candidates. It sees only sanitised texts."""
        if self.endpoint is not None:
            store = store_path("candidates.sqlite")
            return RemoteProvider(
                self.endpoint, store, self.prompt, self.temperature, longest=self.max_new_tokens, spends=self
            )
        assert self.resource is not None
        return local(self.resource, self.prompt, self.temperature, self.max_new_tokens)

    def check(self, public: bool) -> None:
        """Raise UserError if the endpoint is not configured. Private texts are allowed."""
        if self.endpoint is not None:
            check_environment()

    def unread(self, texts: Sequence[str]) -> Unread:
        """Count out-of-vocabulary words of the sanitiser, and texts with more than `max_new_tokens` words."""
        cut = sum(len(words(text)) > self.max_new_tokens for text in texts)
        return self.sanitiser.unread(texts) + Unread(cut=cut, texts=len(texts))

    def budgets(self, epsilon: float) -> tuple[float, float]:
        """Return epsilon_1 and epsilon_2."""
        first = self.split * epsilon
        return first, epsilon - first

    def sensitivity(self, lengths: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return Delta, the sensitivity of the utility, for texts of these numbers of words (lemma 1)."""
        if self.variant == "naive":
            return np.ones(len(lengths))
        return np.minimum(1.0, 2 / ((1 + self.beta) * np.maximum(lengths, 1)))

    def guarantee(self, epsilon: float) -> Guarantee | None:
        """Epsilon_1 + epsilon_2 per word; the number of words is not protected."""
        return Guarantee(epsilon, Granularity.WORD, Neighbours.SAME_LENGTH)

    def distance(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float) -> NDArray[np.float64]:
        """Return (d epsilon_1 + min(d, 1 / Delta) epsilon_2) / epsilon for d differing words; infinite if T differs."""
        distance = self.sanitiser.distance(texts, pairs, epsilon)
        first, second = self.budgets(1.0)
        limit = 1 / self.sensitivity(self.sanitiser.vocabulary.encode(texts).lengths)[pairs[:, 0]]
        return np.where(np.isinf(distance), np.inf, first * distance + second * np.minimum(distance, limit))

    def rewrite_grid(self, texts: Sequence[str], epsilons: Sequence[float], noises: Sequence[Noise]) -> list[Rewrites]:
        """Return the rewrites at each epsilon. The units are the sanitised words, then the candidate's number.

        Each word uses one uniform, and so does the choice; a publication uses exact samplers.
        """
        check_epsilons(epsilons)
        seen = self.sanitiser.rewrite_grid(texts, [self.budgets(e)[0] for e in epsilons], noises)
        pools = self._pools([text for sanitised in seen for text in sanitised.texts])
        return [
            self._chosen(texts, epsilon, noise, sanitised, pools=pools)
            for epsilon, noise, sanitised in zip(epsilons, noises, seen, strict=True)
        ]

    def _chosen(
        self, texts: Sequence[str], epsilon: float, noise: Noise, sanitised: Rewrites, pools: dict[str, _Candidates]
    ) -> Rewrites:
        assert sanitised.units is not None
        uniforms = noise.uniforms(1, _CHOICE)[:, 0] if len(texts) else np.empty(0)
        averages, lengths = self._averages(texts)
        written, chosen = [], []
        for i, shown in enumerate(sanitised.texts):
            pool, number = pools[shown], SANITISED
            if pool.texts:
                (log_law,) = self._log_law(averages[i : i + 1], lengths[i : i + 1], pool, epsilon)
                if noise.exact is not None:
                    number = int(noise.exact.choose(log_law)[0])
                else:
                    cdf = np.cumsum(np.exp(log_law))
                    number = min(int(np.searchsorted(cdf, uniforms[i] * cdf[-1], side="right")), len(cdf) - 1)
            instead = shown if self.fallback == "sanitised" else ""
            written.append(instead if number == SANITISED else pool.texts[number])
            chosen.append(number)
        rows = [[*sanitised.units.row(i), number] for i, number in enumerate(chosen)]
        return Rewrites(written, Ragged.of(rows))

    def _log_law(
        self, averages: NDArray[np.float64], lengths: NDArray[np.integer], pool: _Candidates, epsilon: float
    ) -> NDArray[np.float64]:
        """Return ln P(y | x, pool), [n, candidates]. averages: [n, d], Phi(x); lengths: [n], numbers of words of x."""
        scale = self.budgets(epsilon)[1] / (2 * self.sensitivity(lengths))
        log_law: NDArray[np.float64] = log_softmax(scale[:, None] * self.utility(averages, pool.averages), axis=1)
        return log_law

    def utility(self, texts: NDArray[np.float64], candidates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the utilities u, [n, m]. texts, candidates: averages [n, d] and [m, d]."""
        return np.clip((texts @ candidates.T + self.beta) / (1 + self.beta), 0, 1)

    def _averages(self, texts: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return Phi [n, d] of n texts, 0 for a text without words, and their numbers of words [n]."""
        rows = self.sanitiser.vocabulary.encode(texts)
        vectors = self.sanitiser.vectors.exact
        averages = np.zeros((len(texts), vectors.shape[1]))
        for i in np.flatnonzero(rows.lengths):
            averages[i] = vectors[rows.row(int(i))].mean(axis=0)
        if self.as_published:
            averages /= np.maximum(np.linalg.norm(averages, axis=1, keepdims=True), 1e-12)
        return averages, rows.lengths

    def _pools(self, sanitised: Sequence[str]) -> dict[str, _Candidates]:
        """Return the pool of each sanitised text. A pool does not depend on other texts."""
        distinct = list(dict.fromkeys(sanitised))
        filled = [text for text in distinct if text]
        answers = dict(zip(filled, self.provider.candidates(filled, self.k), strict=True)) if filled else {}
        pruned = dict(self._pruned({text: [y for y in some if self._coherent(y)] for text, some in answers.items()}))
        return {text: _Candidates(pruned.get(text, []), self._averages(pruned.get(text, []))[0]) for text in distinct}

    def _coherent(self, candidate: str) -> bool:
        """Return True if a candidate has words and at least half of them are in the vocabulary."""
        parts = words(candidate)
        in_vocabulary = sum(word in self.sanitiser.vocabulary.index for word in parts)
        return bool(parts) and 2 * in_vocabulary >= len(parts)

    def _pruned(self, candidates: dict[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
        """Yield each text's candidates without near-duplicates, selected greedily in order (section 4.1.3)."""
        if self.tau == 1:
            yield from candidates.items()
            return
        distinct = list(dict.fromkeys(y for some in candidates.values() for y in some))
        vectors = dict(zip(distinct, self._sentences.encode(distinct), strict=True))
        for text, some in candidates.items():
            pool: list[str] = []
            for candidate in some:
                if all((1 + float(vectors[candidate] @ vectors[y])) / 2 <= self.tau for y in pool):
                    pool.append(candidate)
            yield text, pool

    def log_likelihoods(
        self,
        texts: Sequence[str],
        candidates: NDArray[np.integer],
        rewrites: Sequence[Rewrites],
        epsilons: Sequence[float],
    ) -> list[NDArray[np.float64]]:
        """Return log-likelihoods of the joint view of provider and reader: ln P(z | x) + ln P(number | x, C(z)).

        The provider's probability of C(z) is left out, since it is the same for all texts.
        """
        used, place = np.unique(candidates, return_inverse=True)
        rows = place.reshape(candidates.shape)
        trial = np.repeat(np.arange(len(rows)), rows.shape[1])
        sources = [texts[i] for i in used]
        averages, lengths = self._averages(sources)
        laws = self.sanitiser.laws(sources)
        values = []
        for output, epsilon in zip(rewrites, epsilons, strict=True):
            if output.units is None:
                raise TypeError("the likelihood of a rewrite needs its units")
            sanitised, numbers = _apart(output.units)
            (value,) = log_likelihood(laws, rows.ravel(), [sanitised.take(trial)], [self.budgets(epsilon)[0]])
            value = value.reshape(rows.shape)
            shown = self.sanitiser.vocabulary.decode(sanitised)
            pools = self._pools(shown)
            for i in np.flatnonzero((numbers != SANITISED) & np.isfinite(value).any(axis=1)):
                log_law = self._log_law(averages[rows[i]], lengths[rows[i]], pools[shown[i]], epsilon)
                value[i] += log_law[:, numbers[i]]
            values.append(value)
        return values

    def draws_between(self, texts: Sequence[str], pairs: NDArray[np.integer], epsilon: float, noise: Noise) -> Between:
        """Sample as in `DrawsBetween`: first the sanitised words, then the candidate's number.

        The provider's probability of the pool is the same for both texts, so it cancels.
        """
        used, at = np.unique(pairs, return_inverse=True)
        rows, sources = at.reshape(pairs.shape), [texts[i] for i in used]
        sanitised, words_between = tilted(self.sanitiser.laws(sources), rows, self.budgets(epsilon)[0], noise)
        shown = self.sanitiser.vocabulary.decode(sanitised)
        pools, uniforms = self._pools(shown), noise.uniforms(1, _CHOICE)
        averages, lengths = self._averages(sources)
        log_rho, loss = words_between.log_rho.copy(), words_between.loss.copy()
        for i, both in enumerate(rows):
            if (pool := pools[shown[i]]).texts:
                laws = self._log_law(averages[both], lengths[both], pool, epsilon)
                _, step, own = tilted_unit(laws[0], laws[1], uniforms[i])
                log_rho[i] += step
                loss[i] += own[0]
        return Between(log_rho, loss, words_between.log_bound)


def _apart(units: Ragged) -> tuple[Ragged, NDArray[np.integer]]:
    """Split units into the sanitised words of each rewrite, and the number of its candidate."""
    ends = np.zeros(len(units.values), bool)
    ends[units.offsets[1:] - 1] = True
    return Ragged.from_lengths(units.values[~ends], units.lengths - 1), units.values[ends]


class _Candidates:
    """n candidates, and the averages [n, d] of their word vectors."""

    def __init__(self, texts: list[str], averages: NDArray[np.float64]) -> None:
        self.texts, self.averages = texts, averages
