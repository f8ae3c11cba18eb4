"""The exact loss of mechanisms whose law is known: no trials, no ceiling. Formulas: docs/exact-loss.md.

For users: `epsilometer.exact_loss(texts, mechanism, epsilons)` and `epsilometer.exact_curves`, of `one_call`. Inside
the package:

- `one_call.sampled_pairs(texts, embeddings, trials, design, groups)` or `pairs.of_trials(trials, texts)` give `Pairs`;
- `measuring.measure(mechanism, texts, epsilons, pairs)` returns `Measured`: both tables, without dataset and mechanism;
- `measuring.pair_losses(measuring.request(...))` returns the bare figures of the pairs, a `losses.Losses` a budget, and
  `rows.average_loss` their average: what a search for a budget needs, without the relative epsilon;
- `products.Product` of `products.unit_losses` is one pair of products of laws, which knows no text.

Which way a mechanism allows: `by_laws` (products of unit laws), `latents`, and `by_draws`, which has the mean over
pairs alone. A further way for single pairs is a function from a `losses.Request` to a `losses.Losses` for each budget,
and one line in `measuring.pair_losses` and in `measuring.pairwise`.
"""
