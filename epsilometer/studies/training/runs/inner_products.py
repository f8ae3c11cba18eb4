"""Inner products and lengths of the gradients of many texts, tensor by tensor, without forming the gradients.

A layer's gradient is a sum over tokens. Each term is the product of the layer's input and the gradient at its output.
Let h_t be the inputs and e_t the derivatives of the loss with respect to the outputs, for the tokens t of one text. Let
Y be any matrix of the shape of the weight. Then

    weight of a dense layer:  G = sum_t e_t h_t',   <G, Y> = sum_t e_t' Y h_t,   |G|^2 = sum_{s,t} (e_s'e_t)(h_s'h_t);
    bias:                     g = sum_t e_t;
    norm's weight:            g = sum_t e_t * n_t,   n_t the normalised input;
    table of embeddings:      row r is the sum of the e_t at tokens r: |G|^2 = sum_{s,t: r_s = r_t} e_s'e_t.

The inner product of two texts' gradients has the form of |G|^2, with s over the tokens of one text and t over the
tokens of the other. So for many texts of one length, a forward and a backward pass suffice, and no gradient of millions
of numbers is formed. For norms alone, this method is ghost clipping (Li, Tramer, Liang and Hashimoto, ICLR 2022). All
operations are torch operations on activations, so results can be differentiated with respect to the word embeddings.
Autograd's gradients give the same results up to float32 rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from epsilometer.core.errors import UserError
from epsilometer.studies.training.runs.shared_model import SharedModel


@dataclass(frozen=True)
class Products:
    """Inner products and squared lengths for B texts and the m tensors of a model, in the model's order.

    inner:   [B, m], the inner product of each text's gradient with a given vector, tensor by tensor.
    squares: [B, m], the squared lengths of the gradients.
    losses:  [B], the losses of the texts.
    """

    inner: Tensor
    squares: Tensor
    losses: Tensor


@dataclass
class _Call:
    """One call of a layer. into: its input (token ids for an embedding table); out: its output."""

    name: str
    layer: nn.Module
    into: Tensor
    out: Tensor


def products(
    model: SharedModel,
    texts: Tensor,
    labels: Sequence[int] | Tensor,
    vector: Sequence[Tensor],
    *,
    create_graph: bool = False,
) -> Products:
    """Return inner products with a vector, and squared lengths, of the gradients of texts of one length.

    texts: token ids [B, T] or word embeddings [B, T, width], with special tokens.
    vector: one tensor for each tensor that the model sends (`SharedModel.split`).
    create_graph: True to differentiate the result with respect to the embeddings.
    Raises UserError for a language model's objective, and for layers other than those of BERT and GPT-2.
    """
    losses, layers = _read(model, texts, torch.as_tensor(labels, device=texts.device), create_graph=create_graph)
    with torch.set_grad_enabled(create_graph):
        inner, squares = _collected(model, layers, vector, len(losses))
    return Products(inner, squares, losses if create_graph else losses.detach())


@dataclass(frozen=True)
class Summed:
    """The sum of the gradients of several texts, without forming it.

    products: inner products and squared lengths of the sum, [1, m], with the mean loss of the texts.
    layers:   the recorded calls of layers, with the gradients at their outputs.
    """

    products: Products
    layers: list[tuple[_Call, Tensor | None]] = field(repr=False)


def summed(model: SharedModel, texts: Sequence[Tensor], labels: Sequence[int], vector: Sequence[Tensor]) -> Summed:
    """Return the sum of the gradients of texts of any lengths, for `products_beside`; arguments as in `products`."""
    losses, layers = _read_all(model, texts, labels, create_graph=False)
    with torch.no_grad():
        inner, squares = _collected(model, layers, vector, 1)
    return Summed(Products(inner, squares, losses.detach()), layers)


def products_beside(
    model: SharedModel, texts: Tensor, labels: Sequence[int], vector: Sequence[Tensor], *, other: Summed
) -> Products:
    """Return the `Products` of B sums: each text's gradient plus the sum `other`, whose texts are not read again."""
    losses, layers = _read(model, texts, torch.as_tensor(labels, device=texts.device), create_graph=False)
    with torch.no_grad():
        inner, squares = _collected(model, layers, vector, len(losses))
        across = _across(model, layers, other.layers, len(losses))
    return Products(inner + other.products.inner, squares + 2 * across + other.products.squares, losses.detach())


def mean_products(
    model: SharedModel,
    texts: Sequence[Tensor],
    labels: Sequence[int],
    vector: Sequence[Tensor],
    *,
    create_graph: bool = False,
) -> Products:
    """Return the `Products` of the mean gradient of texts of any lengths, with B = 1.

    Texts of one length are read in one pass. The tokens of all texts are then treated like the tokens of one text.
    texts: token ids [T] or word embeddings [T, width] of each text; other arguments are as in `products`.
    """
    losses, layers = _read_all(model, texts, labels, create_graph=create_graph)
    with torch.set_grad_enabled(create_graph):
        inner, squares = _collected(model, layers, vector, 1)
    return Products(inner / len(texts), squares / len(texts) ** 2, losses if create_graph else losses.detach())


