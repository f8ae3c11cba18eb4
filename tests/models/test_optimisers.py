"""The optimisers are torch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from epsilometer.models.optimisers import DECAY, optimiser


@pytest.mark.parametrize(
    ("name", "of_torch"),
    [
        ("adamw", lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=DECAY)),
        ("sgd", lambda p: torch.optim.SGD(p, lr=0.01)),
    ],
)
def test_steps_are_those_of_torch(name: str, of_torch: object) -> None:
    """Over more numbers than a block has, and coordinates whose gradient is always zero."""
    rng = np.random.default_rng(0)
    vector = rng.standard_normal(40_000).astype(np.float32)
    theirs = torch.tensor(vector.copy(), requires_grad=True)
    stepper, two = optimiser(name, 0.01), of_torch([theirs])  # type: ignore[arg-type, operator]
    for number in range(1, 21):
        gradient = rng.standard_normal(40_000).astype(np.float32) * np.float32(0.1 * number)
        gradient[:100] = 0
        stepper.step(vector, gradient, number)
        theirs.grad = torch.tensor(gradient)
        two.step()
    assert np.allclose(vector, theirs.detach().numpy(), rtol=3e-7, atol=5e-7)


def test_many_models_are_moved_as_one_by_one() -> None:
    rng = np.random.default_rng(0)
    together = rng.standard_normal((3, 30_000)).astype(np.float32)
    apart = [row.copy() for row in together]
    all_of_them, each = optimiser("adamw", 0.1), [optimiser("adamw", 0.1) for _ in apart]
    for number in (1, 2):
        gradient = rng.standard_normal((3, 30_000)).astype(np.float32)
        all_of_them.step(together, gradient, number)
        for row, own, part in zip(apart, each, gradient, strict=True):
            own.step(row, part, number)
    assert np.array_equal(together, np.array(apart))
