"""Small randomly initialised models of real architectures, saved on disk, to test the real loading code."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

WORDS = ["document", "paraphrase", "of", "the", ":", "a", "b", "c", "d", "e", "f", "g", "h", ">>>>>"]
SPECIAL = ["<pad>", "</s>", "<unk>"]
SIZE = len(SPECIAL) + len(WORDS)
_WIDTH = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
CHAT = "{% for m in messages %}<user>{{ m.content }}{% endfor %}<reply>"


def save_tokenizer(folder: Path, closes: bool, chat: str | None = None) -> None:
    """Save a tokeniser with a token per lower-case word. closes: whether every text ends with </s>."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *WORDS])}
    pieces = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    pieces.normalizer = normalizers.Lowercase()
    pieces.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if closes:
        pieces.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=pieces, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=64
    )
    tokenizer.chat_template = chat
    tokenizer.save_pretrained(folder)


def _enlarge(model: Any) -> None:
    """Set weights slightly larger than usual, so that the next token depends on the tokens before."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.3)


def _save(model: Any, folder: Path, **tokenizer: Any) -> Path:
    _enlarge(model)
    model.save_pretrained(folder)
    save_tokenizer(folder, **tokenizer)
    return folder


def save_gpt2(folder: Path, chat: str | None = None, positions: int = 64) -> Path:
    """Save a decoder-only model."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=SIZE, n_embd=32, n_layer=2, n_head=2, n_positions=positions, bos_token_id=1, eos_token_id=1,
        pad_token_id=0,
    )  # fmt: skip
    # Like many tokenisers, this one ends texts with </s>, which the loader must remove from the prompt.
    return _save(GPT2LMHeadModel(config).eval(), folder, closes=True, chat=chat)


def save_qwen(folder: Path) -> Path:
    """Save a decoder-only model with rotary positions, grouped keys and a chat template."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(2)
    config = Qwen3Config(
        vocab_size=SIZE, num_key_value_heads=1, head_dim=16, max_position_embeddings=64, eos_token_id=1, pad_token_id=0,
        tie_word_embeddings=True, **_WIDTH,
    )  # fmt: skip
    return _save(Qwen3ForCausalLM(config).eval(), folder, closes=False, chat=CHAT)


def save_t5(folder: Path) -> Path:
    """Save an encoder-decoder with relative positions, and more vocabulary entries than the tokeniser has."""
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(3)
    config = T5Config(
        vocab_size=SIZE + 3, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, decoder_start_token_id=0,
        eos_token_id=1, pad_token_id=0, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
    )  # fmt: skip
    return _save(T5ForConditionalGeneration(config).eval(), folder, closes=True)


def save_bart(folder: Path) -> Path:
    """Save an encoder-decoder with learned positions and a bias on the logits."""
    from transformers import BartConfig, BartForConditionalGeneration

    torch.manual_seed(4)
    config = BartConfig(
        vocab_size=SIZE, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64, pad_token_id=0,
        bos_token_id=1, eos_token_id=1, decoder_start_token_id=1, forced_eos_token_id=None,
    )  # fmt: skip
    model = BartForConditionalGeneration(config).eval()
    model.final_logits_bias.normal_()
    return _save(model, folder, closes=True)


def save_marian(folder: Path, seed: int = 6) -> Path:
    """Save a translation model with a SentencePiece model for each language, and one vocabulary."""
    import json

    import sentencepiece
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "corpus.txt").write_text("\n".join(f"{a} {b} the of." for a in WORDS[5:13] for b in WORDS[5:13]))
    for side in ("source", "target"):
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "corpus.txt"), model_prefix=str(folder / side), vocab_size=24, model_type="bpe",
            minloglevel=2,
        )  # fmt: skip
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
        (folder / f"{side}.vocab").unlink()
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    names = [pieces.IdToPiece(i) for i in range(pieces.GetPieceSize())]
    names = ["</s>", "<unk>", *(name for name in names if name not in ("<s>", "</s>", "<unk>")), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    pad = len(names) - 1
    torch.manual_seed(seed)
    config = MarianConfig(
        vocab_size=len(names), d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64, pad_token_id=pad,
        eos_token_id=0, bos_token_id=0, decoder_start_token_id=pad, forced_eos_token_id=None, scale_embedding=True,
    )  # fmt: skip
    model = MarianMTModel(config).eval()
    _enlarge(model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "encoder_attn" in name:  # so that the output depends on the input
                parameter.mul_(3)
    model.final_logits_bias.normal_()
    model.save_pretrained(folder)
    files = (str(folder / name) for name in ("source.spm", "target.spm", "vocab.json"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
        MarianTokenizer(*files, model_max_length=64).save_pretrained(folder)
    return folder


def save_bert(folder: Path) -> Path:
    """Save a masked language model, which generators must refuse."""
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(5)
    return _save(BertForMaskedLM(BertConfig(vocab_size=SIZE, **_WIDTH)), folder, closes=True)


def save_roberta(
    folder: Path, texts: Sequence[str] = ("a b c d e f g h", "the document of a"), head: bool = True
) -> Path:
    """Save a random RoBERTa with byte-level BPE. Its tokeniser states no maximum length; the model has 58 positions.

    Attention heads have 16 dimensions. With fewer, unlike in real models, rows are aligned differently in memory and
    their results differ.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM, RobertaModel

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=330,
            special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    bpe.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", pad_token="<pad>",
        unk_token="<unk>",
    )  # fmt: skip
    tokenizer.add_special_tokens({"mask_token": AddedToken("<mask>", lstrip=True)})
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=60, pad_token_id=1, initializer_range=0.5,
    )  # fmt: skip
    (RobertaForMaskedLM if head else RobertaModel)(config).save_pretrained(folder)
    return folder