def _read_all(
    model: SharedModel, texts: Sequence[Tensor], labels: Sequence[int], *, create_graph: bool
) -> tuple[Tensor, list[tuple[_Call, Tensor | None]]]:
    """Return the mean loss [1] of texts of any lengths, and the layers' calls, joined as for one text."""
    by_length: dict[int, list[int]] = {}
    for number, text in enumerate(texts):
        by_length.setdefault(len(text), []).append(number)
    read = [
        _read(
            model,
            torch.stack([texts[i] for i in same]),
            torch.tensor([labels[i] for i in same], device=texts[0].device),
            create_graph=create_graph,
        )
        for same in by_length.values()
    ]
    with torch.set_grad_enabled(create_graph):
        layers = [_joined(same) for same in zip(*(layers for _, layers in read), strict=True)]
        return torch.cat([losses for losses, _ in read]).mean()[None], layers


def _read(
    model: SharedModel, texts: Tensor, labels: Tensor, *, create_graph: bool
) -> tuple[Tensor, list[tuple[_Call, Tensor | None]]]:
    """Return the losses [B] of texts of one length, and the layers' calls with the gradients at their outputs."""
    if model.objective != "classification":
        raise UserError(
            f"inner products are implemented only for classifiers, got objective {model.objective}; set objective: "
            "classification",
            "EPS-T018",
        )
    with _recorded(model) as calls:
        losses = _losses(model, texts, labels)
    outs = [call.out for call in calls]
    backs = torch.autograd.grad(losses.sum(), outs, create_graph=create_graph, allow_unused=True)
    return losses, list(zip(calls, backs, strict=True))


def _joined(same: Sequence[tuple[_Call, Tensor | None]]) -> tuple[_Call, Tensor | None]:
    """Join one layer's calls for several groups of texts into one call for all their tokens."""
    first = same[0][0]
    backs = [back.reshape(1, -1, back.shape[-1]) for _, back in same if back is not None]
    if not backs:
        return first, None
    if isinstance(first.layer, nn.Embedding):
        into = torch.cat([call.into.reshape(1, -1) for call, _ in same], 1)
    else:
        into = torch.cat([call.into.reshape(1, -1, call.into.shape[-1]) for call, _ in same], 1)
    return _Call(first.name, first.layer, into, first.out), torch.cat(backs, 1)


def _collected(
    model: SharedModel, layers: Sequence[tuple[_Call, Tensor | None]], vector: Sequence[Tensor], count: int
) -> tuple[Tensor, Tensor]:
    """Return inner products with a vector [count, m] and squared lengths [count, m], for all tensors in order."""
    place = {name: i for i, name in enumerate(model.names)}
    empty = layers[0][0].out.new_zeros(count)
    inner, squares = [empty] * len(place), [empty] * len(place)
    for call, back in layers:
        for name, product, square in _of_layer(call, back, place, vector):
            inner[place[name]], squares[place[name]] = product, square
    return torch.stack(inner, 1), torch.stack(squares, 1)


def _across(
    model: SharedModel,
    layers: Sequence[tuple[_Call, Tensor | None]],
    others: Sequence[tuple[_Call, Tensor | None]],
    count: int,
) -> Tensor:
    """Return the inner products [count, m] of the texts' gradients with the gradient in `others`, by tensor."""
    of = {name: layers[0][0].out.new_zeros(count) for name in model.names}
    for (call, back), (other, other_back) in zip(layers, others, strict=True):
        if back is None or other_back is None:
            continue
        back, other_back = _by_tokens(back), _by_tokens(other_back)[0]
        if f"{call.name}.bias" in of:
            of[f"{call.name}.bias"] = back.sum(1) @ other_back.sum(0)
        if f"{call.name}.weight" not in of:
            continue
        if isinstance(call.layer, nn.LayerNorm):
            product = (back * _normed(call, back)).sum(1) @ (other_back * _normed(other, other_back)).sum(0)
        else:
            if isinstance(call.layer, nn.Embedding):
                same = (call.into.expand(len(back), -1)[..., None] == other.into.flatten()).to(back.dtype)
            else:
                same = _by_tokens(call.into) @ _by_tokens(other.into)[0].T
            product = ((back @ other_back.T) * same).sum((1, 2))
        of[f"{call.name}.weight"] = product
    return torch.stack(list(of.values()), 1)


def _by_tokens(rows: Tensor) -> Tensor:
    """Return rows as [B, T, numbers], also for a layer with one token per text."""
    return rows.reshape(len(rows), -1, rows.shape[-1])


def _normed(call: _Call, like: Tensor) -> Tensor:
    """Return the normalised input of a norm, before its weight and bias are applied."""
    assert isinstance(call.layer, nn.LayerNorm)
    return nn.functional.layer_norm(call.into, call.layer.normalized_shape, eps=call.layer.eps).reshape(like.shape)


