"""Token ids of one message to an instruction-tuned model, from the chat template of its tokeniser.

Special tokens of the template are encoded as special tokens. Special tokens that are written in the message are encoded
as plain characters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epsilometer.core.errors import UserError

_MARK = "THEMESSAGE"


def encode(tokenizer: Any, text: str, special: bool = False) -> list[int]:
    """Return the token ids of a text, without added tokens.

    tokenizer: a fast tokeniser of transformers. special: True to encode special tokens written in the text as special
    tokens; False to encode them as plain characters.
    """
    backend = tokenizer.backend_tokenizer
    backend.encode_special_tokens = not special
    try:
        ids: list[int] = backend.encode(text, add_special_tokens=False).ids
    finally:
        backend.encode_special_tokens = True
    return ids


def frame(tokenizer: Any, folder: Path) -> tuple[list[int], list[int]]:
    """Return the token ids that the template puts before and after the user's message, with thinking disabled.

    Raises UserError if the template changes or repeats the message.
    """
    shown = tokenizer.apply_chat_template(
        [{"role": "user", "content": _MARK}], tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    if shown.count(_MARK) != 1:
        raise UserError(f"the chat template in {folder} changes the message; give another model", "EPS-N016")
    head, tail = shown.split(_MARK)
    return encode(tokenizer, head, special=True), encode(tokenizer, tail, special=True)