def save_llama(folder: Path) -> Path:
    """Save a decoder-only model of Llama's architecture, with rotary positions and grouped keys."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=SIZE, num_key_value_heads=1, max_position_embeddings=64, eos_token_id=1, pad_token_id=0,
        bos_token_id=1, **_WIDTH,
    )  # fmt: skip
    return _save(LlamaForCausalLM(config).eval(), folder, closes=False, chat=CHAT)


def save_mpnet(folder: Path) -> Path:
    """Save an MPNet sentence encoder (relative positions, mean pooling) as a folder of sentence-transformers."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import MPNetConfig, MPNetModel

    torch.manual_seed(8)
    config = MPNetConfig(vocab_size=SIZE, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, **_WIDTH)
    _save(MPNetModel(config).eval(), folder / "plain", closes=True)
    modules = [Transformer(str(folder / "plain")), Pooling(config.hidden_size)]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder / "sentences"))
    return folder / "sentences"


SAVE = {"gpt2": save_gpt2, "qwen": save_qwen, "t5": save_t5, "bart": save_bart}


def save_word_bert(folder: Path, words: Sequence[str], **sizes: int) -> Path:
    """Save a small BERT whose tokens are these words. A text is lower-cased and put between [CLS] and [SEP].

    sizes: settings of the config that differ from the defaults here.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    pieces = Tokenizer(models.WordLevel({w: i for i, w in enumerate([*special, *words])}, unk_token="[UNK]"))
    pieces.normalizer = normalizers.Lowercase()
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("[CLS]", 1), ("[SEP]", 2)]
    pieces.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = dict(zip(("pad_token", "cls_token", "sep_token", "unk_token"), special, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=pieces, model_max_length=64, **names).save_pretrained(folder)
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, **sizes}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        size = len(special) + len(words)
        BertModel(BertConfig(vocab_size=size, max_position_embeddings=64, **shape)).save_pretrained(folder)
    return folder


def save_static(folder: Path, words: Sequence[str]) -> Path:
    """Save a sentence encoder of token vectors in Model2Vec's format: a token per word, 4 dimensions."""
    import json

    import numpy as np
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder.mkdir()
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys(["<unk>", *words]))}
    pieces = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    pieces.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    pieces.save(str(folder / "tokenizer.json"))
    vectors = np.random.default_rng(0).normal(size=(len(vocabulary), 4)).astype(np.float32)
    save_file({"embeddings": vectors}, folder / "model.safetensors")
    modules = [{"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"}]
    for name, content in (("config.json", {"model_type": "model2vec"}), ("modules.json", modules)):
        (folder / name).write_text(json.dumps(content))
    return folder
