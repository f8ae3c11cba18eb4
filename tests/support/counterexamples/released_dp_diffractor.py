"""dp-diffractor 0.2.1: words of different lists have no output in common. Needs only this package.

The claim is metric differential privacy for words in sorted lists (Meisenbacher et al., IWSPA 2024), with several lists
from several embeddings. A word gets candidates only from the lists that contain it. With the lists w0 to w9 and w10 to
w19, w0 always becomes a word of the first list, and w19 never does. A word in no list is released unchanged.

Prints a JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

EPSILON, DRAWS = 0.01, 100


def main() -> dict[str, object]:
    """Rewrite a word of each list and a word in no list, and count the outputs."""
    folder = Path(tempfile.mkdtemp())
    stopwords = folder / "nltk_data/corpora/stopwords"
    stopwords.mkdir(parents=True)
    (stopwords / "english").write_text("the\n")
    os.environ["HOME"] = str(folder)
    import nltk

    nltk.data.path.insert(0, str(folder / "nltk_data"))
    nltk.word_tokenize = str.split  # the original needs a download
    names = ["glove-twitter-200", "glove-wiki-gigaword-300"]
    cache = folder / ".cache/diffractor"
    cache.mkdir(parents=True)
    for number, name in enumerate(names):
        words = [f"w{i} {i}.0 0.0" for i in range(10 * number, 10 * number + 10)]
        (cache / f"{name}.txt").write_text("\n".join(["10 2", *words]))
    from diffractor import Diffractor, DiffractorConfig

    with Diffractor(DiffractorConfig(epsilon=EPSILON, verbose=False), names) as rewriter:
        outputs = {word: [rewriter.rewrite(word)[0] for _ in range(DRAWS)] for word in ("w0", "w19", "smith")}
    first = {f"w{i}" for i in range(10)}
    return {
        "claimed": EPSILON * 19,
        "in_the_first_list": {word: sum(text in first for text in texts) for word, texts in outputs.items()},
        "unchanged": outputs["smith"].count("smith"),
        "draws": DRAWS,
        "without_epsilometer": "epsilometer" not in sys.modules,
    }


if __name__ == "__main__":
    print(json.dumps(main()))
