"""The schemas of an audit's tables."""

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
    "score": pl.Float64,  # margin of the guess over the next best candidate; null for an attack without scores
    "posterior": pl.Float64,  # probability that the guess is right under the mechanism's law; null without a law
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
    "loss": pl.Float64,  # guessing loss, with delta 0; so are point, upper and ceiling
    "point": pl.Float64,
    "upper": pl.Float64,
    "ceiling": pl.Float64,
    "delta": pl.Float64,  # delta of the claim; 0 without a claim
    "loss_at_delta": pl.Float64,  # epsilon that the successes prove for a claim with that delta (TeDA eq. 11)
    "equal_trials": pl.Int64,  # trials in which all candidates have the same number of words
    "equal_successes": pl.Int64,
    "equal_loss": pl.Float64,  # loss proved on these trials, where word counts reveal nothing; null without such trials
    "claim": pl.String,
    "covered": pl.Int64,  # trials whose candidates the claim covers
    "expected": pl.Float64,  # the largest expected number of successes that the claim allows; null without a claim
    "p_value": pl.Float64,
    "verdict": pl.String,
    "refutable": pl.Float64,  # the largest claimed loss that this test could refute if every guess were right
    "trials_needed": pl.Int64,  # fewest trials that could refute the claim; null if no number could
    "best_attack": pl.String,  # the attack that a row `strongest` is about; null in other rows
    "control": pl.Boolean,  # True for a mechanism that only checks the audit
    "sees": pl.String,  # view of the attack: text, units, latents, provider
    "released": pl.Boolean,  # True if the mechanism releases that view
    "validated": pl.Boolean,  # True if the attack was validated for this number of candidates
    "worst_output": pl.Float64,  # pure loss that the most confident guesses prove (`abstention`); null without scores
    "delta_at_4_low": pl.Float64,  # delta at 4 nats that the confident guesses prove (`tail`); null: not testable
    "delta_at_4_high": pl.Float64,  # upper bound for these guesses, not for delta
    "fpr": pl.Float64,  # the false positive rate of the next three columns, which are null without scores
    "tpr": pl.Float64,  # true positive rate at that false positive rate (`roc`)
    "tpr_low": pl.Float64,
    "tpr_high": pl.Float64,
    "posterior_loss": pl.Float64,  # loss by averaged posteriors (`posteriors`): assumes the mechanism's law
    "posterior_point": pl.Float64,  # the posterior columns are null without a law, or if the sampler departs from it
    "posterior_upper": pl.Float64,
    "departure_p": pl.Float64,  # p-value of the number of hits, given the posteriors under the law; null without a law
    "fit_p": pl.Float64,  # p-value of the outputs under the law (`goodness_of_fit`); the same for all attacks
    "departs": pl.Boolean,  # True if departure_p or fit_p refutes the law, at alpha divided by the number of tests
}

OVERALL: Schema = {  # the one verdict on a row's claim (`verdicts.overall`), and its source
    "overall": pl.String,
    "overall_by": pl.String,
}

AUDIT: Schema = {  # the table of `text_audit.audit`, for one mechanism on the given texts
    **{name: kind for name, kind in ESTIMATES.items() if name not in ("dataset", "mechanism")},
    "unknown_words": pl.Float64,  # share of out-of-vocabulary words
    "cut_texts": pl.Float64,  # share of truncated texts; null without a length limit
    "distinct": pl.Int64,  # number of distinct texts that serve as distractors
    "five_commonest": pl.Float64,  # share of slots filled by the five most-used distractors
    "withheld": pl.Int64,  # rewrites that a service refused or filtered
    "truncated": pl.Int64,  # other rewrites that a service truncated at its length limit
    "empty": pl.Int64,  # other rewrites without a visible character
    "reasoning": pl.Int64,  # rewrites that contain a model's marked reasoning
    "apart": pl.Int64,  # answers with reasoning that is not part of the rewrite
    "constant": pl.Boolean,  # True if all rewrites of two or more texts are equal
    "memory": pl.String,  # kind of answers to repeated texts (`trials.memory`); null with too few repeats
    "loss_of_law": pl.Float64,  # loss if each text counts as one trial; null unless each text has one permanent answer
    **OVERALL,
}

