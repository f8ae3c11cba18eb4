"""MIA-N: the target's loss on a text, less its mean loss on texts that differ in a word or some (Mattern,
Mireshghallah, Jin, Schoelkopf, Sachan and Berg-Kirkpatrick, Findings of ACL 2023, arXiv:2305.18462).

    words: score(x) = mean loss of the neighbours - loss of x
    spans: the same over the standard deviation of the neighbours' losses (Mireshghallah et al., EMNLP 2022, 2203.03929)

The loss is that of x's label, also on its neighbours; no other model is needed, and no text besides x.

- `words`: neighbours differ in one word. Each word is masked, and the 6 likeliest others that the masked language model
  puts there are weighed by p(new) / (1 - p(old)); the 50 of largest weight over the whole text count. The authors drop
  out 70 % of the word's input embedding instead of masking it, so that their model still sees something of the word;
  and their released loop proposes words in the place of the closing [SEP] too.
- `spans`: 25 neighbours, each with the words of random spans drawn anew from the model's law, one after the other,
  given the others as they then stand. Spans have 2 words and are at least 1 word apart. There are .3 n / 4 of them in n
  words: a nominal 30 %, half of which is the distance.

As an answer costs a pass of the frozen network for each neighbour, only the first so many asked examples are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from epsilometer.core.component import component
from epsilometer.core.errors import UserError
from epsilometer.core.membership import Evidence, losses
from epsilometer.core.randomness import Noise
from epsilometer.models.embedded import masked_lm
from epsilometer.models.fill_mask import FillMask, Place
from epsilometer.models.locate import would_download

EACH, OF_WORDS, OF_SPANS = 6, 50, 25  # proposals a word, neighbours of either kind
SPAN, APART, SHARE = 2, 1, 0.3
_SPARE = 2  # proposals beyond: the word itself, perhaps in another case
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@component
class Neighbours:
    """kind: of neighbours; masked_lm: by id or folder, by default the embedded one; texts: so many asked examples."""

    kind: Literal["words", "spans"] = "words"
    masked_lm: str | None = None
    texts: PositiveInt = 200

    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        """As `MembershipAttack.score`; NaN for a text without a neighbour. Raises UserError without a masked LM."""
        asked = evidence.asked[: self.texts]
        texts = [evidence.texts[i] for i in asked]
        if self.kind == "words":
            neighbours = one_word(self._model, texts)
        else:
            neighbours = respanned(self._model, texts, evidence.noise[np.arange(len(asked))])
        owner = np.repeat(np.arange(len(asked)), [len(some) for some in neighbours])
        answers = evidence.answers([one for some in neighbours for one in some])
        of_neighbours = losses(answers, evidence.labels[asked][owner])  # [t, all]
        own = losses(evidence.targets[:, asked], evidence.labels[asked])
        scores = np.full((len(own), len(evidence.asked)), np.nan)
        for row in np.unique(owner):
            mine = of_neighbours[:, owner == row]
            scores[:, row] = mine.mean(axis=1) - own[:, row]
            if self.kind == "spans":
                scores[:, row] /= np.maximum(mine.std(axis=1), 1e-12)
        return scores

    def check_model(self) -> None:
        """As `Loads.check_model`, by loading it; the embedded one is known."""
        if self.masked_lm is None or would_download(self.masked_lm):
            return
        if not self._model.whole.any():
            raise UserError("no entry of its vocabulary begins a word; give a masked language model of words")

    @cached_property
    def _model(self) -> FillMask:
        return FillMask(self.masked_lm or masked_lm())


def one_word(model: FillMask, texts: Sequence[str]) -> list[list[str]]:
    """The up to 50 neighbours of each text that differ in one word, those of largest weight first."""
    places = [Place(i, *match.span()) for i, text in enumerate(texts) for match in _WORD.finditer(text)]
    outputs, log_p = model.likeliest(texts, places, EACH + _SPARE)
    log_old = np.minimum(model.log_probabilities(texts, places), -1e-12)
    weighed: list[list[tuple[float, str]]] = [[] for _ in texts]
    for place, row, log_new, old in zip(places, outputs.tolist(), log_p.tolist(), log_old.tolist(), strict=True):
        text, word = texts[place.text], texts[place.text][place.start : place.end]
        proposed = [(one, model.outputs[output]) for one, output in zip(log_new, row, strict=True)]
        others = [(one, new) for one, new in proposed if new.lower() != word.lower()][:EACH]
        for one, new in others:
            weight = one - np.log(-np.expm1(old))
            weighed[place.text].append((weight, text[: place.start] + new + text[place.end :]))
    return [[text for _, text in sorted(some, key=lambda pair: -pair[0])[:OF_WORDS]] for some in weighed]


def respanned(model: FillMask, texts: Sequence[str], noise: Noise) -> list[list[str]]:
    """25 neighbours of each text whose random spans are drawn anew; none of a text without a word.

    noise: a stream for each text.
    """
    plans: list[tuple[int, list[int], NDArray[np.float64]]] = []  # text, numbers of words, a uniform each
    for row, text in enumerate(texts):
        rng, words = noise.generator(row), len(_WORD.findall(text))
        for _ in range(OF_SPANS if words else 0):
            numbers = spans(words, rng)
            plans.append((row, numbers, rng.random(len(numbers))))
    copies = [texts[row] for row, _, _ in plans]
    allowed = np.array([_WORD.fullmatch(output) is not None for output in model.outputs])
    for step in range(max((len(numbers) for _, numbers, _ in plans), default=0)):
        busy = [i for i, (_, numbers, _) in enumerate(plans) if step < len(numbers)]
        now = [copies[i] for i in busy]
        places = [Place(n, *_span(text, plans[i][1][step])) for n, (i, text) in enumerate(zip(busy, now, strict=True))]
        outputs = model.draw(now, places, np.array([plans[i][2][step] for i in busy]), allowed)
        for i, place, output in zip(busy, places, outputs.tolist(), strict=True):
            copies[i] = copies[i][: place.start] + model.outputs[output] + copies[i][place.end :]
    neighbours: list[list[str]] = [[] for _ in texts]
    for (row, _, _), copy in zip(plans, copies, strict=True):
        neighbours[row].append(copy)
    return neighbours


def spans(words: int, rng: np.random.Generator) -> list[int]:
    """The numbers of the words in random spans, in order; at least one."""
    free = list(range(max(words - SPAN + 1, 1)))  # where a span may begin
    begins: list[int] = []
    for _ in range(max(1, int(SHARE * words / (SPAN + 2 * APART)))):
        if free:
            begins.append(free[int(rng.integers(len(free)))])
            free = [place for place in free if abs(place - begins[-1]) >= SPAN + APART]
    return sorted({place for begin in begins for place in range(begin, min(begin + SPAN, words))})


def _span(text: str, number: int) -> tuple[int, int]:
    """Start and end of a word."""
    return [match.span() for match in _WORD.finditer(text)][number]
