"""The prompt that asks a language model for the source of a rewrite, and the parser of its answer.

A model with a chat template gets TeDA's prompt (arXiv:2603.22968, Appendix B), with the labels of the options filled
in. Any other model, including the embedded judge, continues a short plain text:

    rewrite: i want a plane to boston
    [1] flights to boston
    [2] play some jazz
    answer: [

Both prompts end where the label must follow. White space in texts is replaced by single spaces, so that a text cannot
start a new line and imitate another option. Special tokens written in a text are encoded as plain characters
(`encode`).
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Any

from epsilometer.core.errors import UserError
from epsilometer.models.chat_template import encode

Question = tuple[str, Sequence[str]]  # a rewrite and its candidates

CHAT_LEAD = "answer: [["  # start of the answer, given to the model if only the labels' logits are read

# Quoted from TeDA, Appendix B.
_INSTRUCTION = (
    "You are given a rewritten text Y and several candidate original texts. Your task is to identify which candidate "
    "is the most likely original text that was rewritten to produce Y.\n"
    "Output format. Answer with exactly the following format on a single line: answer: [[N]], where N ∈ {{{first},…,"
    "{last}}}. Do not include analysis or any additional text.\n"
    "Rewritten text Y:"
)
_QUESTION = "\n{rewrite}\nCandidate original texts:\n{options}\nWhich candidate is most likely the original?"
# Reminder in the second request; not from TeDA.
_REMINDER = "Answer with the line answer: [[N]] and nothing else."


def numbers(count: int) -> tuple[str, ...]:
    """Return the labels of `count` options as in TeDA: "1", "2", ..."""
    return tuple(str(number) for number in range(1, count + 1))


def characters(count: int) -> tuple[str, ...]:
    """Return labels of one character, so that each label is one token: "1" to "9"; "A", "B", ... for 10 to 26 options.

    Raises UserError for more than 26 options.
    """
    if count > len(string.ascii_uppercase):
        raise UserError(
            f"reading: score compares at most 26 candidates, one token each, got k = {count}; use reading: generate, "
            "or a smaller trials.candidates",
            "EPS-A011",
        )
    return numbers(count) if count <= 9 else tuple(string.ascii_uppercase[:count])


def instruction(labels: Sequence[str]) -> str:
    """Return the start of the user message, which is the same for every trial."""
    return _INSTRUCTION.format(first=labels[0], last=labels[-1])


def question(rewrite: str, candidates: Sequence[str], labels: Sequence[str], again: bool = False) -> str:
    """Return the rest of the user message: a rewrite and its candidates in order. again: True to add a reminder."""
    options = "\n".join(f"{label}. {_line(text)}" for label, text in zip(labels, candidates, strict=True))
    message = _QUESTION.format(rewrite=_line(rewrite), options=options)
    return f"{message}\n{_REMINDER}" if again else message


def message(rewrite: str, candidates: Sequence[str], again: bool = False) -> str:
    """Return the whole user message, with numbers as labels."""
    labels = numbers(len(candidates))
    return instruction(labels) + question(rewrite, candidates, labels, again)


def plain(rewrite: str, candidates: Sequence[str], labels: Sequence[str]) -> str:
    """Return the prompt for a model without a chat template. The model continues the prompt with the source's label."""
    options = "\n".join(f"[{label}] {_line(text)}" for label, text in zip(labels, candidates, strict=True))
    return f"rewrite: {_line(rewrite)}\n{options}\nanswer: ["


def plain_ids(tokenizer: Any, prompt: str) -> list[int]:
    """Return the tokens of a plain prompt, after the BOS token if there is one, as in the judge's training."""
    begin = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    return begin + encode(tokenizer, prompt)


def parse(reply: str) -> str:
    """Return the label N of a reply that consists only of the line `answer: [[N]]`; empty for any other reply.

    The model's reasoning before its answer, marked <think>...</think>, is ignored.
    """
    match = re.fullmatch(r"answer: \[\[(\d{1,4})\]\]", reply.rpartition("</think>")[2].strip(), re.IGNORECASE)
    return match[1] if match else ""


def _line(text: str) -> str:
    return " ".join(text.split())
