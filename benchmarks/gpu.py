"""Texts or prompts per second for models of published shapes with random weights, and the share of the device's peak.

The models are DP-MLM on RoBERTa-base, DP-Prompt on FLAN-T5-base, DP-BART on BART-base, and a judge of Qwen3-8B's shape
with prompts of 512 tokens. Weights and tokenisers are generated, saved and loaded like those of any model; only the
judge's weights are never saved. The peak is the speed of one large matrix product. Operations are two per token and
weight outside of embeddings, plus those of the vocabulary head. For DP-Prompt, the report also states the share of
tokens that change if batches have half as many rows, since kernels differ by shape on a GPU.

usage: python -m benchmarks.gpu [--small] [--device cpu|cuda|auto]
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.judge import config, questions, save
from epsilometer.attacks.identification.shared.judge_model import JudgeModel
from epsilometer.attacks.identification.shared.judge_prompt import Question
from epsilometer.core.device import choose
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.latents.dp_bart import DPBART
from epsilometer.mechanisms.tokens.dp_mlm import DPMLM
from epsilometer.mechanisms.tokens.dp_prompt import DPPrompt
from epsilometer.models.devices import described, resolved
from epsilometer.models.generation import shape_of
from epsilometer.models.locate import quiet_loading
from epsilometer.models.memory import Memory

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
WORDS_A_TEXT, NEW = 20, 32
PROMPT = 512  # tokens of a judge's prompt
CLIP = (-20.0, 20.0)


@dataclass(frozen=True)
class Size:
    """Sizes of the models, and numbers of texts and prompts."""

    width: int
    layers: int
    heads: int
    entries: dict[str, int]
    texts: int
    prompts: int
    judge: dict[str, int]


QWEN3_8B = {"hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
            "head_dim": 128, "intermediate_size": 12288}  # fmt: skip
BASE = Size(768, 12, 12, {"roberta": 50_265, "t5": 32_128, "bart": 50_265}, 2_000, 512, QWEN3_8B)
SMALL_JUDGE = QWEN3_8B | {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
                          "head_dim": 32, "intermediate_size": 128}  # fmt: skip
SMALL = Size(32, 2, 2, dict.fromkeys(BASE.entries, 200), 8, 2, SMALL_JUDGE)


@dataclass(frozen=True)
class Row:
    """Measurements of one model: units per second, operations per second, and peak memory in bytes."""

    name: str
    unit: str
    speed: float
    operations: float
    memory: int


def word(number: int) -> str:
    """Return a word of four letters for a number."""
    return "".join(chr(97 + number // 26**place % 26) for place in range(4))


def save_tokenizer(folder: Path, entries: int) -> None:
    """Save a tokeniser with one token per word, and special tokens <s> and </s> as in RoBERTa."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {name: i for i, name in enumerate([*SPECIAL, *map(word, range(entries - len(SPECIAL)))])}
    pieces = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    pieces.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    pieces.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=pieces, bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>",
        mask_token="<mask>", model_max_length=512,
    ).save_pretrained(folder)  # fmt: skip


