"""A private generator: a public language model writes texts, after DP-SGD trains a part of it on private texts.

A small causal model is adapted to public texts, without noise, and frozen (`shared/prompted.py`). Only a vector V is
trained on private texts (`shared/trainable.py`). V holds the soft prompts P [L, w], one of width w per label. With
`rank`, V holds low-rank adapters instead, and the prompts are frozen. Prompt l begins as the mean embedding of the
tokens of label l's name. Each of N people enters a step with probability q. For a person i with labelled texts
x_1..x_k, k <= c (`most`), and for the clipping length C (`clip`),

    g_i = grad_V (1 / k) sum_j -(1 / |x_j|) log p(x_j | P_label(j); V),
    step: V moves by AdamW along (sum over persons drawn of g_i min(1, C / |g_i|) + N(0, sigma^2 C^2)) / (q N).

The trained model writes equally many texts for each label. The training is DP-SGD (Abadi et al. 2016), for generation
controlled by labels (Yue et al. 2023, arXiv:2210.14348), on soft prompts (Duan et al. 2023, arXiv:2305.15594).

Claim, (epsilon, delta), for granularity user or document. Each person has one clipped gradient, over all their counted
texts and all of V. So one person changes a sum by at most C (added or removed) or 2 C (replaced). Each person enters
each of T = epochs / q steps by their own coin, and q is about 1 / batches. sigma is the smallest for which the
package's accountant proves (epsilon, delta) for all T steps by composed loss distributions (`accounting`). Written
texts are post-processing.

    replaced:          N is public, and q and T are computed from it.
    added or removed:  N is private. q and T are computed from the public guess `people`.

Assumptions: the support of all releases is the same, since normal noise reaches all of V and a model writes every text
with positive probability. Public texts, model, settings and the list of labels are fixed without looking at
private texts, and the model was not trained on private texts. Gradients are computed in float32; their rounding depends
on the other people of a batch, which the claim ignores. Normal noise has no finite pure epsilon.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from epsilometer.accounting.schedule import Poisson
from epsilometer.core.component import component
from epsilometer.core.corpus_mechanism import PrivateCorpus, Release
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.corpora.shared.counting import Counting
from epsilometer.mechanisms.corpora.shared.private_steps import PrivateSteps, noise_for
from epsilometer.mechanisms.corpora.shared.prompted import Prompted
from epsilometer.mechanisms.corpora.shared.public_cells import described, distinct, texts_of
from epsilometer.mechanisms.corpora.shared.trainable import Adapters, Prompts, Trainable
from epsilometer.models.embedded import paraphraser
from epsilometer.models.optimisers import AdamW
from epsilometer.runtime.progress import track

Array = NDArray[np.float32]

_AT_CAPITALS = re.compile(r"(?<=[a-z])(?=[A-Z])|_")  # AddToPlaylist has three words


@component
class PrivateGenerator(Counting):
    """A language model with private prompts or adapters.

    resource: public texts: a file with a column `text`, or a list.
    delta:    the claim's delta; it should be far below 1 / (number of people).
    people:   a public guess of the number of people, for neighbours: added or removed.
    batches, epochs: the number of steps per epoch, and of epochs.
    rank:     rank of the adapters; None: prompts are trained.
    clip, rate: the clipping length of a person's gradient; the learning rate.
    rows:     the number of texts to write.
    writer:   a public causal language model by id or folder; None: the embedded one. seed: seed of its adaptation.
    labels, unit, most, neighbours: as in `shared/counting.py`.
    """

    resource: Path | tuple[str, ...]
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    people: PositiveInt | None = None
    batches: PositiveInt = 10
    epochs: PositiveInt = 3
    rank: PositiveInt | None = None
    clip: PositiveFloat = 0.1
    rate: PositiveFloat = 0.03
    rows: PositiveInt = 1000
    writer: str | Path | None = None
    seed: int = 0

    @model_validator(mode="after")
    def _number_is_public(self) -> PrivateGenerator:
        if (self.people is None) != (self.neighbours == "replaced"):
            raise ValueError(
                'people is a public guess of the number of people: give it for neighbours "added or removed", and not '
                "for replaced, where the number itself is public"
            )
        return self

    @property
    def public_sources(self) -> Sequence[str]:
        """Descriptions of the public data that a release uses."""
        model = "the embedded language model" if self.writer is None else f"the model {Path(self.writer).name}"
        guess = [] if self.people is None else [f"about {self.people:,} people"]
        return [described(self.resource), model, *guess, *super().public_sources]

    @cached_property
    def public_texts(self) -> Sequence[str]:
        """The public texts. Raises UserError if there are none."""
        return distinct(texts_of(self.resource))

    @cached_property
    def language(self) -> Prompted:
        """The model, adapted to the public texts."""
        model = Prompted(paraphraser() if self.writer is None else self.writer)
        model.adapt(self.public_texts, Noise.named(1, "private generator", self.seed).generator(0))
        return model

    @cached_property
    def trainable(self) -> Trainable:
        """The part of the model that is trained."""
        prompts = self._prompts()
        if self.rank is None:
            return Prompts(self.language, prompts)
        generator = Noise.named(1, "adapters", self.seed).generator(0)
        return Adapters(self.language, prompts, self.rank, generator)

    def guarantee(self, epsilon: float) -> Guarantee:
        """Epsilon and delta for a unit's texts."""
        unit, neighbours = Granularity(self.unit), Neighbours(self.neighbours)
        return Guarantee(epsilon, unit, neighbours, delta=self.delta, public=self.assumed)

    def schedule(self, units: int) -> Poisson:
        """Return the schedule. units: the number of people or texts, used only if it is public."""
        number = max(1, self.people or units)
        return Poisson(number, -(-number // self.batches), self.epochs)

    def steps(self, units: int, epsilon: float) -> PrivateSteps:
        """Return the steps that keep the claim."""
        schedule, size = self.schedule(units), self.first().size
        sigma = noise_for(epsilon, self.delta, schedule, neighbours=Neighbours(self.neighbours), size=size)
        return PrivateSteps(schedule, sigma, self.clip)

    def _prompts(self) -> Array:
        """Return the prompts [L, w] before training: mean embeddings of label names, or of all public texts."""
        if self.labels:
            return self.language.means([_AT_CAPITALS.sub(" ", label) for label in self.labels])
        return self.language.means(self.public_texts).mean(0, keepdims=True)

    def first(self) -> Array:
        """Return the vector V [d] before training."""
        return self.trainable.first()

    def trained(self, corpus: PrivateCorpus, epsilon: float, generator: np.random.Generator) -> Array:
        """Return the vector V [d] after training on the private texts."""
        counted, labels = self.eligible(corpus, generator.bytes(32))
        owners = np.arange(len(counted)) if self.unit == "document" else _numbers(counted)
        steps, vector = self.steps(self.units(corpus), epsilon), self.first()
        rows, optimiser = self.language.tokens(counted.texts), AdamW(self.rate)
        for step in track(range(steps.schedule.steps), steps.schedule.steps, "training"):
            batch = steps.batch(len(set(owners.tolist())), generator)
            texts = np.flatnonzero(np.isin(owners, batch))
            own = self.trainable.gradients(vector, labels[texts], [rows[i] for i in texts])
            whole = _of_people(own, np.searchsorted(batch, owners[texts]), len(batch))
            optimiser.step(vector, steps.update(whole, generator), step + 1)
        return vector

    def release(self, corpus: PrivateCorpus, epsilon: float, noise: Noise) -> Release:
        """Return a release as in `CorpusMechanism`."""
        generator = noise.generator(0)
        return self.written(self.trained(corpus, epsilon, generator), generator)

    def written(self, vector: Array, generator: np.random.Generator) -> Release:
        """Return the release that the model writes with a vector [d]. Empty texts are left out."""
        labels = np.arange(self.rows) % max(1, len(self.labels))
        texts = self.trainable.write(vector, labels, generator)
        written = [i for i, text in enumerate(texts) if text]
        names = [self.labels[labels[i]] for i in written] if self.labels else None
        return Release([texts[i] for i in written], np.ones(len(written)), names)


def _numbers(corpus: PrivateCorpus) -> NDArray[np.int64]:
    """Return the index [n] of each text's person."""
    if corpus.people is None:
        return np.arange(len(corpus))
    place = {person: number for number, person in enumerate(dict.fromkeys(corpus.people))}
    return np.array([place[person] for person in corpus.people], np.int64)


def _of_people(own: Array, people: NDArray[np.int64], count: int) -> Array:
    """Return the gradients [count, d] of people: the mean over each person's texts. own: [n, d], per text."""
    out = np.zeros((count, own.shape[1]), np.float32)
    np.add.at(out, people, own)
    return out / np.maximum(np.bincount(people, minlength=count), 1).astype(np.float32)[:, None]
