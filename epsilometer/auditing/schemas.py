"""The tables of an audit, which its stages pass to one another."""

from __future__ import annotations

import polars as pl

from epsilometer.core.tables import Schema

TRIALS: Schema = {"trial": pl.Int64, "candidates": pl.List(pl.Int32), "target": pl.Int16}

REWRITES: Schema = {"trial": pl.Int64, "text": pl.String, "units": pl.List(pl.Int32), "claim": pl.Float64}

GUESSES: Schema = {
    "epsilon": pl.Float64,
    "attack": pl.String,
    "sees": pl.String,  # view of the attack: text, units, latents, provider
    "trial": pl.Int64,
    "guess": pl.Int16,
    "score": pl.Float64,  # margin of the guess over every other candidate; null where the attack has no scores
    "posterior": pl.Float64,  # probability that the guess is right by the mechanism's law (`posteriors`); null without
}

ESTIMATES: Schema = {  # a row per attack, and the rows `strongest` and `strongest_inside` (`estimates.rows`)
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "attack": pl.String,
    "trials": pl.Int64,
    "candidates": pl.Int64,
    "successes": pl.Int64,
    "success_rate": pl.Float64,
    "loss": pl.Float64,  # of guessing (delta is always 0), as are point, upper and ceiling
    "point": pl.Float64,
    "upper": pl.Float64,
    "ceiling": pl.Float64,
    "delta": pl.Float64,  # of the claim; 0 without one
    "loss_at_delta": pl.Float64,  # epsilon that the successes prove for a claim with that delta (TeDA eq. 11)
    "equal_trials": pl.Int64,  # those whose candidates have equally many words
    "equal_successes": pl.Int64,
    "equal_loss": pl.Float64,  # the loss on these trials, beyond the number of words; null where there are none
    "claim": pl.String,
    "covered": pl.Int64,  # trials between whose candidates the claim bounds the loss
    "expected": pl.Float64,  # the largest expected number of successes that the claim allows; null without a claim
    "p_value": pl.Float64,
    "verdict": pl.String,
    "refutable": pl.Float64,  # the largest claimed loss that this test could refute if every guess were right
    "trials_needed": pl.Int64,  # fewest trials that could refute the claim; null where none could
    "best_attack": pl.String,  # the attack behind a row of the strongest; null in other rows
    "control": pl.Boolean,  # the mechanism only checks the audit
    "sees": pl.String,  # view of the attack: text, units, latents, provider
    "released": pl.Boolean,  # whether the mechanism releases that view
    "validated": pl.Boolean,  # whether the attack was validated for this number of candidates
    "worst_output": pl.Float64,  # pure loss that its most confident guesses prove (`abstention`); null without scores
    "delta_at_4_low": pl.Float64,  # delta at 4 nats that its confident guesses prove (`tail`); null: not testable
    "delta_at_4_high": pl.Float64,  # the most that guesses beyond any score show of it: not an upper bound on delta
    "fpr": pl.Float64,  # the false positive rate of the next three, which are null for an attack without scores
    "tpr": pl.Float64,  # rate at which the source is affirmed at that rate (`roc`)
    "tpr_low": pl.Float64,
    "tpr_high": pl.Float64,
    "posterior_loss": pl.Float64,  # as loss, by averaged posteriors (`posteriors`): assumes the mechanism's law
    "posterior_point": pl.Float64,  # null, as are the other two, without a law, and where the sampler departs from it
    "posterior_upper": pl.Float64,
    "departure_p": pl.Float64,  # p-value of the hits given their posteriors under the law; null without one
    "fit_p": pl.Float64,  # p-value of the outputs under the law (`goodness_of_fit`); the same for all attacks
    "departs": pl.Boolean,  # whether either refutes the law, alpha divided by the tests of the audit
}

OVERALL: Schema = {  # the one verdict on a row's claim (`verdicts.overall`), and its source
    "overall": pl.String,
    "overall_by": pl.String,
}

