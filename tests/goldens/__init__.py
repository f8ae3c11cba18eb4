"""Frozen results, for commits that must not change any.

Frozen are:

guesses_coin, guesses_tem, guesses_plain
    Mechanisms with a law on a grid, with a general law, and without a law. Frozen are the slots, scores and posteriors
    of every trial, at two epsilons and two seeds. The trials are those of an audit with sets of two texts, one with
    sets of all texts, an audit of units, an audit of the worst pair, gates, a calibration and a comparison. The attacks
    are lexical, length and, if a law is stated, likelihood (except on the units of a law on a grid). Calibrations and
    comparisons use all default attacks.
guesses_project
    The same three mechanisms in a project: an audit and a re-audit in the next round.
studies_*
    A small profile of each study: every file that its stages write, Parquet and NumPy files by value, and all guesses
    of sources. Private training has no such guesses, only files.
commands_*
    Exit code, output and written files of 31 commands, 28 of them with --json.
locks_*
    The record of each output in `dvc.lock` of the default audit and of the leaderboard; no stage runs. Parquet files of
    the default audit are compared by value if DVC's cache has them, else by hash.

Draws from the operating system, which publications and repeated batches of audits use, are seeded here.

Not frozen are: times and versions; standard error; the report and its figures; records of code and of
resources; mechanisms and attacks that need more than the embedded encoder (language models, fine-tuned transformers,
endpoints); Prefect's flows.
"""