CLAIMS: Schema = {  # results of `worst_case`; x, other and output are null for private inputs
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "audited": pl.Boolean,  # False if the check added this epsilon, at which draws can refute a claim
    "claim": pl.String,
    "verdict": pl.String,
    "reason": pl.String,  # why a claim is not testable or not checked
    "method": pl.String,
    "claimed": pl.Float64,
    "worst": pl.Float64,
    "slack": pl.Float64,  # claimed - worst, the smallest over all compared pairs; negative for a violation
    "x": pl.String,
    "other": pl.String,
    "output": pl.String,
    "bound": pl.Float64,
    "inputs": pl.Int64,
    "draws": pl.Int64,
    "testable": pl.Float64,  # largest claim that this number of draws could refute; null for a computed law
    "noise_p": pl.Float64,  # for continuous noise: p-value under the claimed density
    "largest": pl.Float64,  # the largest loss of one unit over the mechanism's whole vocabulary
    "largest_method": pl.String,  # exact, lower bound, or draws (a lower bound)
}

DENIABILITY: Schema = {"mechanism": pl.String, "epsilon": pl.Float64, "method": pl.String} | {
    f"{name}{end}": pl.Float64 for name in ("stays", "support") for end in ("", "_low", "_high")
}

OUTPUTS: Schema = {  # descriptive figures of a cell's rewrites (`diagnostics.Outputs`); null if not applicable
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
    "unknown_words": pl.Float64,  # share of out-of-vocabulary words in all audited texts; null without a vocabulary
    "cut_texts": pl.Float64,  # share of texts over the mechanism's length limit; null without a limit
}

ESTIMATORS: Schema = {  # the loss from the first `trials` trials, by success rate and by two rates
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "attack": pl.String,
    "trials": pl.Int64,
    "loss": pl.Float64,
    "by_rates": pl.Float64,
}

DISAGREEMENTS: Schema = {  # trials in which one attack is right and another is wrong
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "right": pl.String,
    "wrong": pl.String,
    "trials": pl.Int64,
    "trial": pl.Int64,  # index of one such trial
}

ABLATIONS: Schema = {  # a cell's loss when one factor of the audit is varied
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "attack": pl.String,
    "validated": pl.Boolean,  # True if the attack was validated for this number of candidates
    "factor": pl.String,
    "value": pl.Float64,
    "trials": pl.Int64,
    "success_rate": pl.Float64,
    "loss": pl.Float64,
    "point": pl.Float64,
    "upper": pl.Float64,
    "ceiling": pl.Float64,
    "by_rates": pl.Float64,  # loss by true and false positive rates; null for the strongest of several attacks
    "by_rates_point": pl.Float64,
}

SWEEPS: Schema = {  # a cell's utility and its loss under the embedding attack when one of its settings is varied
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,  # the epsilon at this value of the setting
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
    "coins": pl.Int64,  # number of words chosen by a coin, over all rewrites
    "guesses": pl.Int64,  # number of guesses that count: the most confident ones, as many as prove the largest loss
    "right": pl.Int64,  # number of these guesses that are right
    "rate": pl.Float64,
    "loss": pl.Float64,  # loss of one word by those guesses: a lower bound of the pure epsilon per word
    "ceiling": pl.Float64,
    "delta": pl.Float64,
    "claim": pl.String,
    "covered": pl.Int64,  # coins whose two words the claim covers; the verdict is based on these
    "claimed": pl.Float64,  # largest claimed loss between the two words of a covered coin; null without one
    "p_value": pl.Float64,
    "verdict": pl.String,
    "best_attack": pl.String,
    **OVERALL,
}

WORST_PAIRS: Schema = {  # the pair of texts with the largest loss in a search (`worst_pair`), a row per group of pairs
    "epsilon": pl.Float64,
    "pairs": pl.String,  # group: "all", "equal length", or "one word" (a text with one word exchanged)
    "compared": pl.Int64,  # number of pairs at the start of the search
    "method": pl.String,  # "sampled", or "exact, by its stated law" if the distribution of the output is known
    "attack": pl.String,  # best attack of the search; null for an exact loss, like all counts of trials
    "trials": pl.Int64,  # number of fresh trials of this pair
    "successes": pl.Int64,
    "loss": pl.Float64,
    "point": pl.Float64,
    "ceiling": pl.Float64,
    "worst_output": pl.Float64,  # pure loss by the most confident guesses; in an exact row, the largest of any output
    "delta": pl.Float64,
    "claim": pl.String,
    "claimed": pl.Float64,  # claimed loss of this pair
    "p_value": pl.Float64,
    "verdict": pl.String,  # verdict on this pair alone
    **OVERALL,
    "x": pl.Int64,  # indices of audited texts: the pair, or the edited text and the source of the new word
    "other": pl.Int64,
    "place": pl.Int64,  # index of the exchanged word of x; null for pairs of audited texts
    "other_place": pl.Int64,  # index of the word of `other` that replaces it
}

