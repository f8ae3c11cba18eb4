"""Adversarial rewriting: a language model infers the private labels of a text, rewrites the text, and repeats both.

In plain words it has a language model guess the private attribute and rewrite the text until it guesses wrong.

The method is that of Staab 2025 ("Language models are advanced anonymizers", arXiv:2402.13846). In each round the model
infers the labels and quotes the words that revealed them, and then rewrites the text given these inferences. There are
at most 3 rounds, at temperature .1. The prompts are not the paper's. A text is done when the model infers, for each
label, either no class or another class than at first. The status is then `found`, or `nothing` if there was no rewrite.
If the text is not done after the last round, the status is `part`. If the last rewrite equals the original, the status
is `missed`.

`aim: random` chooses a class to show for each label (IncogniText 2024, arXiv:2407.02956). The class is sampled
uniformly from all classes, so it reveals nothing about the true class. The text is done when the model infers the class
to show. As published, the class is sampled from the classes that the model did not infer at first. If the model infers
one of only two classes, the published form always shows the other class. So the shown class reveals the inferred class
to anyone who knows the method.

Departures: an answer in another form than requested is not used as a rewrite (`shared/language_model.py`). The
reference code rewrites all comments of a person at once, and silently keeps the original of a comment that it cannot
align with the answer. If the answer of a later round is unusable, the rewrite of the previous round is released.
Nothing is claimed: the same model rewrites and judges, and a stronger or a trained attacker may infer more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.outcomes import FOUND, MISSED, NOTHING, PART, UNUSABLE
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.shared.language_model import (
    FORM,
    LanguageModelMechanism,
    listed,
    read_rewrite,
)
from epsilometer.mechanisms.anonymisers.shared.whole_rewrites import outcomes
from epsilometer.models.assistant import Question, read_class, read_object

UNKNOWN = "unknown"
_SHOWN = 1 << 32  # position, in a text's stream, of the first uniform that samples a class to show

INFER = (
    "You infer what a text gives away of its author: {labels}. Of each name the class that you think likelier than the "
    "others, or '{unknown}' if the text does not tell, and quote the words that gave it away. Your return is a valid "
    "JSON response with a key for each of {keys}, whose value is an object with the keys 'class' and 'because'."
)
REWRITE = (
    "You rewrite a text so that its author's {labels} can no longer be inferred from it, and change nothing else: what "
    "it says, its tone and its length stay. A reader inferred: {inferences}. "
)
SHOW = "Change what leads there, so that a reader would infer {shown} instead. "
HIDE = "Change what leads there to something more general, or leave it out. "

Inference = Mapping[str, tuple[str, str]]  # for each label its class, or UNKNOWN, and the words that revealed it


@dataclass
class _Progress:
    """The state of a text: latest version, first and latest inference, classes to show by label, and status."""

    original: str
    text: str
    rewritten: bool = False
    first: Inference | None = None
    inferred: Inference = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    status: str = ""
    questions: int = 0


@component
class LLMAdversarial(LanguageModelMechanism):
    """Adversarial rewriting by a language model.

    aim:          `hide`, or `random` to show a sampled class.
    rounds:       most rounds.
    as_published: True to sample the class to show only from the classes that were not inferred at first.
    """

    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    aim: Literal["hide", "random"] = "hide"
    rounds: Annotated[int, Field(ge=1, le=10)] = 3
    as_published: bool = False

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the rewrites after all rounds. A round is one inference and one rewrite of all texts.

        epsilon has no effect.
        """
        every = [_Progress(text, text) for text in texts]
        draws = noise.uniforms(len(self.auxiliaries.attributes), _SHOWN) if texts else np.empty((0, 0))
        for turn in range(self.rounds):
            self._infer(every, draws, noise, 2 * turn)
            self._rewrite(every, noise, 2 * turn + 1)
        self._infer(every, draws, noise, 2 * self.rounds)
        for state in every:
            state.status = state.status or PART
            if state.status in (FOUND, PART) and state.text.strip() == state.original.strip():
                state.status, state.text = MISSED, state.original
        rewrites = ["" if state.status == UNUSABLE else state.text for state in every]
        status = [state.status for state in every]
        questions = np.array([state.questions for state in every], np.int64)
        return Rewrites(rewrites, outcomes=outcomes(texts, rewrites, status, questions))

    def _infer(self, every: Sequence[_Progress], draws: NDArray[np.float64], noise: Noise, turn: int) -> None:
        """Have the model infer the labels of each unfinished text, and set the status of texts that are now done."""
        rows = [i for i, state in enumerate(every) if not state.status]
        questions = [Question(self._inferring, every[i].text) for i in rows]
        answers = self.assistant.ask(questions, self._read_inference, noise[np.array(rows, np.int64)], turn)
        for i, answer in zip(rows, answers, strict=True):
            state = every[i]
            state.questions += 1
            if answer is None:
                state.status = UNUSABLE if state.first is None else PART
                continue
            state.inferred = answer
            if state.first is None:
                state.first, state.shown = answer, self._classes_to_show(answer, draws[i])
            if self._done(answer, state):
                state.status = FOUND if state.rewritten else NOTHING

    def _rewrite(self, every: Sequence[_Progress], noise: Noise, turn: int) -> None:
        """Have the model rewrite each unfinished text."""
        rows = [i for i, state in enumerate(every) if not state.status]
        questions = [Question(self._rewriting(every[i]), every[i].text) for i in rows]
        answers = self.assistant.ask(questions, read_rewrite, noise[np.array(rows, np.int64)], turn)
        for i, answer in zip(rows, answers, strict=True):
            if answer is None:
                every[i].status = PART if every[i].rewritten else UNUSABLE
            else:
                every[i].text, every[i].rewritten = answer, True

    def _classes_to_show(self, first: Inference, draws: NDArray[np.float64]) -> dict[str, str]:
        """Return the class to show for each label, sampled by uniforms [labels]; empty if the aim is only to hide."""
        shown = {}
        for (label, (inferred, _)), draw in zip(first.items(), draws, strict=True):
            classes = [name for name in self._classes[label] if not (self.as_published and name == inferred)]
            shown[label] = classes[int(draw * len(classes))]
        return shown if self.aim == "random" else {}

    def _done(self, inferred: Inference, state: _Progress) -> bool:
        """Return True if the model's inference meets the aim for every label."""
        if self.aim == "random":
            return all(inferred[label][0] == shown for label, shown in state.shown.items())
        assert state.first is not None
        first = {label: named for label, (named, _) in state.first.items()}
        return all(
            named == UNKNOWN or (state.rewritten and first[label] not in (UNKNOWN, named))
            for label, (named, _) in inferred.items()
        )

    @cached_property
    def _classes(self) -> Mapping[str, Sequence[str]]:
        return {label: self.auxiliaries.about["classes"][label] for label in self.auxiliaries.attributes}

    @property
    def _inferring(self) -> str:
        labels = [f"{label} ({', '.join(classes)})" for label, classes in self._classes.items()]
        keys = [f"'{label}'" for label in self._classes]
        return INFER.format(labels=listed(labels), keys=listed(keys), unknown=UNKNOWN)

    def _rewriting(self, state: _Progress) -> str:
        inferences = [
            f"{label} {named}, because of {json.dumps(because, ensure_ascii=False)}"
            for label, (named, because) in state.inferred.items()
            if named != UNKNOWN
        ]
        shown = [f"{label} {name}" for label, name in state.shown.items()]
        wanted = SHOW.format(shown=listed(shown)) if shown else HIDE
        labels = listed([*self._classes])
        return REWRITE.format(labels=labels, inferences=listed(inferences or ["nothing"])) + wanted + FORM

    def _read_inference(self, answer: str) -> Inference | None:
        """Return the class and the quoted words for each label; None for an invalid form or an unknown class."""
        labels = read_object(answer, *self._classes)
        if labels is None:
            return None
        inference = {}
        for label, value in labels.items():
            if not isinstance(value, dict) or {*value} != {"class", "because"}:
                return None
            named = read_class(value["class"], [*self._classes[label], UNKNOWN])
            because = value["because"]
            if named is None or not isinstance(because, str):
                return None
            inference[label] = named, because
        return {label: inference[label] for label in self._classes}
