"""The benchmark for GPUs, with tiny shapes on the processor."""

from __future__ import annotations

import re

import pytest
import torch

from benchmarks import gpu


@pytest.mark.slow
def test_every_model_has_its_row(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPSILOMETER_DEVICE", "cpu")
    gpu.main(["--small", "--device", "cpu"])
    text = capsys.readouterr().out
    rows = re.findall(r"^(.*) (\d+\.\d) (?:texts|prompts) +\S+ +\d+\.\d% +\d+\.\d$", text, re.MULTILINE)
    assert [name.split(",")[0].strip() for name, _ in rows] == ["DP-MLM", "DP-Prompt", "DP-BART", "judge"]
    assert all(float(speed) > 0 for _, speed in rows)
    tokens, changed = re.findall(r"judge: (\d+) tokens .* change (\S+)% of", text)[0]
    assert abs(int(tokens) - gpu.PROMPT) < 30
    assert float(changed) == 0  # the same bytes on the processor, however many rows fit


@pytest.mark.parametrize(
    ("name", "kind", "millions"),
    [
        ("roberta", "RobertaForMaskedLM", 124.7),
        ("t5", "T5ForConditionalGeneration", 222.9),
        ("bart", "BartForConditionalGeneration", 139.4),
    ],
)
def test_shapes_are_the_published_ones(name: str, kind: str, millions: float) -> None:
    """By the numbers of parameters of roberta-base, flan-t5-base (247.6 with its head) and bart-base."""
    import transformers

    with torch.device("meta"):
        network = getattr(transformers, kind)(gpu.configs(gpu.BASE)[name])
    counts = [
        parameter.numel() for part, parameter in network.named_parameters() if part != "lm_head.weight"
    ]  # this weight is tied in two of the models
    assert sum(counts) / 1e6 == pytest.approx(millions, abs=0.1)


def test_the_judge_has_the_published_shape() -> None:
    """8.19 billion parameters, 6.95 of them in layers (Qwen3-8B's model card: 8.2 and 6.95)."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        network = AutoModelForCausalLM.from_config(gpu.config(gpu.QWEN3_8B, 151_936))
    assert sum(parameter.numel() for parameter in network.parameters()) / 1e9 == pytest.approx(8.19, abs=0.01)
    assert gpu.weights(network, "layers.") / 1e9 == pytest.approx(6.95, abs=0.01)
