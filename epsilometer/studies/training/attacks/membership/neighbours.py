"""MIA-N: the target's loss on a text, compared with its mean loss on texts that differ in a few words.

Source: Mattern, Mireshghallah, Jin, Schoelkopf, Sachan and Berg-Kirkpatrick, Findings of ACL 2023, arXiv:2305.18462.

    words: score(x) = mean loss of the neighbours - loss of x
    spans: this difference, divided by the standard deviation of the neighbours' losses (Mireshghallah et al., EMNLP
           2022, arXiv:2203.03929)

A neighbour's loss is computed at the label of x. The attack needs neither reference models nor other texts.

- `words`: neighbours differ from x in one word. Each word is masked in turn. The 6 likeliest other words of the masked
  language model are proposals, with the weights p(new) / (1 - p(old)). The 50 proposals of largest weight in the whole
  text become neighbours. The authors' code differs in two ways. Instead of masking the word, it drops out 70 % of the
  word's input embedding, so the model still sees part of the word. It also proposes words in the place of the final
  [SEP].
- `spans`: there are 25 neighbours. In each, the words of random spans are resampled from the masked language model, one
  after another, given the text's current other words. Spans have 2 words and are at least 1 word apart. A text of n
  words has .3 n / 4 spans. Together with one word on each side of every span, they cover about 30 % of the words.

Every neighbour takes a forward pass of the frozen network, so only the first `texts` asked examples get a score.
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
from epsilometer.core.randomness import Noise
from epsilometer.models.embedded import masked_lm
from epsilometer.models.fill_mask import FillMask, Place
from epsilometer.models.locate import would_download
from epsilometer.studies.training.membership import Evidence, losses

EACH, OF_WORDS, OF_SPANS = 6, 50, 25  # proposals per word; neighbours per text for `words`, and for `spans`
SPAN, APART, SHARE = 2, 1, 0.3  # words in a span; words between spans; share of words in spans and gaps
_SPARE = 2  # extra proposals, because a proposal may be the masked word, perhaps in another case
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@component
class NeighbouringTexts:
    """The attack by neighbouring texts.

    kind:      the kind of neighbours.
    masked_lm: the masked language model, by id or folder; None for the embedded one.
    texts:     the maximum number of examples to score.
    """

    kind: Literal["words", "spans"] = "words"
    masked_lm: str | None = None
    texts: PositiveInt = 200

    def score(self, evidence: Evidence) -> NDArray[np.float64]:
        """Return the scores as `MembershipAttack.score` does.

        A text without neighbours scores NaN, and so does every text after the first `texts`.
        Raises UserError if there is no masked language model.
        """
        questioned = evidence.asked[: self.texts]
        texts = [evidence.texts[i] for i in questioned]
        if self.kind == "words":
            neighbours = one_word(self._model, texts)
        else:
            neighbours = respanned(self._model, texts, evidence.noise[np.arange(len(questioned))])
        owner = np.repeat(np.arange(len(questioned)), [len(some) for some in neighbours])
        answers = evidence.answers([text for some in neighbours for text in some])
        of_neighbours = losses(answers, evidence.labels[questioned][owner])  # [t, all]
        own = losses(evidence.targets[:, questioned], evidence.labels[questioned])
        scores = np.full((len(own), len(evidence.asked)), np.nan)
        for row in np.unique(owner):
            mine = of_neighbours[:, owner == row]
            scores[:, row] = mine.mean(axis=1) - own[:, row]
            if self.kind == "spans":
                scores[:, row] /= np.maximum(mine.std(axis=1), 1e-12)
        return scores

    def check_model(self) -> None:
        """Raise UserError if the masked language model is unsuitable. A model that needs a download is not checked."""
        if self.masked_lm is None or would_download(self.masked_lm):
            return
        if not self._model.whole.any():
            raise UserError(
                "the model's vocabulary has no token that starts a word; give a masked language model with such tokens",
                "EPS-A013",
            )

    @cached_property
    def _model(self) -> FillMask:
        return FillMask(self.masked_lm or masked_lm())


def one_word(model: FillMask, texts: Sequence[str]) -> list[list[str]]:
    """Return up to 50 neighbours of each text that differ in one word, largest weights first."""
    places = [Place(i, *match.span()) for i, text in enumerate(texts) for match in _WORD.finditer(text)]
    outputs, log_p = model.likeliest(texts, places, EACH + _SPARE)
    log_old = np.minimum(model.log_probabilities(texts, places), -1e-12)
    weighed: list[list[tuple[float, str]]] = [[] for _ in texts]
    for place, row, log_new, old in zip(places, outputs.tolist(), log_p.tolist(), log_old.tolist(), strict=True):
        text, word = texts[place.text], texts[place.text][place.start : place.end]
        proposed = [(log_proposed, model.outputs[output]) for log_proposed, output in zip(log_new, row, strict=True)]
        others = [(log_proposed, new) for log_proposed, new in proposed if new.lower() != word.lower()][:EACH]
        for log_proposed, new in others:
            weight = log_proposed - np.log(-np.expm1(old))
            weighed[place.text].append((weight, text[: place.start] + new + text[place.end :]))
    return [[text for _, text in sorted(some, key=lambda pair: -pair[0])[:OF_WORDS]] for some in weighed]


def respanned(model: FillMask, texts: Sequence[str], noise: Noise) -> list[list[str]]:
    """Return 25 neighbours of each text, with the words of random spans resampled; none for a text without a word.

    noise: one random stream per text.
    """
    plans: list[tuple[int, list[int], NDArray[np.float64]]] = []  # text, words to resample, a uniform for each
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
    """Return the indices of the words in random spans of a text of `words` words, ascending; at least one index."""
    free = list(range(max(words - SPAN + 1, 1)))  # the words at which a span may begin
    begins: list[int] = []
    for _ in range(max(1, int(SHARE * words / (SPAN + 2 * APART)))):
        if free:
            begins.append(free[int(rng.integers(len(free)))])
            free = [place for place in free if abs(place - begins[-1]) >= SPAN + APART]
    return sorted({place for begin in begins for place in range(begin, min(begin + SPAN, words))})


def _span(text: str, number: int) -> tuple[int, int]:
    """Return the start and the end, in characters, of the word with this index."""
    return [match.span() for match in _WORD.finditer(text)][number]
