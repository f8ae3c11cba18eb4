"""The prompt that asks a language model for the source of a rewrite, and the parser of its answer.

A model with a chat template gets the words of TeDA (arXiv:2603.22968, Appendix B), filled in with the labels of the
options. Any other model, including the embedded judge, continues a plain text of few tokens:

    rewrite: i want a plane to boston
    [1] flights to boston
    [2] play some jazz
    answer: [

Both end where a label follows. A text is data: its white space becomes single spaces, so that it cannot begin a new
line and pass for another option, and the tokeniser reads special tokens in it as characters (`encode`).
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Any

from epsilometer.core.errors import UserError
from epsilometer.models.chat_template import encode

Question = tuple[str, Sequence[str]]  # a rewrite and its candidates

CHAT_LEAD = "answer: [["  # beginning of the model's turn if only the label is read

# TeDA Appendix B, quoted: the prompt is part of the published attack.
_INSTRUCTION = (
    "You are given a rewritten text Y and several candidate original texts. Your task is to identify which candidate "
    "is the most likely original text that was rewritten to produce Y.\n"
    "Output format. Answer with exactly the following format on a single line: answer: [[N]], where N ∈ {{{first},…,"
    "{last}}}. Do not include analysis or any additional text.\n"
    "Rewritten text Y:"
)
_QUESTION = "\n{rewrite}\nCandidate original texts:\n{options}\nWhich candidate is most likely the original?"
# Our reminder, for the second request.
_REMINDER = "Answer with the line answer: [[N]] and nothing else."


def numbers(count: int) -> tuple[str, ...]:
    """Return the labels of `count` options as published: "1", "2", ..."""
    return tuple(str(number) for number in range(1, count + 1))


def characters(count: int) -> tuple[str, ...]:
    """Return labels of one character, which are one token: "1" to "9", or "A", "B", ... for more options.

    Raises UserError beyond 26 options.
    """
    if count > len(string.ascii_uppercase):
        raise UserError(
            f"reading: score compares at most 26 candidates, one token each, got k = {count}; use reading: generate, "
            "or a smaller trials.candidates",
            "EPS-A011",
        )
    return numbers(count) if count <= 9 else tuple(string.ascii_uppercase[:count])


def instruction(labels: Sequence[str]) -> str:
    """Return the beginning of the user's message, the same for every trial."""
    return _INSTRUCTION.format(first=labels[0], last=labels[-1])


def question(rewrite: str, candidates: Sequence[str], labels: Sequence[str], again: bool = False) -> str:
    """Return the rest of the user's message: one rewrite and its candidates, in order. again: with a reminder."""
    options = "\n".join(f"{label}. {_line(text)}" for label, text in zip(labels, candidates, strict=True))
    message = _QUESTION.format(rewrite=_line(rewrite), options=options)
    return f"{message}\n{_REMINDER}" if again else message


def message(rewrite: str, candidates: Sequence[str], again: bool = False) -> str:
    """Return the whole of the user's message, with numbers as labels."""
    labels = numbers(len(candidates))
    return instruction(labels) + question(rewrite, candidates, labels, again)


def plain(rewrite: str, candidates: Sequence[str], labels: Sequence[str]) -> str:
    """Return the text that a model without a chat template continues; the label of the source comes next."""
    options = "\n".join(f"[{label}] {_line(text)}" for label, text in zip(labels, candidates, strict=True))
    return f"rewrite: {_line(rewrite)}\n{options}\nanswer: ["


def plain_ids(tokenizer: Any, prompt: str) -> list[int]:
    """Return the tokens of a plain prompt, as in the judge's training: after the BOS token, if there is one."""
    begin = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    return begin + encode(tokenizer, prompt)


def parse(reply: str) -> str:
    """Return the label that a reply names, which must be the line `answer: [[N]]` alone; empty if it names none.

    The model's reasoning before its answer, marked <think>...</think>, is ignored.
    """
    match = re.fullmatch(r"answer: \[\[(\d{1,4})\]\]", reply.rpartition("</think>")[2].strip(), re.IGNORECASE)
    return match[1] if match else ""


def _line(text: str) -> str:
    return " ".join(text.split())
