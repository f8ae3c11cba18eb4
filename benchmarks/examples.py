"""Examples of papers: their sentences, rewritten here by each mechanism.

    1-Diffractor (IWSPA 2024): table 6 shows a sentence of SST-2 in every list setting at epsilon .1, 1 and 3; table 7
    shows another under six mechanisms at .1, 1, 10 and 50. Word vectors come from the given sources, and the vocabulary
    is their shared words.

    PrivRewrite (Applied Sciences 15(22) 11930): table 2 shows the start of answers of MedQuAD under `em`, `naive` and
    `full` at the largest epsilon of `benchmarks.privrewrite`. Another table shows how often no candidate is coherent.
    Then `full` releases the sanitised text, and an empty text with `fallback: abstain`.

All texts are public. Each cell is a single sample, so the tables show the style of rewrites, and measure nothing.

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
SHOWN, WORDS = 3, 40  # number of answers of MedQuAD shown, and of words of each rewrite
ALPHA = 0.01


def settings(resources: Resources) -> Iterator[str]:
    """Yield the rows of table 6, one per noise, list setting and epsilon."""
    for name, of in NOISES.items():
        for setting in resources.used:
            built = resources.mechanism("diffractor", of, setting)
            for epsilon in (0.1, 1.0, 3.0):
                (text,) = built.rewrite(
                    [OF_SETTINGS], epsilon, Noise.named(1, "settings", name, setting, epsilon)
                ).texts
                yield f"| {name} | {setting} | {epsilon:g} | {cell(text)} |"


def mechanisms(resources: Resources) -> Iterator[str]:
    """Yield the rows of table 7, one per mechanism and epsilon; 1-Diffractor uses lists L0."""
    every = {name: resources.mechanism("diffractor", noise) for name, noise in NOISES.items()}
    every |= {name: resources.mechanism(module, {}) for name, module in OTHERS.items()}
    for name, built in every.items():
        for epsilon in (0.1, 1.0, 10.0, 50.0):
            (text,) = built.rewrite([OF_MECHANISMS], epsilon, Noise.named(1, "mechanisms", name, epsilon)).texts
            yield f"| {name} | {epsilon:g} | {cell(text)} |"


def answers(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the rows of table 2, one per answer and variant, and the rows on coherence, one per epsilon."""
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
    parser.add_argument("--count", metavar="N", type=int, default=30, help="number of answers to rewrite")
    options = parser.parse_args(arguments)
    texts = read(options.answers, options.count)
    with TemporaryDirectory() as folder:
        resources = save(options.vectors, Path(folder))
        of_settings, of_mechanisms = [*settings(resources)], [*mechanisms(resources)]
    rows, shares = answers(texts)
    vectors = ", ".join(Path(source).stem for source in options.vectors)
    lines = [
        *head("Rewrites of the papers' examples", "examples", f"The vocabulary is the words that {vectors} share."),
        *table(
            "1-Diffractor's list settings (table 6)",
            f"“{OF_SETTINGS}”",
            "| noise | lists | epsilon | rewrite |",
            of_settings,
        ),
        *table(
            "Word mechanisms (table 7)",
            f"“{OF_MECHANISMS}” 1-Diffractor uses lists L0.",
            "| mechanism | epsilon | rewrite |",
            of_mechanisms,
        ),
        *table(
            "PrivRewrite (table 2)",
            f"At epsilon {BUDGETS[-1]}, the first {WORDS} words of each text.",
            "| text | first words |",
            rows,
        ),
        *table(
            "How often no candidate is coherent",
            f"Share of answers for which PrivRewrite uses its fallback, with a {1 - ALPHA:.0%} interval.",
            "| epsilon | falls back | interval | answers |",
            shares,
        ),
    ]
    write(lines, FOLDER)


if __name__ == "__main__":
    main(sys.argv[1:])
