"""dpmlm 1.3.0 releases some words unchanged, at any epsilon. Needs only dpmlm, torch, transformers and nltk.

The claim is epsilon per word, for any two words at a position (Meisenbacher et al., Findings of ACL 2024). The model is
a small random BERT, since the claim covers every model, and the logits have no influence on these cases.

1. In a long text, the window may begin within a word. Decoding the window and encoding it again then makes it longer,
   truncation drops the mask at its end, and `privatize` returns the word itself. Two texts that differ in their last
   word have no output in common at this position.
2. A stop word stays unchanged by default, and "cat" becomes "the" with probability at most e^(epsilon / 2) / V.
3. A capital letter at the start stays.

Prints a JSON object: claimed and attained nats, and counts of draws.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from pathlib import Path

EPSILON, DRAWS = 1.0, 200
LETTERS = "abcdefghijklmnopqrstuvwxyz"
STOPS = ["the", "of", "and"]


def model(folder: Path) -> None:
    """Save a WordPiece tokeniser that has ##abcdef only inside words, with windows of 64 pieces, and a random BERT."""
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "#", "ann", "bob", "cat", "the", "##abcdef"]
    pieces += [*LETTERS, *("##" + letter for letter in LETTERS)]
    (folder / "vocab.txt").write_text("\n".join(pieces))
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertForMaskedLM(BertConfig(vocab_size=len(pieces), max_position_embeddings=64, **sizes)).save_pretrained(folder)


def main() -> dict[str, object]:
    """Run the three cases, and return claimed and attained nats and counts of draws."""
    folder = Path(tempfile.mkdtemp())
    (folder / "nltk_data/corpora/stopwords").mkdir(parents=True)
    (folder / "nltk_data/corpora/stopwords/english").write_text("\n".join(STOPS))
    os.environ["NLTK_DATA"] = str(folder / "nltk_data")
    import nltk

    nltk.data.path.insert(0, str(folder / "nltk_data"))
    nltk.word_tokenize = str.split  # the original needs a download
    import numpy as np
    import torch

    np.random.seed(0)  # noqa: NPY002 - the package uses this generator
    torch.manual_seed(0)
    model(folder)
    from dpmlm import DPMLM

    rewriter = DPMLM(MODEL=str(folder), calibration={"clip_min": -1.0, "clip_max": 1.0, "sensitivity": 2.0})
    long = ["xabcdef"] * 40
    last = {
        word: [rewriter.privatize([*long, word], word, 40, epsilon=EPSILON)[f"{word}_40"] for _ in range(DRAWS)]
        for word in ("ann", "bob")
    }
    cased = {word: [rewriter.dpmlm_rewrite(word, EPSILON)[0] for _ in range(DRAWS)] for word in ("Bob", "bob")}
    same = [rewriter.dpmlm_rewrite("the", EPSILON)[0] for _ in range(DRAWS)]
    other = [rewriter.dpmlm_rewrite("cat", EPSILON)[0] for _ in range(DRAWS)]
    most = math.exp(EPSILON / 2) / len(rewriter.tokenizer)  # largest P(piece) by the exponential mechanism
    return {
        "claimed": EPSILON,
        "long_text": {word: words.count(word) for word, words in last.items()},
        "capital": {word: sum(text[:1].isupper() for text in texts) for word, texts in cased.items()},
        "stop_word": [same.count("the"), other.count("the")],
        "attained_stop_word": math.log(1 / most),
        "draws": DRAWS,
        "without_epsilometer": "epsilometer" not in sys.modules,
    }


if __name__ == "__main__":
    print(json.dumps(main()))
