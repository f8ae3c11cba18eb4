"""Local search over tokens for the text of largest posterior: the likelihood of the noisy gradient times a prior.

A text's score is the log likelihood of the received gradient (`shared.law`) plus the text's log probability by a masked
language model (`shared.prior`). Each step of the search changes one token. The derivative with respect to the word
embeddings estimates, to first order, the gain of every token at every position (Ebrahimi, Rao, Lowd and Dou, "HotFlip",
ACL 2018). The changes of largest estimated gain are scored in one batch (`runs.inner_products`), and the best is
accepted if its gain is positive. Otherwise, exchanges of two tokens are tried. The texts of a batch are improved in
turn, each given the current versions of the others. The search starts from a text of masks, from a public text of the
known length, and from another attack's result (`improve`).

The attack reports the likelihood of its text and, through `explain`, of the true text. If the true text is less likely,
it does not explain the sent gradient best, and an attack without other knowledge would recover it only by luck. If the
true text is likelier, the search has failed, and a better search might succeed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.models.embedded import masked_lm
from epsilometer.studies.training.attacks.reconstruction.shared.attack import Knowledge, Reconstruction
from epsilometer.studies.training.attacks.reconstruction.shared.law import ConditionalLaw, law_of
from epsilometer.studies.training.attacks.reconstruction.shared.prior import Prior
from epsilometer.studies.training.runs.inner_products import products
from epsilometer.studies.training.runs.sent import Sent
from epsilometer.studies.training.runs.shared_model import SharedModel

Ids = tuple[int, ...]
EMBEDDED = "embedded"
_LEAST = 1e-6  # nats: a smaller gain does not count


@component
class LikelihoodAscent:
    """The local search over tokens.

    prior:  the folder of a masked language model with the vocabulary of the model under attack, `embedded` for the
            embedded model, or null for none.
    starts: the kinds of starting texts, in addition to other attacks' results.
    steps:  the maximum number of changes of one text in a round. A round searches each text of the batch once, and
            each start has up to three rounds.
    width:  the number of changes that are scored exactly in each step.
    """

    prior: str | None = EMBEDDED
    starts: Annotated[tuple[Literal["masks", "public"], ...], Field(min_length=1)] = ("masks", "public")
    steps: Annotated[int, Field(ge=1)] = 60
    width: Annotated[int, Field(ge=1)] = 24

    def prepare(self, model: SharedModel, knowledge: Knowledge) -> Climber:
        """Return the attack, ready for clients.

        Raises UserError if the model is not a classifier, or if the prior has another vocabulary.
        """
        if model.objective != "classification":
            raise UserError(
                f"likelihood attacks classifiers, but the objective is {model.objective}; set objective: "
                "classification",
                "EPS-A023",
            )
        prior = None
        if self.prior is not None:
            prior = Prior(masked_lm() if self.prior == EMBEDDED else self.prior)
            prior.check(model)
        public = [tuple(model.plain(ids)) for ids in model.encode(knowledge.public)] if knowledge.public else []
        return Climber(model, prior, public, self)


@dataclass(frozen=True)
class Climber:
    """The prepared attack. model: the unchanged model; public: token ids of public texts, without special tokens."""

    model: SharedModel
    prior: Prior | None
    public: Sequence[Ids]
    settings: LikelihoodAscent

    def reconstruct(self, sent: Sent, generator: np.random.Generator) -> Reconstruction:
        """Return the texts of largest posterior that the search reaches from any start."""
        begun = [[self._start(kind, length, generator) for length in self._lengths(sent)] for kind in self._kinds]
        return self._best(sent, begun)

    def improve(self, sent: Sent, begun: Reconstruction, generator: np.random.Generator) -> Reconstruction:
        """Return the texts of largest posterior that the search reaches from another attack's result.

        The result's texts are truncated or padded with masks to the known lengths.
        """
        mask = self.model.tokenizer.mask_token_id or 0
        ordered = sorted(begun.ids, key=len)
        lengths = self._lengths(sent)
        texts: list[Ids] = [()] * len(lengths)
        for place, ids in zip(np.argsort(lengths, kind="stable"), ordered, strict=True):
            texts[place] = (*ids, *[mask] * lengths[place])[: lengths[place]]
        return self._best(sent, [texts])

    def explain(self, sent: Sent, ids: Sequence[Sequence[int]]) -> Mapping[str, float]:
        """Return `log_likelihood` and `log_prior` of a batch of texts, in nats.

        The log likelihood omits a term that does not depend on the texts. ids: each text without special tokens.
        """
        law = law_of(sent)
        likelihood, before = 0.0, law.target(sent)
        for text, label in zip(ids, sent.labels, strict=True):
            likelihood += self._value(law, before, text, label)
            if sent.texts > 1:
                before = self._less(law, before, text, label)
        return {"log_likelihood": likelihood, "log_prior": sum(self._log_prior(text) for text in ids)}

    @property
    def _kinds(self) -> tuple[str, ...]:
        kinds = [kind for kind in self.settings.starts if kind == "masks" or self.public]
        return tuple(kinds) or ("masks",)

    def _lengths(self, sent: Sent) -> list[int]:
        """Return the number of tokens of each text, without special tokens."""
        return [length - len(self.model.framed([])) for length in sent.lengths]

    def _start(self, kind: str, length: int, generator: np.random.Generator) -> Ids:
        """Return a text of `length` tokens: masks, or the beginning of a public text.

        The public text is the shortest that is long enough. If all are too short, it is the longest one, filled with
        masks.
        """
        filler = self.model.tokenizer.mask_token_id
        masks = (self.model.tokenizer.unk_token_id or 0 if filler is None else filler,) * length
        if kind == "masks":
            return masks
        near = min(self.public, key=lambda ids: (len(ids) < length, abs(len(ids) - length)))
        same = [ids for ids in self.public if len(ids) == len(near)]
        return (*same[int(generator.integers(len(same)))], *masks)[:length]

    def _best(self, sent: Sent, starts: Sequence[Sequence[Ids]]) -> Reconstruction:
        law = law_of(sent)
        reached = [self._climb_all(law, sent, list(texts)) for texts in starts]
        explanations = [self.explain(sent, texts) for texts in reached]
        best = max(
            range(len(explanations)), key=lambda i: explanations[i]["log_likelihood"] + explanations[i]["log_prior"]
        )
        return Reconstruction(
            tuple(reached[best]), {**explanations[best], "start": float(best), "exact": float(law.exact)}
        )

    def _climb_all(self, law: ConditionalLaw, sent: Sent, texts: list[Ids]) -> list[Ids]:
        """Improve each text in turn, given the other texts, and return the improved texts.

        There are at most three rounds; a round that changes no text is the last. A single text has one round.
        """
        for _ in range(1 if sent.texts == 1 else 3):
            before = list(texts)
            for i, label in enumerate(sent.labels):
                target = law.target(sent)
                for j, other in enumerate(texts):
                    if j != i:
                        target = self._less(law, target, other, sent.labels[j])
                texts[i] = self._climb(law, target, texts[i], label)
            if texts == before:
                break
        return texts

    def _climb(self, law: ConditionalLaw, target: list[Tensor], ids: Ids, label: int) -> Ids:
        seen: set[Ids] = set()
        best, most = ids, -np.inf
        for _ in range(self.settings.steps):
            value, derivative = self._slope(law, target, ids, label)
            laws = self._laws(ids)
            places = np.arange(len(ids))
            whole = value + float(laws[places, list(ids)].sum())
            if whole > most:
                best, most = ids, whole
            seen.add(ids)
            changed = [text for text in self._changes(ids, derivative, laws) if text not in seen]
            gains = self._values(law, target, changed, label) - value
            gains += [float((laws[places, list(text)] - laws[places, list(ids)]).sum()) for text in changed]
            if not len(gains) or gains.max() <= _LEAST:
                exchanged = [text for text in _exchanges(ids) if text not in seen][: 2 * self.settings.width]
                gains = self._values(law, target, exchanged, label) - value
                gains += [self._log_prior(text) - float(laws[places, list(ids)].sum()) for text in exchanged]
                changed = exchanged
            if not len(gains) or gains.max() <= _LEAST:
                break
            ids = changed[int(gains.argmax())]
        return best

    def _changes(self, ids: Ids, derivative: Tensor, laws: np.ndarray) -> list[Ids]:
        """Return the `width` texts of largest first-order gain among those that differ in one token."""
        words = self.model.words.detach()
        first_order = derivative @ words.T - (derivative * words[list(ids)]).sum(1, keepdim=True)
        gain = first_order.cpu().numpy().astype(np.float64)
        gain += laws - laws[np.arange(len(ids)), list(ids)][:, None]
        gain[:, ~self._allowed] = -np.inf
        gain[np.arange(len(ids)), list(ids)] = -np.inf
        count = min(self.settings.width, int(np.isfinite(gain).sum()))
        chosen = np.argsort(-gain, axis=None, kind="stable")[:count]
        pairs = (divmod(int(i), gain.shape[1]) for i in chosen)
        return [(*ids[:place], token, *ids[place + 1 :]) for place, token in pairs]

    @cached_property
    def _allowed(self) -> np.ndarray:
        """A mask [vocabulary] of the tokens that may be part of a text."""
        allowed = np.zeros(len(self.model.words), bool)
        if self.prior is not None:
            allowed[self.prior.output_ids] = True
        else:
            allowed[: len(self.model.tokenizer)] = True
            allowed[list(self.model.special)] = False
        return allowed

    def _slope(self, law: ConditionalLaw, target: list[Tensor], ids: Ids, label: int) -> tuple[float, Tensor]:
        """Return a text's log likelihood, and the derivative [T, width] with respect to its tokens' embeddings.

        Special tokens are left out.
        """
        framed = self.model.framed(ids)
        at = self.model.words[framed].detach()[None].requires_grad_()
        value = law.log_likelihood(products(self.model, at, [label], target, create_graph=True))[0]
        derivative = torch.autograd.grad(value, at)[0][0, self._opening :][: len(ids)]
        return float(value.detach()), derivative

    @cached_property
    def _opening(self) -> int:
        """The number of special tokens before a text."""
        return self.model.framed([-1]).index(-1)

    def _values(self, law: ConditionalLaw, target: list[Tensor], texts: Sequence[Ids], label: int) -> np.ndarray:
        """Return the log likelihoods [n] of texts, which must have the same length."""
        if not texts:
            return np.empty(0)
        ids = torch.tensor([self.model.framed(text) for text in texts], device=self.model.device)
        return law.log_likelihood(products(self.model, ids, [label] * len(texts), target)).double().cpu().numpy()

    def _value(self, law: ConditionalLaw, target: list[Tensor], ids: Sequence[int], label: int) -> float:
        return float(self._values(law, target, [tuple(ids)], label)[0])

    def _less(self, law: ConditionalLaw, target: list[Tensor], ids: Sequence[int], label: int) -> list[Tensor]:
        """Return the summed gradient `target` minus one text's gradient, which `law.weight` clips or scales."""
        gradient = self.model.gradient(self.model.framed(ids), label)
        length = torch.sqrt(sum((grad.double() ** 2).sum() for grad in gradient)).float()  # type: ignore[arg-type]
        weight = law.weight(length)
        return [sent - weight * grad for sent, grad in zip(target, gradient, strict=True)]

    def _laws(self, ids: Ids) -> np.ndarray:
        """Return the log probability [T, vocabulary] of every token at each position given the other tokens.

        All values are 0 without a prior.
        """
        if self.prior is None:
            return np.zeros((len(ids), len(self.model.words)))
        return self.prior.laws(ids, len(self.model.words))

    def _log_prior(self, ids: Sequence[int]) -> float:
        return float(self._laws(tuple(ids))[np.arange(len(ids)), list(ids)].sum())


def _exchanges(ids: Ids) -> list[Ids]:
    """Return all texts with two different tokens exchanged, ordered by the distance between the two tokens."""
    texts = []
    for i, j in sorted(combinations(range(len(ids)), 2), key=lambda pair: pair[1] - pair[0]):
        if ids[i] != ids[j]:
            other = list(ids)
            other[i], other[j] = ids[j], ids[i]
            texts.append(tuple(other))
    return texts