AUDIT: Schema = {  # as ESTIMATES, from one call (`text_audit.audit`): for one mechanism on the given texts
    **{name: kind for name, kind in ESTIMATES.items() if name not in ("dataset", "mechanism")},
    "unknown_words": pl.Float64,  # the share of words outside the mechanism's vocabulary
    "cut_texts": pl.Float64,  # the share of texts longer than its limit; null without one
    "distinct": pl.Int64,  # number of distinct texts that serve as distractors
    "five_commonest": pl.Float64,  # share of slots that the five most-used distractors fill
    "withheld": pl.Int64,  # rewrites that a service refused or filtered
    "truncated": pl.Int64,  # other rewrites that a service ended at the limit of their length
    "empty": pl.Int64,  # other rewrites without a visible character
    "reasoning": pl.Int64,  # rewrites that hold a model's marked reasoning
    "apart": pl.Int64,  # answers with reasoning that the rewrite leaves out
    "constant": pl.Boolean,  # whether all rewrites of two or more texts are equal
    "memory": pl.String,  # how the mechanism answered repeated texts (`trials.memory`); null with too few repeats
    "loss_of_law": pl.Float64,  # loss with each text counted once, if each has one permanent answer; else null
    **OVERALL,
}

CLAIMS: Schema = {  # results of `worst_case`; the words x, x' and y of the witness are null where inputs are private
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "audited": pl.Boolean,  # false where the check chose this epsilon, at which sampling can refute a claim
    "claim": pl.String,
    "verdict": pl.String,
    "reason": pl.String,  # why a claim is not testable or not checked
    "method": pl.String,
    "claimed": pl.Float64,
    "worst": pl.Float64,
    "slack": pl.Float64,  # claimed - worst: the least over all compared pairs; negative where the claim is violated
    "x": pl.String,
    "other": pl.String,
    "output": pl.String,
    "bound": pl.Float64,
    "inputs": pl.Int64,
    "draws": pl.Int64,
    "testable": pl.Float64,  # largest claim that this number of draws could refute; null where the law is computed
    "noise_p": pl.Float64,  # for continuous noise: p-value under the claimed density
    "largest": pl.Float64,  # the largest loss of one unit of the mechanism in use, over its whole vocabulary
    "largest_method": pl.String,  # exact, lower bound, or draws (a lower bound)
}

DENIABILITY: Schema = {"mechanism": pl.String, "epsilon": pl.Float64, "method": pl.String} | {
    f"{name}{end}": pl.Float64 for name in ("stays", "support") for end in ("", "_low", "_high")
}

OUTPUTS: Schema = {  # descriptive figures of the rewrites of a cell; null where they do not apply to the mechanism
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "claim": pl.String,
    "composed": pl.Float64,  # the claim for whole texts, in nats: `diagnostics.composed`
    "words": pl.Float64,
    "units": pl.Float64,
    "units_max": pl.Int64,
    "empty": pl.Float64,
    "unchanged": pl.Float64,
    "commonest": pl.Float64,
    "signal": pl.Float64,
    "unknown_words": pl.Float64,  # share of words that are out of vocabulary, in all audited texts; null without one
    "cut_texts": pl.Float64,  # share of texts over the mechanism's length limit; null without a limit
}

ESTIMATORS: Schema = {  # the loss from the first `trials` trials, by the reduced form and by true and false positives
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "attack": pl.String,
    "trials": pl.Int64,
    "loss": pl.Float64,
    "by_rates": pl.Float64,
}

DISAGREEMENTS: Schema = {  # trials in which one attack named the source and another did not
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "right": pl.String,
    "wrong": pl.String,
    "trials": pl.Int64,
    "trial": pl.Int64,  # number of one such trial
}

ABLATIONS: Schema = {  # a cell's loss when one factor of the audit is varied
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "attack": pl.String,
    "validated": pl.Boolean,  # whether the attack was validated for this number of candidates
    "factor": pl.String,
    "value": pl.Float64,
    "trials": pl.Int64,
    "success_rate": pl.Float64,
    "loss": pl.Float64,
    "point": pl.Float64,
    "upper": pl.Float64,
    "ceiling": pl.Float64,
    "by_rates": pl.Float64,  # as loss and point, by two rates; null for the strongest of several attacks
    "by_rates_point": pl.Float64,
}

SWEEPS: Schema = {  # a cell's utility and its loss under the embedding attack when one of its settings is varied
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,  # at this value
    "setting": pl.String,
    "value": pl.Float64,
    "trials": pl.Int64,
    "loss": pl.Float64,
    "point": pl.Float64,
    "upper": pl.Float64,
    "ceiling": pl.Float64,
} | {f"{name}{end}": pl.Float64 for name in ("cosine", "bertscore") for end in ("", "_low", "_high")}

