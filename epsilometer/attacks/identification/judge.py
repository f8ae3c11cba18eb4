"""The judge attack: a language model reads the rewrite and its candidates, and guesses which candidate is the source.

The prompt is TeDA's (arXiv:2603.22968, Appendix B; `shared/judge_prompt.py`). Candidates are in the order of the trial,
where the target's position is uniformly random. The answer is read in one of two ways:

- score: one forward pass; the guess is the option whose label has the largest logit. Ties are broken at random. Up to 9
  candidates are numbered as in TeDA; 10 to 26 candidates have letters, which are one token each.
- generate: as in TeDA. The answer must be the line `answer: [[N]]`. After any other answer, the question is sent once
  more with a reminder. If the second answer is invalid, too, the guess is random and counted as random.

An empty rewrite is handled like any other rewrite. A local model is instructed not to reason before it answers. A model
behind an endpoint must be configured in the same way, or needs enough `answer_tokens` to reason.

With `endpoint`, the questions go to a model behind an OpenAI-compatible endpoint, and `reading` must be `generate`.
`models/chat.py` describes the environment variables. Texts of a data set without `public: true` are then refused,
unless `private_texts` allows the endpoint's provider to see them. So that no answer is paid for twice, the user's cache
folder stores hashes of questions, the answered labels and token counts. This folder stores no texts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, model_validator

from epsilometer.attacks.identification.shared.judge_model import JudgeModel
from epsilometer.attacks.identification.shared.judge_prompt import Question, message, numbers, parse
from epsilometer.core.attack import Context, choose
from epsilometer.core.component import EMBEDDED, component
from epsilometer.core.errors import UserError
from epsilometer.core.mechanism import Rewrites
from epsilometer.models.answers import Completion, store_path
from epsilometer.models.chat import Chat, Message
from epsilometer.models.endpoint import check_environment

LARGEST_SET = 4  # most candidates for which the embedded judge beats chance and other attacks (see its training.json)

Price = Annotated[float, Field(ge=0)]


@component
class JudgeAttack:
    """The judge attack.

    model:              a causal language model by id or folder; None: the embedded one. With `endpoint`, the model's
                        name at the endpoint.
    precision:          precision of a local model.
    answer_tokens:      most tokens in an answer; a model that reasons first needs more.
    workers:            number of concurrent requests to the endpoint.
    prices:             prices per million input tokens and per million output tokens, for the cost in the report.
    """

    large: ClassVar[bool] = True

    model: str | None = None
    reading: Literal["score", "generate"] = "score"
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    endpoint: bool = False
    private_texts: bool = False
    answer_tokens: PositiveInt = 32
    workers: PositiveInt = 8
    prices: tuple[Price, Price] = (0.0, 0.0)

    @model_validator(mode="after")
    def _remote(self) -> JudgeAttack:
        if self.endpoint and self.model is None:
            raise ValueError("endpoint: true needs the name of a model at the endpoint; set model")
        if self.endpoint and self.reading != "generate":
            raise ValueError("endpoint: true needs reading: generate, since endpoints do not score labels")
        return self

    @property
    def largest_set(self) -> int | None:
        """The largest number of candidates for which the embedded judge is validated; None for other models."""
        return LARGEST_SET if self.model is None else None

    @cached_property
    def _local(self) -> JudgeModel:
        embedded = EMBEDDED / "judge"
        if self.model is None and not embedded.is_dir():
            raise UserError(
                f"the embedded judge was not found at {embedded}; set `model` to a causal language model", "EPS-A002"
            )
        return JudgeModel(self.model or embedded, self.precision)

    @cached_property
    def _chat(self) -> Chat:
        return Chat(str(self.model), store_path("verdicts.sqlite"), self.workers)

    @cached_property
    def _counts(self) -> defaultdict[float, Counter[str]]:
        return defaultdict(Counter)

    def tally(self, epsilon: float) -> dict[str, float]:
        """Return the counts of the guesses at this epsilon.

        asked:                            number of distinct questions.
        asked_again:                      number of questions sent a second time.
        at_random:                        number of trials guessed at random.
        cut:                              number of questions with truncated texts.
        prompt_tokens, completion_tokens: tokens read and written.
        cost:                             cost in the currency of `prices`.
        """
        counts = self._counts[epsilon]
        paid = counts["prompt_tokens"] * self.prices[0] + counts["completion_tokens"] * self.prices[1]
        return {**counts, "cost": paid / 1e6}

    def check(self, public: bool) -> None:
        """Raise UserError if an endpoint would see private texts without permission, or is not configured."""
        if not self.endpoint:
            return
        if not (public or self.private_texts):
            raise UserError(
                "texts of a data set that is not public must not reach an endpoint; set public: true for the data "
                "set, or private_texts: true for the judge if the endpoint may see them",
                "EPS-A003",
            )
        check_environment()

    def guess(self, rewrites: Rewrites, candidates: NDArray[np.integer], context: Context) -> NDArray[np.int16]:
        """Return the slot [n] of the candidate that the model chooses in each trial. Equal questions are sent once."""
        if self.reading == "score":
            return choose(self._scores(rewrites, candidates, context), context.noise)
        self.check(context.public)
        questions, of, counts = self._questions(rewrites, candidates, context)
        slots = self._verdicts(questions, counts)[of]
        lost = slots < 0
        counts["at_random"] += int(lost.sum())
        chance = (context.noise.uniforms()[:, 0] * candidates.shape[1]).astype(np.int16)
        return np.where(lost, chance, slots)

    @property
    def score_grid(self) -> Callable[..., list[NDArray[np.float32]]] | None:
        """The function that returns the logits of the candidates' labels; None if answers are generated."""
        return self._score_grid if self.reading == "score" else None

    def _score_grid(
        self, rewrites: Sequence[Rewrites], candidates: NDArray[np.integer], contexts: Sequence[Context]
    ) -> list[NDArray[np.float32]]:
        return [self._scores(output, candidates, context) for output, context in zip(rewrites, contexts, strict=True)]

    def _scores(self, rewrites: Rewrites, candidates: NDArray[np.integer], context: Context) -> NDArray[np.float32]:
        questions, of, counts = self._questions(rewrites, candidates, context)
        cut = self._local.cut
        scores, tokens = self._local.scores(questions)
        counts["prompt_tokens"] += tokens
        counts["cut"] += self._local.cut - cut
        return scores[of]

    def _questions(
        self, rewrites: Rewrites, candidates: NDArray[np.integer], context: Context
    ) -> tuple[list[Question], NDArray[np.int64], Counter[str]]:
        """Return the distinct questions, the index of each trial's question [n], and the counts of this epsilon."""
        questions = [
            (text, tuple(context.texts[c] for c in row)) for text, row in zip(rewrites.texts, candidates, strict=True)
        ]
        number = {question: i for i, question in enumerate(dict.fromkeys(questions))}
        counts = self._counts[context.epsilon]
        counts["asked"] += len(number)
        return list(number), np.array([number[question] for question in questions]), counts

    def _verdicts(self, questions: Sequence[Question], counts: Counter[str]) -> NDArray[np.int16]:
        """Return the slot chosen in each answer, [n]; -1 if both answers to a question are invalid."""
        labels = numbers(len(questions[0][1]))
        slots = np.full(len(questions), -1, np.int16)
        for again in (False, True):
            open_rows = np.flatnonzero(slots < 0)
            if not len(open_rows):
                break
            counts["asked_again"] += len(open_rows) if again else 0
            for i, answer in zip(
                open_rows, self._answers([questions[int(i)] for i in open_rows], again, counts), strict=True
            ):
                counts["prompt_tokens"] += answer.prompt_tokens
                counts["completion_tokens"] += answer.completion_tokens
                slots[i] = labels.index(answer.text) if answer.text in labels else -1
        return slots

    def _answers(self, questions: Sequence[Question], again: bool, counts: Counter[str]) -> list[Completion]:
        """Return the answers, each with its label in place of its text. The label of an invalid answer is empty."""
        if self.endpoint:
            conversations: list[list[Message]] = [
                [{"role": "user", "content": message(*question, again)}] for question in questions
            ]
            return self._chat.complete(conversations, self.answer_tokens, keep=parse)
        cut = self._local.cut
        answers = self._local.replies(questions, self.answer_tokens, again)
        counts["cut"] += self._local.cut - cut
        return [replace(answer, text=parse(answer.text)) for answer in answers]
