"""Products of dense layers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from epsilometer.models.dense import linear, multiply_by_onednn


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3, 384), (256, 384), (2, 7, 384)])
def test_it_multiplies_as_float64_does(shape: tuple[int, ...], bias: bool) -> None:
    rows, weight, added = numbers(*shape), numbers(1536, 384, seed=1), numbers(1536, seed=2) if bias else None
    with torch.inference_mode():
        product = linear(rows, weight, added)
    exact = rows.double() @ weight.double().T + (0 if added is None else added.double())
    assert product.shape == (*shape[:-1], 1536)
    assert float((product - exact).abs().max()) < 1e-3, "sums of 384 products of about one; bfloat16 is off by .1"


@pytest.mark.parametrize("count", [8, 64, 256])
def test_a_row_depends_on_no_other_row(count: int) -> None:
    weight, bias = numbers(1152, 384, seed=1), numbers(1152, seed=2)
    some, others = numbers(count, 384), numbers(count, 384, seed=3)
    others[5] = some[2]
    with torch.inference_mode():
        assert torch.equal(linear(some, weight, bias)[2], linear(others, weight, bias)[5])


def test_a_network_trains_as_before() -> None:
    plain = nn.Sequential(nn.Linear(20, 30), nn.GELU(), nn.Linear(30, 1))
    ours = nn.Sequential(nn.Linear(20, 30), nn.GELU(), nn.Linear(30, 1))
    ours.load_state_dict(plain.state_dict())
    multiply_by_onednn(ours)
    rows = numbers(8, 20)
    for network in (plain, ours):
        network(rows).square().sum().backward()
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(plain.parameters(), ours.parameters(), strict=True))
    with torch.no_grad():
        before = ours(rows)
        for weight in ours.parameters():
            weight.zero_()
        assert before.abs().sum() > 0
        assert ours(rows).abs().sum() == 0, "no copy of the weights is left"


def test_where_torch_casts_it_casts_here_too() -> None:
    network = nn.Sequential(nn.Linear(20, 30))
    multiply_by_onednn(network)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert network(numbers(8, 20)).dtype == torch.bfloat16