UNIT_LOSSES: Schema = {  # results of the audit over units (`units`); a row per attack, and `strongest`
    "epsilon": pl.Float64,
    "attack": pl.String,
    "sees": pl.String,
    "released": pl.Boolean,
    "rewrites": pl.Int64,
    "coins": pl.Int64,  # words that a coin chose, over all rewrites
    "guesses": pl.Int64,  # number of most confident guesses, as many as prove the most; other coins are not guessed
    "right": pl.Int64,  # number of these guesses that are right
    "rate": pl.Float64,
    "loss": pl.Float64,  # loss of one word, by those guesses: a lower bound on its pure epsilon
    "ceiling": pl.Float64,
    "delta": pl.Float64,
    "claim": pl.String,
    "covered": pl.Int64,  # coins whose two words the claim covers: the verdict is on them
    "claimed": pl.Float64,  # the largest claimed loss between the two words of such a coin; null without one
    "p_value": pl.Float64,
    "verdict": pl.String,
    "best_attack": pl.String,
    **OVERALL,
}

WORST_PAIRS: Schema = {  # the pair of texts with the largest loss in a search (`worst_pair`), a row per group of pairs
    "epsilon": pl.Float64,
    "pairs": pl.String,  # of texts, "all" or of "equal length"; or of a text and itself, "one word" exchanged
    "compared": pl.Int64,  # pairs at the start of the search
    "method": pl.String,  # "sampled", or "exact, by its stated law" if the distribution of the output is known
    "attack": pl.String,  # the best in the search; null where the loss is exact, as are all counts of trials
    "trials": pl.Int64,  # fresh trials of this pair alone
    "successes": pl.Int64,
    "loss": pl.Float64,
    "point": pl.Float64,
    "ceiling": pl.Float64,
    "worst_output": pl.Float64,  # by the most confident guesses; where the loss is exact the largest of any output
    "delta": pl.Float64,
    "claim": pl.String,
    "claimed": pl.Float64,  # for this pair
    "p_value": pl.Float64,
    "verdict": pl.String,  # of this pair alone
    **OVERALL,
    "x": pl.Int64,  # numbers of audited texts: the pair, or the text that is edited and the one that lends a word
    "other": pl.Int64,
    "place": pl.Int64,  # of the word of x that is exchanged, from 0; null where both are audited texts
    "other_place": pl.Int64,  # of the word of the other that takes its place
}

EXACT: Schema = {  # the loss that a cell's law proves without trials; a row per budget and group of pairs of texts
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "pairs": pl.String,  # "all", or "equal length": those of equally many words
    "compared": pl.Int64,  # pairs in this group
    "there": pl.Int64,  # pairs of all audited texts that belong to this group, compared or not
    "texts": pl.Int64,  # distinct texts among the compared pairs
    "share": pl.Float64,  # of all compared pairs
    "sees": pl.String,  # what the law describes: text, units, latents, provider
    "released": pl.Boolean,  # whether the mechanism releases that; else the losses bound those of the text
    "average": pl.Float64,  # guess loss of the mean error over the pairs, each weighted as trials draw it
    "average_low": pl.Float64,  # over the compared pairs
    "average_high": pl.Float64,
    "all_low": pl.Float64,  # of all pairs that trials can draw: those two, or a 99 % interval where some were drawn;
    "all_high": pl.Float64,  # at most relative_epsilon where that is of all pairs
    "median": pl.Float64,  # of the guess losses of pairs, as are the next two
    "q95": pl.Float64,
    "worst": pl.Float64,
    "worst_x": pl.Int64,  # numbers of audited texts
    "worst_other": pl.Int64,
    "above_4": pl.Int64,  # texts whose guess loss to at least one compared text may exceed 4 nats
    "relative_epsilon": pl.Float64,  # the largest pure loss
    "relative_method": pl.String,  # "all pairs" of the audited texts, or "lower bound"
    "witness_x": pl.Int64,
    "witness_other": pl.Int64,
    "witness": pl.String,  # the output of that loss, in words; null where texts are private
    "claim": pl.String,
    "claimed": pl.Float64,  # for the pair with the least slack
    "claimed_delta": pl.Float64,
    "delta_at_claim": pl.Float64,  # the largest over the pairs, rounded up
    "delta_at_4_low": pl.Float64,  # delta at 4 nats, the mean over pairs and directions: the tail beside the average
    "delta_at_4": pl.Float64,  # its upper bound
    "all_delta_at_4_low": pl.Float64,  # the same over all pairs that trials can draw, as all_low and all_high;
    "all_delta_at_4": pl.Float64,  # null for more than two candidates, unless all pairs have a relative_epsilon
    "verdict": pl.String,
    "method": pl.String,  # "exact", "importance", or "at least"; where pairs were drawn, "exact, N of M pairs"
    "error": pl.Float64,  # half of the width of average_low to average_high
    "seconds": pl.Float64,
}

