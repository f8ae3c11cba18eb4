"""A local causal language model as a judge that guesses the source of a rewrite among candidates.

The common prefix of all prompts is computed once, and every row of every batch shares the prefix's keys and values. All
options are scored in one forward pass, which stores no further keys and values. The rest of a prompt is padded on the
left to a multiple of 8 tokens. The number of rows in a batch depends only on this padded length, and the last batch is
padded with copies. So the scores of a prompt come from kernels on the same shapes, whatever the other questions are.
Rounding logits to multiples of 1/1024 removes the remaining differences. In a model with sliding-window attention,
padding occupies part of that attention window. This matters only for prompts longer than the attention window.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epsilometer.attacks.identification.shared.judge_prompt import (
    CHAT_LEAD,
    Question,
    characters,
    instruction,
    numbers,
    plain,
    plain_ids,
    question,
)
from epsilometer.core.errors import UserError
from epsilometer.models.answers import Completion
from epsilometer.models.chat_template import encode, frame
from epsilometer.models.devices import resolved
from epsilometer.models.locate import locate, quiet_loading
from epsilometer.models.logits import on_grid
from epsilometer.runtime.progress import track

if TYPE_CHECKING:
    from torch import Tensor

PAD = 8  # prompts are padded to a multiple of this
BATCH = {"cpu": 1024, "cuda": 16384}  # most tokens in a batch, not counting the shared prefix; fewer if memory is short


class JudgeModel:
    """A causal language model in transformers' format.

    model:      a model that `models.locate` accepts.
    precision:  "float32", "bfloat16", or "auto" (bfloat16 if the hardware supports it, which can change results).
    chat:       True if the tokeniser has a chat template; the published prompt is then used.
    window:     most tokens in a prompt; the texts of a longer prompt are all truncated to the same number of words.
    cut:        number of prompts truncated so far.

    Raises UserError for a model that cannot be fetched, has no language model head, or has no fast tokeniser, and for
    an unknown precision.
    """

    def __init__(self, model: str | Path, precision: str = "float32") -> None:
        from epsilometer.models.bert import number_type
        from epsilometer.models.dense import multiply_by_onednn
        from epsilometer.models.memory import Memory

        folder = locate(model)
        device = resolved()
        kind = number_type(precision, device)
        with quiet_loading(folder):
            from transformers import AutoModelForCausalLM, AutoTokenizer

            try:
                self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
                loaded: Any = AutoModelForCausalLM.from_pretrained(
                    folder, dtype=kind, use_safetensors=True, trust_remote_code=False, output_loading_info=True
                )
            except (OSError, ValueError) as error:
                raise UserError(f"{folder} does not load as a causal language model: {error}", "EPS-A005") from error
        self._model, report = loaded
        if report["missing_keys"]:
            raise UserError(
                f"{folder} is not a causal language model: its weights lack {min(report['missing_keys'])}; give a "
                "checkpoint with a language model head",
                "EPS-A006",
            )
        if not hasattr(self._tokenizer, "backend_tokenizer"):
            raise UserError(f"{folder} has no tokenizer.json; give a model with a fast tokeniser", "EPS-A007")
        self._folder, self._device, self._memory = folder, device, Memory(device, folder.name)
        self._model.eval().to(device)
        multiply_by_onednn(self._model)
        self.chat = self._tokenizer.chat_template is not None
        self._head, self._tail = frame(self._tokenizer, folder) if self.chat else ([], [])
        self.window = int(getattr(self._model.config.get_text_config(), "max_position_embeddings", 1 << 30))
        self.cut = 0

    def scores(self, questions: Sequence[Question]) -> tuple[NDArray[np.float32], int]:
        """Return the scores of the candidates [n, k], and the number of tokens read, from one forward pass.

        Scores are the logits of the options' labels, in multiples of 1/1024. All n questions have k candidates. Raises
        UserError for more than 26 candidates, for a label of more than one token, and for infinite or NaN logits.
        """
        import torch

        labels = characters(len(questions[0][1]))
        tokens = self._label_tokens(labels)
        prefix = self._prefix(labels)
        prompts = [self._fitted(about, labels, len(prefix), lead=CHAT_LEAD) for about in questions]
        result = np.empty((len(prompts), len(labels)), np.float32)
        with torch.inference_mode(), self._head_of(tokens):
            cache = self._cache(prefix)

            def some(rest: Sequence[int]) -> Iterator[Sequence[int]]:
                for rows, ids, mask in self._batches(prompts, len(prefix), rest):
                    positions = mask.cumsum(1).sub_(1).clamp_(min=0)[:, len(prefix) :]
                    output = self._model(
                        input_ids=ids,
                        attention_mask=mask,
                        position_ids=positions,
                        past_key_values=_repeated(cache, len(ids)),
                        use_cache=False,
                        logits_to_keep=1,
                    )
                    result[rows] = on_grid(output.logits[: len(rows), -1], self._folder).cpu().numpy()
                    yield rows

            self._memory.work_off(range(len(prompts)), some)
        return result, sum(len(prefix) + len(prompt) for prompt in prompts)

    def replies(self, questions: Sequence[Question], longest: int, again: bool = False) -> list[Completion]:
        """Return the model's answers by greedy decoding, of at most `longest` tokens.

        again: True to add a reminder of the answer's format. Raises UserError for a model without a chat template.
        """
        if not self.chat:
            raise UserError(
                f"the tokeniser in {self._folder} has no chat template, so the model cannot generate an answer; use "
                "reading: score, or a chat model",
                "EPS-A008",
            )
        import torch
        from transformers import GenerationConfig

        labels = numbers(len(questions[0][1]))
        prefix = self._prefix(labels)
        prompts = [self._fitted(about, labels, len(prefix) + longest, again=again) for about in questions]
        ends = self._ends()
        # Replaces the model's default settings for sampling and repetition, which are meant for conversation.
        greedy = GenerationConfig(
            do_sample=False,
            num_beams=1,
            repetition_penalty=1.0,
            max_new_tokens=longest,
            eos_token_id=ends,
            pad_token_id=ends[0],
        )
        completions = [Completion("", 0, 0)] * len(prompts)
        with torch.inference_mode():
            cache = self._cache(prefix)

            def some(rest: Sequence[int]) -> Iterator[Sequence[int]]:
                for rows, ids, mask in self._batches(prompts, len(prefix), rest, longest):
                    whole = torch.cat([ids.new_tensor(prefix).expand(len(ids), -1), ids], 1)
                    rows_cache = _repeated(cache, len(ids), ids.shape[1] + longest)
                    generated = self._model.generate(
                        whole, attention_mask=mask, past_key_values=rows_cache, generation_config=greedy
                    )
                    for row, answer in zip(rows, generated[:, whole.shape[1] :].tolist(), strict=False):
                        length = next((i for i, token in enumerate(answer) if token in ends), len(answer))
                        text = self._tokenizer.decode(answer[:length], skip_special_tokens=True)
                        completions[row] = Completion(text, len(prefix) + len(prompts[row]), length)
                    yield rows

            self._memory.work_off(range(len(prompts)), some)
        return completions

    def _ends(self) -> list[int]:
        """Return the tokens that end an answer."""
        stated = self._model.generation_config.eos_token_id
        ends = self._tokenizer.eos_token_id if stated is None else stated
        return ends if isinstance(ends, list) else [ends]

    def _prefix(self, labels: Sequence[str]) -> list[int]:
        """Return the tokens that all prompts begin with; an empty list for a model without a chat template."""
        return self._head + encode(self._tokenizer, instruction(labels)) if self.chat else []

    def _prompt(self, about: Question, labels: Sequence[str], again: bool = False, lead: str = "") -> list[int]:
        """Return the tokens of a prompt after the prefix."""
        if not self.chat:
            return plain_ids(self._tokenizer, plain(*about, labels))
        message = encode(self._tokenizer, question(*about, labels, again=again))
        return message + self._tail + encode(self._tokenizer, lead)

    def _fitted(
        self, about: Question, labels: Sequence[str], taken: int, again: bool = False, lead: str = ""
    ) -> NDArray[np.int32]:
        """Return the tokens of a prompt after the prefix, with texts truncated to fit the window.

        taken: tokens of the window that the prefix and the answer need.
        """
        room = self.window - taken
        ids = self._prompt(about, labels, again, lead)
        if len(ids) <= room:
            return np.array(ids, np.int32)
        self.cut += 1
        texts = [text.split() for text in (about[0], *about[1])]
        longest = max(map(len, texts))
        while len(ids) > room:
            if not longest:
                raise UserError(
                    f"a question with {len(labels)} options exceeds the window of {self._folder}, {self.window} "
                    "tokens; set a smaller trials.candidates, or use another model",
                    "EPS-A009",
                )
            longest = min(longest - 1, longest * max(room, 0) // len(ids))
            rewrite, *candidates = (" ".join(words[:longest]) for words in texts)
            ids = self._prompt((rewrite, candidates), labels, again, lead)
        return np.array(ids, np.int32)

    def _label_tokens(self, labels: Sequence[str]) -> list[int]:
        """Return each label's token, as encoded after the prompt. Raises UserError if a label has several tokens."""
        lead = CHAT_LEAD if self.chat else plain("", [], [])
        before = encode(self._tokenizer, lead)
        after = [encode(self._tokenizer, lead + label) for label in labels]
        tokens = [ids[-1] for ids in after]
        if any(ids[:-1] != before for ids in after) or len(set(tokens)) < len(tokens):
            raise UserError(
                f"the tokeniser in {self._folder} splits one of the labels {', '.join(labels)} into several tokens; "
                "use reading: generate, or another model",
                "EPS-A010",
            )
        return tokens

    @contextmanager
    def _head_of(self, tokens: list[int]) -> Iterator[None]:
        """Within this context, make the model compute the logits of these tokens only, in this order and in float32.

        In bfloat16, logits near 16 would be rounded to multiples of 0.125.
        """
        import torch

        whole = self._model.get_output_embeddings()
        few = torch.nn.Linear(whole.in_features, len(tokens), bias=whole.bias is not None, device="meta")
        few.weight = torch.nn.Parameter(whole.weight[tokens].float(), requires_grad=False)
        if whole.bias is not None:
            few.bias = torch.nn.Parameter(whole.bias[tokens].float(), requires_grad=False)
        few.register_forward_pre_hook(lambda _, inputs: (inputs[0].float(),))
        self._model.set_output_embeddings(few)
        try:
            yield
        finally:
            self._model.set_output_embeddings(whole)

    def _cache(self, prefix: list[int]) -> Any:
        """Return the keys and values of the shared prefix, as a cache with one row; None without a prefix."""
        import torch

        if not prefix:
            return None
        ids = torch.tensor([prefix], device=self._device)
        return self._model(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values

    def _batches(
        self, prompts: list[NDArray[np.int32]], prefix: int, rest: Sequence[int], longest: int = 0
    ) -> Iterator[tuple[list[int], Tensor, Tensor]]:
        """Yield batches of one padded length: indices of prompts, ids [rows, length], mask [rows, prefix + length].

        rest: indices of the requested prompts; longest: most answer tokens, for which memory is reserved. Each row has
        padding, so that every batch needs the mask. A batch may have more rows than prompts.
        """
        import torch

        def fitting(length: int) -> int:
            return self._memory.rows(self._row_bytes(prefix + length, longest), max(1, BATCH[self._device] // length))

        order = sorted(rest, key=lambda i: len(prompts[i]))
        batches = []
        for length, run in groupby(order, key=lambda i: (len(prompts[i]) // PAD + 1) * PAD):
            members, size = list(run), fitting(length)
            batches += [(length, members[start : start + size]) for start in range(0, len(members), size)]
        for length, rows in track(batches, len(batches), "judge"):
            size = fitting(length)  # also stores this number of rows, which is halved if memory runs out
            ids = np.zeros((size, length), np.int64)
            mask = np.zeros((size, prefix + length), np.int64)
            mask[:, :prefix] = 1
            for place in range(size):
                prompt = prompts[rows[min(place, len(rows) - 1)]]
                ids[place, length - len(prompt) :] = prompt
                mask[place, prefix + length - len(prompt) :] = 1
            yield rows, torch.from_numpy(ids).to(self._device), torch.from_numpy(mask).to(self._device)

    def _row_bytes(self, length: int, longest: int) -> int:
        """Return an estimate of the bytes of a row of `length` tokens: one layer's activations, plus keys and values.

        If an answer of up to `longest` tokens follows, keys and values count for all layers. Otherwise they count
        twice, for one layer.
        """
        from epsilometer.models.memory import activations, cached

        config = self._model.config.get_text_config()
        keys = cached(config) * (length + longest)
        return int(
            self._model.dtype.itemsize
            * (activations(config, length) + (keys if longest else 2 * keys // config.num_hidden_layers))
        )


def _repeated(cache: Any, rows: int, more: int = 0) -> Any:
    """Return a new cache that repeats a cache of one row.

    more: number of further tokens to allocate memory for. If `more` is 0, all rows share the keys and values of the one
    row, and keys and values of later tokens are discarded after each layer.
    """
    from transformers.cache_utils import DynamicLayer

    if cache is None:
        return None
    repeated = copy.copy(cache)
    repeated.layers = []
    for original in cache.layers:
        if type(original) is DynamicLayer:
            layer: Any = copy.copy(original)
            layer.keys, layer.values = (part.expand(rows, -1, -1, -1) for part in (layer.keys, layer.values))
            if more:
                layer = _with_room()(layer, more)
            else:
                layer.update = partial(_joined, layer.keys, layer.values)
        else:  # for example a sliding window
            layer = copy.deepcopy(original)
            layer.batch_repeat_interleave(rows)
        repeated.layers.append(layer)
    return repeated


@cache
def _with_room() -> Any:
    from transformers.cache_utils import DynamicLayer

    class WithRoom(DynamicLayer):
        """A cache layer that allocates memory for all tokens at once, so that no step copies earlier tokens.

        Attention reads views of the tokens stored so far. Their values and shapes are those of a plain `DynamicLayer`.
        """

        def __init__(self, layer: Any, more: int) -> None:
            super().__init__()
            self.lazy_initialization(layer.keys, layer.values)
            rows, heads, length, _ = layer.keys.shape
            self._room = [
                part.new_empty(rows, heads, length + more, part.shape[-1]) for part in (layer.keys, layer.values)
            ]
            self._take(0, layer.keys, layer.values)

        def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
            return self._take(self.get_seq_length(), key_states, value_states)

        def _take(self, start: int, *states: Tensor) -> tuple[Tensor, Tensor]:
            stop = start + states[0].shape[-2]
            for room, new in zip(self._room, states, strict=True):
                room[:, :, start:stop] = new
            self.keys, self.values = (room[:, :, :stop] for room in self._room)
            return self.keys, self.values

    return WithRoom


def _joined(keys: Tensor, values: Tensor, new_keys: Tensor, new_values: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    """Return the keys and values of all tokens, cached and new: two tensors [rows, heads, length, size]."""
    import torch

    return torch.cat([keys, new_keys], dim=-2), torch.cat([values, new_values], dim=-2)
