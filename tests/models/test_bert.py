"""The number type that networks compute in."""

from __future__ import annotations

import pytest
import torch

from epsilometer.models.bert import number_type


@pytest.mark.parametrize(("capability", "expected"), [((7, 5), torch.float32), ((8, 0), torch.bfloat16)])
def test_auto_is_bfloat16_only_where_a_gpu_multiplies_it_natively(monkeypatch, capability, expected) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert number_type("auto", "cuda") is expected
