"""One-prompt rewriting: a language model rewrites a text as another person would (Faustini et al. 2025, table E.2).

In plain words it asks a language model to write each text as somebody else would.

The request states a class of the text for each label. The model must hide the classes of private labels, and preserve
the classes of useful labels. The classes are the true ones if given (`with_truths`), as in the paper, otherwise
predictions of classifiers (the auxiliaries). `prompt` names one of PROMPTS, or is your own. For example, in a prompt
{hidden} becomes "the gender of the author different from male", {values} becomes "male", {kept} becomes "the rating of
the text as good", and {kept_values} becomes "good".

Departures: the paper's prompts set no format, and small models' answers "require intensive parsing to extract the
adversarial sentence, if any" (appendix F). Here a format is set, and an answer in another format is not used as a
rewrite (`shared/language_model.py`). The paper states no temperature; the default of 0 gives the likeliest answer. No
classifier checks the rewrite, so status `found` only means that the text has changed. Nothing is claimed: the provider
of the model reads the text, and the rewrite may contain words that reveal the attribute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import field_validator

from epsilometer.core.component import component
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.outcomes import FOUND, MISSED, UNUSABLE
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.anonymisers.shared.language_model import (
    FORM,
    LanguageModelMechanism,
    listed,
    read_rewrite,
)
from epsilometer.mechanisms.anonymisers.shared.truths import WithTruths
from epsilometer.mechanisms.anonymisers.shared.whole_rewrites import outcomes
from epsilometer.models.assistant import Question
from epsilometer.models.ledger import Ledger

PROMPTS = {  # "any" suits any text and labels; the others are quoted from the paper
    "any": "You need to rewrite a text. Turn {hidden}, but keep {kept}.",
    "shakespeare": "You need to rewrite a Shakespeare text. Turn its style different from {values}, but keep it "
    "looking as a {kept_values} play.",
    "toefl11": "You need to rewrite a text written by TOEFL students. Turn the native language of the author different "
    "from {values}, but keep it looking as an text about {kept_values}.",
    "trustpilot": "You need to rewrite a text about a review. Turn {hidden}, but keep the sentiment of the text as a "
    "{kept_values}.",
}


@component
class LLMRewrite(WithTruths, LanguageModelMechanism):
    """One-prompt rewriting. prompt: a name in PROMPTS, or a prompt of your own that contains {hidden} or {values}."""

    prompt: str = "any"

    @field_validator("prompt")
    @classmethod
    def _names_what_to_hide(cls, value: str) -> str:
        if value not in PROMPTS and "{hidden}" not in value and "{values}" not in value:
            raise ValueError(f"must be one of {', '.join(PROMPTS)}, or contain {{hidden}} or {{values}}")
        return value

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        """Return the rewrites, by one request per text, or two if the first answer is malformed.

        epsilon has no effect.
        """
        labels = (*self.auxiliaries.attributes, *self.auxiliaries.tasks)
        kind = self.auxiliaries.kinds[0]
        ledger = Ledger({label: self.auxiliaries.classifiers[label][kind] for label in labels}, len(texts))
        classes = {label: self._classes(label, texts, ledger) for label in labels}
        questions = [
            Question(self._instruction({label: classes[label][i] for label in labels}), text)
            for i, text in enumerate(texts)
        ]
        answers = self.assistant.ask(questions, read_rewrite, noise)
        rewrites = [answer or "" for answer in answers]
        status = [
            UNUSABLE if answer is None else MISSED if answer == text.strip() else FOUND
            for answer, text in zip(answers, texts, strict=True)
        ]
        return Rewrites(rewrites, outcomes=outcomes(texts, rewrites, status, np.array(ledger.questions)))

    def classes_of(self) -> Mapping[str, Sequence[str]]:
        """Return the classes that the auxiliaries know, by label."""
        classes: Mapping[str, Sequence[str]] = self.auxiliaries.about["classes"]
        return classes

    def _classes(self, label: str, texts: Sequence[str], ledger: Ledger) -> list[str]:
        """Return each text's class, [n]: the true class if it is given, else the predicted one."""
        classes = {i: self.truths[text][label] for i, text in enumerate(texts) if label in self.truths.get(text, {})}
        rest = [i for i in range(len(texts)) if i not in classes]
        if rest:
            numbers = ledger.probabilities(label, [texts[i] for i in rest], rest).argmax(axis=1)
            classes |= {i: ledger.classes(label)[number] for i, number in zip(rest, numbers, strict=True)}
        return [classes[i] for i in range(len(texts))]

    def _instruction(self, classes: dict[str, str]) -> str:
        """Return the instruction for a text with these classes by label."""
        attributes, tasks = self.auxiliaries.attributes, self.auxiliaries.tasks
        instruction = PROMPTS.get(self.prompt, self.prompt)
        for place, words in (
            ("{hidden}", [f"the {label} of the author different from {classes[label]}" for label in attributes]),
            ("{values}", [classes[label] for label in attributes]),
            ("{kept}", [f"the {label} of the text as {classes[label]}" for label in tasks] or ["what the text says"]),
            ("{kept_values}", [classes[label] for label in tasks] or ["text"]),
        ):
            instruction = instruction.replace(place, listed(words))
        return f"{instruction} {FORM}"
