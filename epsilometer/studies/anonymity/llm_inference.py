"""A language model as the attacker: its prompt lists the classes, shows a text and asks for the author's class.

The prompts follow IDT, table E.1. A valid answer is a JSON object with the key `class`. After an answer of another form
or without a known class, the question is asked once more. If the second answer fails as well, it is unusable and counts
as wrong. The share of unusable answers is reported with the accuracy. (In the paper, ChatGPT guesses among five
countries from rewrites with an accuracy of .061. This is far below chance; the cause is unknown without the share of
unusable answers.) With `top: 3` the model lists up to three classes, the most likely first.

`prompt` is the name of an entry of `PROMPTS`, or your own text that contains {classes}, and perhaps {label}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import PositiveInt, field_validator

from epsilometer.core.component import component
from epsilometer.core.randomness import Noise
from epsilometer.models.assistant import AsksModel, Question, read_class, read_object

FORM = " Your return is a valid JSON response with a single key called 'class' and a value of either {classes}."
# The prompts as published, with {classes} in place of the lists of classes. The first prompt is ours.
PROMPTS = {
    "any": "You need to guess the {label} of a person based on a text they have written." + FORM,
    "trustpilot": "You need to guess the {label} of a person based on a product review they have written." + FORM,
    "trustpilot rating": "You need rate a product review." + FORM,
    "toefl11": (
        "When people grow up speaking one language (their native language) but learn another later, their writing can "
        "leave clues to their native language in vocabulary, grammar, or other aspects of style. You need to guess the "
        "native language of a writer based on an English text (note that the text is in English, but the native "
        "language of its author is not English). Guess the native language based on the writing style of the text."
    )
    + FORM,
    "toefl11 topic": "You need to classify the topic of a text written students." + FORM,
    "shakespeare": (
        "Shakespeare wrote many plays in the sixteenth and seventeenth centuries. English writing style then, in terms "
        "of vocabulary and grammar and other aspects, was different from now. You need to classify a Shakespeare "
        "sentence regarding its writing style."
    )
    + FORM,
    "shakespeare play": (
        "Shakespeare wrote many plays in the sixteenth and seventeenth centuries. You need to classify which play a "
        "Shakespeare sentence belongs to."
    )
    + FORM,
}
SEVERAL = (
    "Your return is a valid JSON response with a single key called 'class' and a list of the {count} classes that you "
    "think likeliest as its value, the likeliest first."
)


@component
class LLMInference(AsksModel):
    """A language model that infers a label. prompt: the question; top: the number of classes to list per text.

    The other settings are those of `AsksModel`.
    """

    prompt: str = "any"
    top: Literal[1, 3] = 1
    longest: PositiveInt = 64

    @field_validator("prompt")
    @classmethod
    def _names_the_classes(cls, value: str) -> str:
        if value not in PROMPTS and "{classes}" not in value:
            raise ValueError(f"must be one of {', '.join(PROMPTS)}, or contain {{classes}}")
        return value

    def infer(self, texts: Sequence[str], label: str, classes: Sequence[str]) -> list[list[str]]:
        """Return the classes that the model lists for each text, the most likely first; empty for an unusable one.

        Raises UserError if the model is behind an endpoint that must not see these texts.
        """
        count = min(self.top, len(classes) - 1)
        instruction = PROMPTS.get(self.prompt, self.prompt).replace("{label}", label)
        instruction = instruction.replace("{classes}", ", ".join(f"'{name}'" for name in classes))
        if count > 1:
            instruction = f"{instruction} {SEVERAL.format(count=count)}"

        def read(answer: str) -> list[str] | None:
            answered = read_object(answer, "class")
            named = [] if answered is None else answered["class"] if count > 1 else [answered["class"]]
            classes_named = [read_class(value, classes) for value in named] if isinstance(named, list) else []
            return (
                [str(name) for name in classes_named]
                if 0 < len({*classes_named} - {None}) == len(classes_named) <= count
                else None
            )

        noise = Noise.named(len(texts), "infer", label)
        answers = self.assistant.ask([Question(instruction, text) for text in texts], read, noise)
        return [answer or [] for answer in answers]