def _losses(model: SharedModel, texts: Tensor, labels: Tensor) -> Tensor:
    """Return the losses [B].

    Positions and token types are passed once per text, so their embedding layers get a row per text.
    """
    count, length = texts.shape[:2]
    into: dict[str, Tensor] = {"position_ids": torch.arange(length, device=texts.device).expand(count, length)}
    if model.architecture == "bert":
        into["token_type_ids"] = torch.zeros(count, length, dtype=torch.int64, device=texts.device)
    into["inputs_embeds" if texts.is_floating_point() else "input_ids"] = texts
    return nn.functional.cross_entropy(model.network(**into).logits, labels, reduction="none")


@contextmanager
def _recorded(model: SharedModel) -> Iterator[list[_Call]]:
    """Record the calls of the layers whose tensors are sent, within the context."""
    calls: list[_Call] = []
    owners = {name.rpartition(".")[0] for name in model.names}
    hooks = []

    def hook(name: str) -> Any:
        def record(layer: nn.Module, inputs: tuple[Tensor, ...], out: Tensor) -> None:
            calls.append(_Call(name, layer, inputs[0], out))

        return record

    for name, layer in model.network.named_modules():
        if name in owners:
            hooks.append(layer.register_forward_hook(hook(name)))
    if model.architecture == "bert":
        hooks.append(model.network.bert.encoder.layer[-1].attention.output.register_forward_pre_hook(_first_tokens))
    try:
        yield calls
    finally:
        for handle in hooks:
            handle.remove()


def _first_tokens(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Keep only the first token after the last attention of a BERT, because the pooler reads no other token."""
    return tuple(tensor[:, :1] for tensor in inputs)


def _of_layer(
    call: _Call, back: Tensor | None, place: dict[str, int], vector: Sequence[Tensor]
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield, for each sent tensor of a layer, its name, inner products [B] with a vector and squared lengths [B]."""
    if back is None:  # the loss does not depend on this call
        return
    back = _by_tokens(back)
    weight, bias = f"{call.name}.weight", f"{call.name}.bias"
    if weight in place:
        yield weight, *_of_weight(call, back, vector[place[weight]])
    if bias in place:
        yield bias, *_of_vector(back.sum(1), vector[place[bias]])


def _of_weight(call: _Call, back: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if isinstance(call.layer, nn.LayerNorm):
        return _of_vector((back * _normed(call, back)).sum(1), target)
    if isinstance(call.layer, nn.Embedding):
        rows = call.into.expand(len(back), -1)
        same = rows[:, :, None] == rows[:, None, :]
        wide = _wide(back)
        square = (wide @ wide.transpose(1, 2) * same).sum((1, 2)).to(back.dtype)
        return (back * target[rows]).sum((1, 2)), square
    if type(call.layer).__name__ == "Conv1D":  # GPT-2's dense layer, whose weight is [inputs, outputs]
        target = target.T
    elif not isinstance(call.layer, nn.Linear):
        raise UserError(
            f"the layer {call.name} is a {type(call.layer).__name__}, which is not supported; give a BERT or a GPT-2 "
            "of transformers",
            "EPS-T019",
        )
    into = _by_tokens(call.into)
    live = back.detach().any(2).any(0)  # after GPT-2's last attention only the last token has a gradient
    if not live.all():
        back, into = back[:, live], into[:, live]
    inner, square = _Outer.apply(back, into, target)
    return inner, square


class _Outer(torch.autograd.Function):
    """<G, Y> and |G|^2 for a dense layer's weight, with their derivatives in closed form.

    One node replaces about twenty nodes of autograd, which would take longer than the arithmetic for short texts.
    """

    @staticmethod
    def forward(ctx: Any, back: Tensor, into: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return <G, Y> [B] and |G|^2 [B]. `back` is [B, T, m], `into` is [B, T, n], and `target` is Y [m, n]."""
        read = into @ target.T
        of_back, of_into = (factor @ factor.transpose(1, 2) for factor in (_wide(back), _wide(into)))
        square = (of_back * of_into).sum((1, 2)).to(back.dtype)
        ctx.save_for_backward(back, into, of_back.to(back.dtype), of_into.to(back.dtype), target, read)
        return (back * read).sum((1, 2)), square

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor, None]:
        """Return the derivatives of sum(results * slopes) with respect to `back` and `into`; each slope is [B]."""
        back, into, of_back, of_into, target, read = ctx.saved_tensors
        inner, square = (slope[:, None, None] for slope in slopes)
        by_back = (2 * square * of_into) @ back + inner * read
        by_into = (2 * square * of_back) @ into + (inner * back) @ target
        return by_back, by_into, None


def _wide(rows: Tensor) -> Tensor:
    """Return rows [B, T, numbers], in float64 if B is 1.

    A single row may contain several texts (`_joined`), whose gradients may nearly cancel.
    """
    return rows.double() if len(rows) == 1 else rows


def _of_vector(gradient: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the inner products [B] and squared lengths [B] for gradients [B, numbers] of a vector parameter."""
    return gradient @ target, (gradient**2).sum(1)