ATTRIBUTE_LOSSES: Schema = {  # upper bounds by a cell's law on an attribute's loss (`exact_loss.attributes`)
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "attribute": pl.String,
    "classes": pl.Int64,
    "pairs": pl.Int64,  # of texts of two classes, drawn with replacement
    "sees": pl.String,  # what the law describes; a law of latents bounds that of the text
    "average_low": pl.Float64,  # over these pairs, between two texts
    "average_high": pl.Float64,
    "upper": pl.Float64,  # over all pairs, hence of the attribute between two classes, at confidence 99.5 %
    "method": pl.String,
}

DECISIONS: Schema = {  # whether a cell stays within stated limits (`decisions.decide`); a row per limit, and `all`
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "control": pl.Boolean,
    "limit": pl.String,  # "loss", "delta_at_4", "identifiers: KIND", "attribute: LABEL"; "all" of them together
    "allowed": pl.Float64,  # null for `all`, and for a limit that does not apply or was not tested
    "low": pl.Float64,  # lower bound of the loss or share, with `high` the upper one; null where unknown
    "low_by": pl.String,  # "attacks", "law", "law of latents", "count", "all releases"
    "high": pl.Float64,
    "high_by": pl.String,
    "decision": pl.String,
    "why": pl.String,  # for a limit: what is open or contradictory; for `all`: the limits that decide
    "needed": pl.Int64,  # number of the things that `settles` names; null where it is not a number, or unknown
    "settles": pl.String,  # what would settle an open limit; null where it is settled
    "worst_pair": pl.Float64,  # for `all`, as the rest: the largest guess loss of a compared pair; null without a law
    "texts_above_4": pl.Int64,  # texts whose guess loss to at least one compared text exceeds 4 nats
    "texts_compared": pl.Int64,
    "pairs_compared": pl.Int64,
    "pairs_there": pl.Int64,  # of all audited texts
    "largest": pl.Float64,  # the largest loss of any output; null unless all pairs were compared
}

EXACT_CURVES: Schema = {  # delta(level), for levels in nats
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "pairs": pl.String,
    "level": pl.Float64,
    "delta_low": pl.Float64,  # of the mean over the pairs
    "delta_high": pl.Float64,
    "worst_high": pl.Float64,  # the largest over the pairs
}

SETS: Schema = {"set": pl.Int64, "texts": pl.List(pl.Int32)}  # texts of each set of trials (`ceilings.set_trials`)

CEILINGS: Schema = {  # the largest mean cosine that any mechanism can have on a data set's sets of texts
    "dataset": pl.String,
    "nats": pl.Float64,  # the average loss of guessing between two texts of a set
    "ceiling": pl.Float64,
}

POSSIBLE: Schema = {  # share of the possible worth that a cell reaches on trials of sets (`ceilings.share`)
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "sets": pl.Int64,  # number of sets, with one trial each
    "worth": pl.Float64,  # the mean cosine of text and rewrite
    "worth_low": pl.Float64,
    "worth_high": pl.Float64,
    "loss": pl.Float64,  # of the same trials
    "by": pl.String,  # a law gives the loss itself, latents or draws an upper bound, attacks a lower bound
    "ceiling": pl.Float64,  # the largest worth that any mechanism can have at that loss
    "pure_epsilon": pl.Float64,  # claimed between any two texts; null without such a claim
    "pure_ceiling": pl.Float64,  # the largest worth under that claim
    "one_text": pl.Float64,  # the worth of the best public text given to everybody; null without public texts
    "share": pl.Float64,  # share of the possible: (worth - one_text) / (ceiling - one_text)
    "share_is": pl.String,  # "=", or "≥" or "≤" where the loss is a bound
    "proved": pl.Float64,  # the loss that this worth proves without an attack (`ceilings.certificate`)
}

