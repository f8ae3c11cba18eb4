"""The model shared by a server and its clients, and gradients of texts with respect to its parameters.

The model is a BERT or a GPT-2, given by folder, pin or id. Torch runs it in float32 and in evaluation mode. Attention
is not fused (`eager`), because attacks differentiate gradients, and fused kernels have no second derivative. Each text
is processed alone, without padding; a batch's gradient is the mean over its texts.

**Objectives.** `classification`: the cross-entropy of a label (BERT: pooler and classifier; GPT-2: scorer of the last
token, with the end token as padding). `masked`: the cross-entropy at masked positions, whose original tokens are the
targets. `causal`: the mean cross-entropy of every token after the first. The paper (cited in `heads`) does not state
the objective of its Decepticons attack.

**Tensors.** A client sends the gradient of one of three groups of parameters. `all`: all parameters.
`without_embeddings`: all but the table of word embeddings, whose gradient would reveal the words. `head`: the pooler
and classifier of BERT, or the scorer and last norm of GPT-2. Tied weights are one tensor.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from epsilometer.core.errors import UserError, unknown
from epsilometer.models.devices import resolved
from epsilometer.models.locate import locate, quiet_loading

Objective = Literal["classification", "masked", "causal"]
Tensors = Literal["all", "without_embeddings", "head"]
Target = int | Sequence[int] | None
"""A label; for `masked`, the token at each masked position and -100 elsewhere; for `causal`, None."""

_CLASSES: Mapping[str, str] = {
    "classification": "AutoModelForSequenceClassification",
    "masked": "AutoModelForMaskedLM",
    "causal": "AutoModelForCausalLM",
}
_HEADS = {"bert": ("bert.pooler.", "classifier."), "gpt2": ("transformer.ln_f.", "score.")}
_PLACED = ("bos", "eos", "cls", "sep", "pad", "mask")  # tokens that represent no part of a text


class SharedModel:
    """A network, its tokeniser, and the tensors whose gradients are sent.

    architecture: "bert" or "gpt2".
    network:      the model of transformers, in evaluation mode.
    tokenizer:    the fast tokeniser of transformers.
    names:        the names of the sent tensors, in order.
    shapes:       the shapes of the sent tensors.
    parts:        the number of entries of each sent tensor.
    size:         d, the sum of `parts`.
    special:      ids of tokens that represent no part of a text ([CLS], padding, ...).
    device:       the device of the network, its inputs and gradients.
    """

    def __init__(
        self,
        model: str | Path,
        classes: int = 2,
        *,
        objective: Objective = "classification",
        tensors: Tensors = "without_embeddings",
        longest: int = 128,
        seed: int = 0,
    ) -> None:
        """Load a model that `models.locate` finds.

        classes: the number of classes, for classification.
        longest: the maximum number of tokens read from a text, including special tokens.
        seed: the seed of the head's initial weights, if the folder has none for this number of classes.
        Raises UserError for another architecture, an unknown objective or unknown tensors, and a model without these
        tensors.
        """
        for what, chosen, options in (("objective", objective, Objective), ("tensors", tensors, Tensors)):
            if chosen not in get_args(options):
                raise unknown(what, chosen, get_args(options))
        self.folder, self.objective, self.tensors = locate(model), objective, tensors
        self.device = resolved()
        self.network, self.tokenizer = _loaded(self.folder, objective, classes, seed)
        self.network.to(self.device)
        self.architecture: str = self.network.config.model_type
        self.special = _special(self.tokenizer)
        self._frame = _frame(self.tokenizer)
        self.longest = min(longest, self.network.config.max_position_embeddings)
        self.names = tuple(name for name, _ in self.network.named_parameters() if self._is_sent(name))
        if not self.names or (tensors == "head" and objective != "classification"):
            raise UserError(
                f"tensors is {tensors!r}, but a model for {objective} in {self.folder} has no such tensors; set "
                "tensors: all",
                "EPS-T038",
            )
        self.shapes = tuple(tuple(parameter.shape) for parameter in self.parameters)
        self.parts = tuple(parameter.numel() for parameter in self.parameters)
        self.size = sum(self.parts)

    @property
    def parameters(self) -> list[Tensor]:
        """The parameters whose gradients are sent, in order."""
        every = dict(self.network.named_parameters())
        return [every[name] for name in self.names]

    @property
    def words(self) -> Tensor:
        """The table of word embeddings [vocabulary, width]."""
        table: Tensor = self.network.get_input_embeddings().weight
        return table

    def with_parameters(self, changed: Mapping[str, Tensor]) -> SharedModel:
        """Return a copy of the model with other values of some parameters, for a malicious server.

        changed: the values by the parameters' names in torch. Raises UserError for an unknown name.
        """
        other = copy.copy(self)
        other.network = copy.deepcopy(self.network)
        own = dict(other.network.named_parameters())
        with torch.no_grad():
            for name, value in changed.items():
                if name not in own:
                    raise unknown("parameter", name, own)
                own[name].copy_(value)
        return other

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of texts, with special tokens, truncated to `longest`.

        Raises UserError if a text has no tokens.
        """
        ids: list[list[int]] = []
        for number, text in enumerate(texts):
            row = self.tokenizer(text, truncation=True, max_length=self.longest, verbose=False)["input_ids"]
            if not self.plain(row):
                raise UserError(f"text {number} has no token, so it has no gradient; leave it out", "EPS-T039")
            ids.append(list(row))
        return ids

    def plain(self, ids: Iterable[int]) -> list[int]:
        """Return the ids that are not special tokens."""
        return [int(token) for token in ids if int(token) not in self.special]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of token ids, without special tokens."""
        text: str = self.tokenizer.decode(self.plain(ids), clean_up_tokenization_spaces=False)
        return text.strip()

    def framed(self, ids: Sequence[int]) -> list[int]:
        """Return token ids with the special tokens before and after them. ids: without special tokens."""
        return [*self._frame[0], *ids, *self._frame[1]]

    def loss(self, ids: Sequence[int] | Tensor, target: Target) -> Tensor:
        """Return the loss of one text. ids: its token ids [T], or its word embeddings [T, width]."""
        inputs = torch.as_tensor(ids, device=self.device)
        into = {"inputs_embeds" if inputs.is_floating_point() else "input_ids": inputs[None]}
        if self.objective == "classification":
            wanted = torch.tensor([target], device=self.device)
        elif self.objective == "masked":
            wanted = torch.as_tensor(target, device=self.device)[None]
        else:
            if inputs.is_floating_point():
                raise TypeError("the causal objective needs token ids, got embeddings")
            wanted = inputs[None]
        logits = self.network(**into).logits
        if self.objective == "classification":
            return torch.nn.functional.cross_entropy(logits, wanted)
        if self.objective == "causal":
            logits, wanted = logits[:, :-1], wanted[:, 1:]
        return torch.nn.functional.cross_entropy(logits[0], wanted[0])

    def gradient(self, ids: Sequence[int] | Tensor, target: Target, *, create_graph: bool = False) -> list[Tensor]:
        """Return the gradient of one text's loss with respect to each sent tensor; 0 for tensors that are not used."""
        of = self.parameters
        grads = torch.autograd.grad(self.loss(ids, target), of, create_graph=create_graph, allow_unused=True)
        return [
            torch.zeros_like(parameter) if grad is None else grad for parameter, grad in zip(of, grads, strict=True)
        ]

    def gradients(self, sequences: Sequence[Sequence[int]], targets: Sequence[Target]) -> NDArray[np.float32]:
        """Return the gradients of texts as rows, [L, d]."""
        matrix = np.empty((len(sequences), self.size), np.float32)
        for row, ids, target in zip(matrix, sequences, targets, strict=True):
            row[:] = torch.cat([part.flatten() for part in self.gradient(ids, target)]).cpu().numpy()
        return matrix

    def split(self, vector: NDArray[np.floating] | Tensor) -> list[Tensor]:
        """Return a vector of d numbers as tensors of the sent shapes, on the vector's device."""
        flat = torch.as_tensor(vector)
        return [part.reshape(shape) for part, shape in zip(flat.split(self.parts), self.shapes, strict=True)]

    def _is_sent(self, name: str) -> bool:
        if self.tensors == "head":
            return name.startswith(_HEADS[self.architecture])
        word_table = next(n for n, p in self.network.named_parameters() if p is self.words)
        return self.tensors == "all" or name != word_table