EXACT: Schema = {  # exact losses of a cell by its law; a row per budget and group of pairs of texts
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "pairs": pl.String,  # group: "all", or "equal length" (equally many words)
    "compared": pl.Int64,  # compared pairs in this group
    "there": pl.Int64,  # all pairs of audited texts in this group, compared or not
    "texts": pl.Int64,  # distinct texts among the compared pairs
    "share": pl.Float64,  # weight of this group among all compared pairs
    "sees": pl.String,  # the view that the law describes: text, units, latents, provider
    "released": pl.Boolean,  # True if the mechanism releases that view; else the losses are upper bounds for the text
    "average": pl.Float64,  # guess loss at the mean error over the pairs, weighted as trials draw them
    "average_low": pl.Float64,  # bounds of the average over the compared pairs
    "average_high": pl.Float64,
    "all_low": pl.Float64,  # bounds of the average over all pairs that trials can draw; from a sample,
    "all_high": pl.Float64,  # a 99 % interval. all_high <= relative_epsilon if relative_epsilon covers all pairs
    "median": pl.Float64,  # guess losses of the pairs: their median, 95 % quantile (q95) and largest (worst)
    "q95": pl.Float64,
    "worst": pl.Float64,
    "worst_x": pl.Int64,  # indices of the worst pair's texts
    "worst_other": pl.Int64,
    "above_4": pl.Int64,  # number of texts whose guess loss to some compared text may exceed 4 nats
    "relative_epsilon": pl.Float64,  # the largest pure loss
    "relative_method": pl.String,  # "all pairs" of the audited texts, or "lower bound"
    "witness_x": pl.Int64,  # indices of the two texts with the largest pure loss
    "witness_other": pl.Int64,
    "witness": pl.String,  # the output with the largest pure loss, as text; null if texts are private
    "claim": pl.String,
    "claimed": pl.Float64,  # claimed loss of the pair whose loss comes nearest to its claim
    "claimed_delta": pl.Float64,
    "delta_at_claim": pl.Float64,  # delta at the claimed loss, the largest over the pairs, rounded up
    "delta_at_4_low": pl.Float64,  # lower bound of the tail: delta at 4 nats, averaged over pairs and directions
    "delta_at_4": pl.Float64,  # upper bound of the tail
    "all_delta_at_4_low": pl.Float64,  # bounds of the tail over all pairs that trials can draw;
    "all_delta_at_4": pl.Float64,  # null for more than two candidates, unless relative_epsilon covers all pairs
    "verdict": pl.String,
    "method": pl.String,  # "exact", "importance", or "at least"; if pairs were drawn, "exact, N of M pairs"
    "error": pl.Float64,  # half of the distance between average_low and average_high
    "seconds": pl.Float64,
}

ATTRIBUTE_LOSSES: Schema = {  # upper bounds by a cell's law on an attribute's loss (`exact_loss.attributes`)
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "attribute": pl.String,
    "classes": pl.Int64,
    "pairs": pl.Int64,  # number of pairs of texts of two classes, drawn with replacement
    "sees": pl.String,  # the view that the law describes; losses of latents are upper bounds for the text
    "average_low": pl.Float64,  # bounds of the average loss between two texts, over these pairs
    "average_high": pl.Float64,
    "upper": pl.Float64,  # upper bound of the attribute's loss, at confidence 99.5 %
    "method": pl.String,
}

DECISIONS: Schema = {  # decisions on stated limits (`decisions.decide`); a row per limit and cell, and `all`
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "control": pl.Boolean,
    "limit": pl.String,  # "loss", "delta_at_4", "identifiers: KIND", "attribute: LABEL"; "all" for all limits
    "allowed": pl.Float64,  # the limit's value; null for `all`, and for a limit that does not apply
    "low": pl.Float64,  # lower bound of the loss or share (`high`: upper bound); null if unknown
    "low_by": pl.String,  # "attacks", "law", "law of latents", "count", "all releases"
    "high": pl.Float64,
    "high_by": pl.String,
    "decision": pl.String,
    "why": pl.String,  # for a limit, why it is open or contradictory; for `all`, the limits that decide
    "needed": pl.Int64,  # how many of the things in `settles` are needed; null if unknown or not a number
    "settles": pl.String,  # what would settle an open limit; null if it is settled
    "worst_pair": pl.Float64,  # largest guess loss of a compared pair; this and later columns are null except for `all`
    "texts_above_4": pl.Int64,  # number of texts whose guess loss to some compared text may exceed 4 nats
    "texts_compared": pl.Int64,
    "pairs_compared": pl.Int64,
    "pairs_there": pl.Int64,  # number of pairs of all audited texts
    "largest": pl.Float64,  # the largest loss of any output; null unless all pairs were compared
}