FIRST_TOKENS: Schema = {  # the likeliest first tokens of one public text's rewrite, rank 0 first
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "text": pl.String,
    "rank": pl.Int64,
    "token": pl.String,
    "probability": pl.Float64,
}

TOKENS: Schema = {  # one public text as a mechanism tokenises it
    "dataset": pl.String,
    "mechanism": pl.String,
    "text": pl.String,
    "tokens": pl.List(pl.String),
}

DOWNSTREAM: Schema = {  # scores of a classifier of a label, or a regression of a number; a row per kind and seed
    "dataset": pl.String,
    "mechanism": pl.String,  # null for the baselines
    "epsilon": pl.Float64,
    "label": pl.String,
    "role": pl.String,  # task, attribute or number
    "setting": pl.String,  # majority, clean; private, learnt from rewrites and tested on clean texts; tested on
    # rewrites: rewritten, for a task; static, adaptive, for an attribute
    "kind": pl.String,  # of the classifier: "transformer", "linear", "encoder"; null for the majority
    "seed": pl.Int64,
    "macro_f1": pl.Float64,  # null for a number, as are all but the correlations
    "low": pl.Float64,  # of the mean macro F1 of all seeds, over test texts: the same for each seed
    "high": pl.Float64,
    "binary_f1": pl.Float64,  # of the last class by name; null where there are more than two
    "accuracy": pl.Float64,
    "matthews": pl.Float64,  # 0 where one class alone is guessed
    "pearson": pl.Float64,  # null for classes, as is the next; 0 where all guesses are equal
    "spearman": pl.Float64,
    "guessed": pl.Int64,  # number of distinct classes, or numbers, among the guesses
    "train": pl.Int64,
    "test": pl.Int64,
    "empty": pl.Int64,  # rewrites without a character in training or test
}

LEAKAGE: Schema = {  # over all trials, a row per kind of identifier: how many the rewrites contain unchanged
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "kind": pl.String,
    "identifiers": pl.Int64,
    "recorded": pl.Int64,  # recorded by the corpus; patterns found the others
    "survived": pl.Int64,
    "partly": pl.Int64,  # of the others: a surname, initials, the last digits (`text.identifier_matching`)
    "share": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}

SURVIVING: Schema = {  # a row per epsilon, kind and shape of identifier, one in a text: how many the rewrites contain
    "epsilon": pl.Float64,
    "kind": pl.String,
    "shape": pl.String,  # how and where it was planted; null where the texts' file records it
    "texts": pl.Int64,
    "survived": pl.Int64,
    "partly": pl.Int64,  # of those that did not survive
    "share": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "masked": pl.Int64,  # runs of words of these texts that the rewrites do not have in their place
    "precision": pl.Float64,  # share of these that touch an identifier; null where nothing is masked
    "precision_low": pl.Float64,
    "precision_high": pl.Float64,
}

LINKS: Schema = {  # a row per epsilon and attack by linking (`linking`), and `strongest`
    "epsilon": pl.Float64,
    "attack": pl.String,
    "best_attack": pl.String,  # the attack behind a row of the strongest; null in other rows
    "people": pl.Int64,  # people with known facts
    "sets": pl.Int64,
    "rewrites": pl.Int64,  # rewrites in each set, one per person
    "linked": pl.Int64,  # people linked to their own rewrite, over all sets
    "success_rate": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "loss": pl.Float64,  # by linking: at most twice the loss of one text
    "point": pl.Float64,
    "upper": pl.Float64,
    "ceiling": pl.Float64,
}

BY_TEXT: Schema = {  # how often a text was recognised: a row per text, epsilon and attack (or other judged item)
    "text": pl.Int64,  # its number among the distinct texts, from 0
    "epsilon": pl.Float64,
    "attack": pl.String,
    "trials": pl.Int64,  # trials in which the text was rewritten
    "right": pl.Int64,  # trials in which it was named, inferred or linked rightly, or its identifier survived
}

BY_RATES: Schema = {  # the loss by the true and false positives of the first candidate (`successes.Rates`)
    "epsilon": pl.Float64,
    "attack": pl.String,
    "by_rates": pl.Float64,
    "by_rates_point": pl.Float64,
}