def _loaded(folder: Path, objective: Objective, classes: int, seed: int) -> tuple[Any, Any]:
    """Load the network and tokeniser of a folder. Torch's global generator stays unchanged."""
    import transformers

    with quiet_loading(folder), torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
            if config.model_type not in _HEADS:
                raise UserError(
                    f"the model in {folder} has the unsupported type {config.model_type}; give a BERT or a GPT-2",
                    "EPS-T040",
                )
            network = getattr(transformers, _CLASSES[objective]).from_pretrained(
                folder,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=False,
                attn_implementation="eager",
                **({"num_labels": classes} if objective == "classification" else {}),
            )
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        except (OSError, ValueError) as error:
            if isinstance(error, UserError):
                raise
            raise UserError(
                f"the model in {folder} cannot be loaded for {objective} ({type(error).__name__}: {error}); give a "
                "folder of a BERT or a GPT-2 with its tokeniser",
                "EPS-T041",
            ) from error
    if network.config.pad_token_id is None:  # GPT-2 has no padding token, but its classifier requires one
        network.config.pad_token_id = network.config.eos_token_id
    return network.eval(), tokenizer


def _special(tokenizer: Any) -> frozenset[int]:
    """Return the ids of special tokens; of the unknown token only if it has another role, too, such as padding."""
    ids = (getattr(tokenizer, f"{name}_token_id", None) for name in _PLACED)
    return frozenset(token for token in ids if token is not None)


def _frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the special tokens before and after a text."""
    probe = tokenizer("a", return_special_tokens_mask=True)
    ids, added = probe["input_ids"], probe["special_tokens_mask"]
    first = added.index(0)
    last = len(added) - added[::-1].index(0)
    return ids[:first], ids[last:]
