"""Frozen results, for commits that must not change any.

Frozen are:

guesses_coin, guesses_tem, guesses_plain
    A law on a grid, a general law and a plain function: slots, scores and posteriors of every trial, at two epsilons
    and two seeds, in an audit with sets of two texts and of all texts, an audit of units, one of the worst pair, gates,
    a calibration and a comparison. Lexical and length attacks take part, likelihood where a law is stated (of a law on
    a grid it reads no units), and in calibrations and comparisons all default attacks.
guesses_project
    The same three in a project: an audit and a re-audit, which is another round.
studies_*
    A small profile of each study: every file that its stages write, Parquet and NumPy files by value, and all guesses.
    Private training plays no game of sources, so its files are all that there is.
commands_*
    Exit code, output and written files of 31 commands, 28 of them with --json.
locks_*
    What `dvc.lock` of the default audit and of the leaderboard says of each output; no stage runs. Parquet files of the
    default audit count by value where DVC's cache has them, and by hash where it has not.

Draws from the operating system are seeded here, those of publications and of the batches that audits run again.

Not frozen are: times and versions; what goes to standard error; the report and its figures; records of code and of
resources; mechanisms and attacks that need more than the embedded encoder (language models, fine-tuned transformers,
endpoints); Prefect's flows.
"""
