"""The papers' examples: their sentences under each mechanism, rewritten here.

    1-Diffractor (IWSPA 2024), table 6: a sentence of SST-2 in every list setting at .1, 1 and 3; table 7: another under
    six mechanisms at .1, 1, 10 and 50. Vectors are of the sources given, whose shared words are the vocabulary.
    PrivRewrite (Applied Sciences 15(22) 11930), table 2: the start of answers of MedQuAD under `em`, `naive` and `full`
    at the largest epsilon of the page on its phases. Beside them how often no candidate is coherent, over so many
    answers: then `full` releases the sanitised text, and with `fallback: abstain` nothing.

All texts are public. One draw a cell; what such tables show of a mechanism is how it reads, not how it does.

usage: python -m benchmarks.examples --vectors SOURCE... --answers FILE [--count N]
       vectors: files of word vectors, or transformers by id or folder
       answers: Parquet with the columns `text` and `split`
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.privrewrite import EPSILONS as BUDGETS
from benchmarks.privrewrite import LONGEST, K, read
from benchmarks.shared.pages import RESULTS, cell, head, table, write
from benchmarks.shared.word_lists import Resources, save
from epsilometer.auditing.estimation.successes import clopper_pearson
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.selection.privrewrite import SANITISED, PrivRewrite
from epsilometer.models.embedded import seq2seq

FOLDER = RESULTS / "examples"
OF_SETTINGS = "a delectable and intriguing thriller filled with surprises , read my lips is an original ."
OF_MECHANISMS = "this one is definitely one to skip , even for horror movie fanatics ."
NOISES = {"1-D geometric": {"noise": "geometric"}, "1-D TEM": {"noise": "tem"}}
OTHERS = {
    "MVC": "mvc",
    "truncated Gumbel": "truncated_gumbel",
    "Vickrey": "vickrey",
    "TEM": "tem",
    "Mahalanobis": "mahalanobis",
}
SHOWN, WORDS = 3, 40  # answers of MedQuAD, and how much of each rewrite is shown
ALPHA = 0.01


def settings(resources: Resources) -> Iterator[str]:
    """Table 6: a row a noise, list setting and epsilon."""
    for name, of in NOISES.items():
        for setting in resources.used:
            built = resources.mechanism("diffractor", of, setting)
            for epsilon in (0.1, 1.0, 3.0):
                (text,) = built.rewrite(
                    [OF_SETTINGS], epsilon, Noise.named(1, "settings", name, setting, epsilon)
                ).texts
                yield f"| {name} | {setting} | {epsilon:g} | {cell(text)} |"


def mechanisms(resources: Resources) -> Iterator[str]:
    """Table 7: a row a mechanism and epsilon, 1-Diffractor with lists L0."""
    every = {name: resources.mechanism("diffractor", noise) for name, noise in NOISES.items()}
    every |= {name: resources.mechanism(module, {}) for name, module in OTHERS.items()}
    for name, built in every.items():
        for epsilon in (0.1, 1.0, 10.0, 50.0):
            (text,) = built.rewrite([OF_MECHANISMS], epsilon, Noise.named(1, "mechanisms", name, epsilon)).texts
            yield f"| {name} | {epsilon:g} | {cell(text)} |"


def answers(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Table 2: a row an answer and variant; and a row an epsilon of how often no candidate is coherent."""
    naive, full = (
        PrivRewrite(resource=seq2seq(), max_new_tokens=LONGEST, k=K, variant=variant) for variant in ("naive", "full")
    )
    rows, shares = [], []
    for epsilon in BUDGETS:
        noise = Noise.named(len(texts), "answers", epsilon)
        chosen = full.rewrite(texts, epsilon, noise)
        assert chosen.units is not None
        fallen = sum(int(chosen.units.row(i)[-1]) == SANITISED for i in range(len(texts)))
        low, high = clopper_pearson(fallen, len(texts), ALPHA)
        shares.append(f"| {epsilon} | {fallen / len(texts):.1%} | {low:.1%} to {high:.1%} | {len(texts)} |")
    shown, noise = texts[:SHOWN], Noise.named(SHOWN, "answers", BUDGETS[-1])
    released = {
        "em": full.sanitiser.rewrite(shown, BUDGETS[-1], noise),
        "naive": naive.rewrite(shown, BUDGETS[-1], noise),
        "full": full.rewrite(shown, BUDGETS[-1], noise),
    }
    for number, text in enumerate(shown):
        by_name = {"the answer": text} | {name: rewrites.texts[number] for name, rewrites in released.items()}
        rows += [f"| {name} | {cell(' '.join(of.split()[:WORDS]))} |" for name, of in by_name.items()]
    return rows, shares


def main(arguments: Sequence[str]) -> None:
    """Write results/examples."""
    parser = ArgumentParser(prog="python -m benchmarks.examples", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--vectors", metavar="SOURCE", nargs="+", required=True)
    parser.add_argument("--answers", metavar="FILE", type=Path, required=True)
    parser.add_argument("--count", metavar="N", type=int, default=30, help="answers that are rewritten")
    options = parser.parse_args(arguments)
    texts = read(options.answers, options.count)
    with TemporaryDirectory() as folder:
        resources = save(options.vectors, Path(folder))
        of_settings, of_mechanisms = [*settings(resources)], [*mechanisms(resources)]
    rows, shares = answers(texts)
    vectors = ", ".join(Path(source).stem for source in options.vectors)
    lines = [
        *head("Texts beside each other, after the papers' examples", "examples", f"The words that {vectors} share."),
        *table(
            "1-Diffractor's list settings (table 6)",
            f"“{OF_SETTINGS}”",
            "| noise | lists | epsilon | rewrite |",
            of_settings,
        ),
        *table(
            "Word mechanisms (table 7)",
            f"“{OF_MECHANISMS}” 1-Diffractor has lists L0.",
            "| mechanism | epsilon | rewrite |",
            of_mechanisms,
        ),
        *table(
            "PrivRewrite (table 2)",
            f"At {BUDGETS[-1]}, the first {WORDS} words of each.",
            "| text | first words |",
            rows,
        ),
        *table(
            "How often no candidate is coherent",
            f"The share of answers for which PrivRewrite falls back, with its {1 - ALPHA:.0%} interval.",
            "| epsilon | falls back | interval | answers |",
            shares,
        ),
    ]
    write(lines, FOLDER)


if __name__ == "__main__":
    main(sys.argv[1:])