EXACT_CURVES: Schema = {  # delta(level), for levels in nats
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "pairs": pl.String,
    "level": pl.Float64,
    "delta_low": pl.Float64,  # bounds of the mean delta over the pairs
    "delta_high": pl.Float64,
    "worst_high": pl.Float64,  # upper bound of the largest delta of a pair
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
    "loss": pl.Float64,  # loss of the same trials
    "by": pl.String,  # source of the loss: "law" (exact), "latents" or "draws" (upper bound), "attacks" (lower bound)
    "ceiling": pl.Float64,  # the largest worth that any mechanism can have at that loss
    "pure_epsilon": pl.Float64,  # pure epsilon claimed between any two texts; null without such a claim
    "pure_ceiling": pl.Float64,  # the largest worth under that claim
    "one_text": pl.Float64,  # the worth of the best public text given to everybody; null without public texts
    "share": pl.Float64,  # share of the possible: (worth - one_text) / (ceiling - one_text)
    "share_is": pl.String,  # "="; "≥" or "≤" if the loss is a bound
    "proved": pl.Float64,  # the loss that this worth proves without an attack (`ceilings.certificate`)
}

FIRST_TOKENS: Schema = {  # the most probable first tokens of one public text's rewrite, from rank 0
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
    "setting": pl.String,  # majority, clean, or private (trained on rewrites, tested on clean texts);
    # or, if tested on rewrites: rewritten (for a task), static or adaptive (for an attribute)
    "kind": pl.String,  # kind of classifier: "transformer", "linear", "encoder"; null for the majority
    "seed": pl.Int64,
    "macro_f1": pl.Float64,  # null for a regression, like all scores except the correlations
    "low": pl.Float64,  # interval over test texts of the macro F1's mean over seeds; the same for each seed
    "high": pl.Float64,
    "binary_f1": pl.Float64,  # F1 of the last class by name; null for more than two classes
    "accuracy": pl.Float64,
    "matthews": pl.Float64,  # 0 if only one class is guessed
    "pearson": pl.Float64,  # both correlations are null for classes, and 0 if all guesses are equal
    "spearman": pl.Float64,
    "guessed": pl.Int64,  # number of distinct guesses
    "train": pl.Int64,
    "test": pl.Int64,
    "empty": pl.Int64,  # number of empty rewrites in training and test
}

LEAKAGE: Schema = {  # identifiers that rewrites contain unchanged, over all trials; a row per kind
    "dataset": pl.String,
    "mechanism": pl.String,
    "epsilon": pl.Float64,
    "kind": pl.String,
    "identifiers": pl.Int64,
    "recorded": pl.Int64,  # number recorded by the corpus; patterns found the others
    "survived": pl.Int64,
    "partly": pl.Int64,  # number that survived in part: a surname, initials, last digits (`text.identifier_matching`)
    "share": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}

SURVIVING: Schema = {  # surviving identifiers, one per text; a row per epsilon, kind and shape
    "epsilon": pl.Float64,
    "kind": pl.String,
    "shape": pl.String,  # form and place in which an identifier was planted; null for recorded identifiers
    "texts": pl.Int64,
    "survived": pl.Int64,
    "partly": pl.Int64,  # number that survived only in part
    "share": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "masked": pl.Int64,  # number of masked runs of words in these texts
    "precision": pl.Float64,  # share of these runs that touch an identifier; null if nothing is masked
    "precision_low": pl.Float64,
    "precision_high": pl.Float64,
}

LINKS: Schema = {  # a row per epsilon and attack by linking (`linking`), and `strongest`
    "epsilon": pl.Float64,
    "attack": pl.String,
    "best_attack": pl.String,  # the attack that a row `strongest` is about; null in other rows
    "people": pl.Int64,  # people with known facts
    "sets": pl.Int64,
    "rewrites": pl.Int64,  # rewrites in each set, one per person
    "linked": pl.Int64,  # people linked to their own rewrite, over all sets
    "success_rate": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "loss": pl.Float64,  # loss by linking: at most twice the largest pure loss between two texts
    "point": pl.Float64,
    "upper": pl.Float64,
    "ceiling": pl.Float64,
}

BY_TEXT: Schema = {  # hits per text; a row per text, epsilon and attack (or another figure)
    "text": pl.Int64,  # index among the distinct texts
    "epsilon": pl.Float64,
    "attack": pl.String,
    "trials": pl.Int64,  # trials in which the text was rewritten
    "right": pl.Int64,  # trials with a right guess, inference or link, or a surviving identifier
}

BY_RATES: Schema = {  # the loss by true and false positive rates for the first candidate (`successes.Rates`)
    "epsilon": pl.Float64,
    "attack": pl.String,
    "by_rates": pl.Float64,
    "by_rates_point": pl.Float64,
}