def configs(size: Size) -> dict[str, Any]:
    """Return the configurations of RoBERTa, FLAN-T5 and BART."""
    import transformers

    inner = {"roberta": 4 * size.width, "t5": 8 * size.width // 3, "bart": 4 * size.width}
    special = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    side = {"layers": size.layers // 2, "attention_heads": size.heads, "ffn_dim": inner["bart"]}
    return {
        "roberta": transformers.RobertaConfig(
            vocab_size=size.entries["roberta"], hidden_size=size.width, num_hidden_layers=size.layers,
            num_attention_heads=size.heads, intermediate_size=inner["roberta"], max_position_embeddings=514,
            type_vocab_size=1, **special,
        ),
        "t5": transformers.T5Config(
            vocab_size=size.entries["t5"], d_model=size.width, d_kv=size.width // size.heads, d_ff=inner["t5"],
            num_layers=size.layers, num_heads=size.heads, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
            decoder_start_token_id=1, **special,
        ),
        "bart": transformers.BartConfig(
            vocab_size=size.entries["bart"], d_model=size.width, decoder_start_token_id=2, forced_eos_token_id=None,
            **{f"{part}_{name}": value for part in ("encoder", "decoder") for name, value in side.items()}, **special,
        ),
    }  # fmt: skip


def save_models(folder: Path, size: Size) -> None:
    """Write the folders roberta, t5 and bart with random weights."""
    import transformers

    kinds = {
        "roberta": transformers.RobertaForMaskedLM,
        "t5": transformers.T5ForConditionalGeneration,
        "bart": transformers.BartForConditionalGeneration,
    }
    torch.manual_seed(0)
    for name, settings in configs(size).items():
        with quiet_loading():
            kinds[name](settings).save_pretrained(folder / name)
        save_tokenizer(folder / name, size.entries[name])


def texts(count: int, entries: int) -> list[str]:
    """Return random texts of `WORDS_A_TEXT` words."""
    numbers = np.random.default_rng(0).integers(0, entries - len(SPECIAL), (count, WORDS_A_TEXT))
    return [" ".join(map(word, row)) for row in numbers.tolist()]


def weights(network: Any, *parts: str) -> int:
    """Return the number of weights in these parts, without embeddings and vocabulary heads."""
    left_out = ("embed", "shared", "lm_head")
    return sum(
        parameter.numel()
        for name, parameter in network.named_parameters()
        if any(part in name for part in parts) and not any(name_left_out in name for name_left_out in left_out)
    )


def timed(work: Callable[[], Any], device: str) -> tuple[float, int]:
    """Return the seconds that `work` takes, and peak memory in bytes: of the device, or of this process so far."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter() - start, torch.cuda.max_memory_allocated()
    return time.perf_counter() - start, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def peak(device: str) -> float:
    """Return the operations per second of one large matrix product: bfloat16 on a GPU, float32 on the CPU."""
    side, kind = (8192, torch.bfloat16) if device == "cuda" else (1024, torch.float32)
    a, b = (torch.randn(side, side, device=device, dtype=kind) for _ in range(2))
    for _ in range(3):
        a @ b
    seconds, _ = timed(lambda: [a @ b for _ in range(20)], device)
    return 20 * 2 * side**3 / seconds


def masked(folder: Path, size: Size, device: str) -> Row:
    """Measure DP-MLM, which samples every word of a text once."""
    mechanism = DPMLM(resource=folder / "roberta", clip=CLIP, precision="auto")
    sources = texts(size.texts // 4, size.entries["roberta"])
    mechanism.rewrite(sources[:2], 50.0, Noise.named(2, "warm"))
    seconds, memory = timed(lambda: mechanism.rewrite(sources, 50.0, Noise.named(len(sources), "gpu")), device)
    network = mechanism._model._model._model  # type: ignore[union-attr]
    inputs = len(sources) * WORDS_A_TEXT
    read = inputs * (2 * WORDS_A_TEXT + 4)
    operations = 2 * weights(network, "encoder") * read + 2 * inputs * size.width * size.entries["roberta"]
    return Row("DP-MLM, RoBERTa-base", "texts", len(sources) / seconds, operations / seconds, memory)


def prompted(folder: Path, size: Size, device: str) -> tuple[Row, float]:
    """Measure DP-Prompt, and the share of tokens that change if batches have half as many rows."""
    mechanism = DPPrompt(resource=folder / "t5", clip=CLIP, precision="auto", max_new_tokens=NEW)
    sources = texts(size.texts, size.entries["t5"])
    mechanism.rewrite(sources[:2], 100.0, Noise.named(2, "warm"))
    rewrites: list[Any] = []
    seconds, memory = timed(
        lambda: rewrites.append(mechanism.rewrite(sources, 100.0, Noise.named(len(sources), "gpu"))), device
    )
    model = mechanism.model
    units = rewrites[0].units
    framed = mechanism.framed(sources)
    read = sum(map(len, framed))
    body = weights(model.network, "encoder.") * read + weights(model.network, "decoder.") * len(units.values)
    operations = 2 * (body + size.width * len(model.outputs) * len(units.values))
    whole = shape_of(model, max(map(len, framed)), NEW).rows
    model.memory = Memory(device, "t5", model.row_bytes(max(map(len, framed)), NEW) * whole // 2)
    again = mechanism.rewrite(sources, 100.0, Noise.named(len(sources), "gpu")).units
    assert again is not None
    pairs = [(units.row(i), again.row(i)) for i in range(len(sources))]
    same = sum(int((a[: len(b)] == b[: len(a)]).sum()) for a, b in pairs)
    row = Row("DP-Prompt, FLAN-T5-base", "texts", len(sources) / seconds, operations / seconds, memory)
    return row, 1 - same / max(1, sum(max(len(a), len(b)) for a, b in pairs))


def with_latents(folder: Path, size: Size, device: str) -> Row:
    """Measure DP-BART with beam search."""
    mechanism = DPBART(resource=folder / "bart", precision="auto")
    sources = texts(size.texts // 2, size.entries["bart"])
    mechanism.rewrite(sources[:2], 500.0, Noise.named(2, "warm"))
    seconds, memory = timed(lambda: mechanism.rewrite(sources, 500.0, Noise.named(len(sources), "gpu")), device)
    network, beams, length = mechanism._model.network, 3, mechanism.length
    new = len(sources) * beams * length
    body = weights(network, "encoder.") * len(sources) * length + weights(network, "decoder.") * new
    operations = 2 * (body + size.width * size.entries["bart"] * new)
    return Row("DP-BART, BART-base", "texts", len(sources) / seconds, operations / seconds, memory)


def judged(folder: Path, size: Size, device: str) -> tuple[Row, float]:
    """Measure the judge with reading: score; return the row and the tokens per prompt.

    Operations on the shared prefix of the prompts are not counted.
    """
    from transformers import AutoModelForCausalLM

    save(folder, SMALL_JUDGE)
    judge = JudgeModel(folder, "auto")
    with torch.device(device), quiet_loading():
        judge._model = AutoModelForCausalLM.from_config(
            config(size.judge, len(judge._tokenizer)), dtype=judge._model.dtype
        ).eval()
    prompts = long_questions(judge, size.prompts)
    judge.scores(prompts[:2])
    read: list[int] = []
    seconds, memory = timed(lambda: read.append(judge.scores(prompts)[1]), device)
    tokens = read[0] / len(prompts)
    own = read[0] - len(prompts) * len(judge._prefix("12"))
    speed = 2 * weights(judge._model, "layers.") * own / seconds
    return Row("judge, Qwen3-8B", "prompts", len(prompts) / seconds, speed, memory), tokens


def long_questions(judge: JudgeModel, count: int) -> list[Question]:
    """Return questions whose prompts have about `PROMPT` tokens, including the shared prefix."""
    short = questions(max(count, 64))

    def joined(first: int, times: int) -> Question:
        some = [short[(first + i) % len(short)] for i in range(times)]
        return " ".join(prompt[0] for prompt in some), [" ".join(prompt[1][slot] for prompt in some) for slot in (0, 1)]

    prefix = len(judge._prefix("12"))
    lengths = [judge.scores([joined(0, times)])[1] - prefix for times in (1, 9)]
    times = 1 + round(max(0, PROMPT - prefix - lengths[0]) / ((lengths[1] - lengths[0]) / 8))
    return [joined(i, times) for i in range(count)]


def measured(size: Size, device: str) -> list[str]:
    """Return the lines of the report."""
    best = peak(device)
    lines = [f"{described()}, one large product: {best / 1e12:.2f} TFLOP/s; {torch.get_num_threads()} threads"]
    with TemporaryDirectory() as name:
        folder = Path(name)
        save_models(folder, size)
        rows = [masked(folder, size, device)]
        row, changed = prompted(folder, size, device)
        rows += [row, with_latents(folder, size, device)]
        row, tokens = judged(folder / "judge", size, device)
        rows.append(row)
    lines.append(f"{'model':26} {'a second':>16} {'TFLOP/s':>8} {'of peak':>7} {'GiB':>6}")
    lines += [
        f"{row.name:26} {row.speed:8.1f} {row.unit:7} {row.operations / 1e12:8.3f} {row.operations / best:7.1%} "
        f"{row.memory / 2**30:6.1f}"
        for row in rows
    ]
    return [*lines, f"judge: {tokens:.0f} tokens a prompt; DP-Prompt: half the rows change {changed:.4%} of the tokens"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one row per model."""
    parser = argparse.ArgumentParser(description="Texts a second for models of published shapes.")
    parser.add_argument("--small", action="store_true", help="tiny shapes and few texts, to see that it runs")
    parser.add_argument("--device", choices=("cpu", "cuda", "auto"), default="auto")
    options = parser.parse_args(arguments)
    choose(options.device)
    print(*measured(SMALL if options.small else BASE, resolved()), sep="\n")


if __name__ == "__main__":
    main()
