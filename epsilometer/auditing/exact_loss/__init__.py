"""The exact loss of mechanisms whose law is known, computed without trials.

Formulas: docs/concepts/exact-loss-products.md and docs/concepts/exact-loss-sampling.md.

Users call `epsilometer.exact_loss(texts, mechanism, epsilons)` and `epsilometer.exact_curves`, which are defined in
`from_texts`. Inside the package:

- `from_texts.sampled_pairs(texts, embeddings, trials, design, groups)` or `pairs.of_trials(trials, texts)` returns the
  `Pairs` to compare;
- `measuring.measure(mechanism, texts, epsilons, pairs)` returns `ExactTables`: the tables `EXACT` and `EXACT_CURVES`,
  without the columns dataset and mechanism;
- `measuring.pair_losses(measuring.request(...))` returns only the figures of the pairs, one `losses.PairLosses` per
  budget, and `rows.average_loss` returns their average. A search for a budget needs only these two functions;
- `products.Product`, made from `accounting/convolution/grid.unit_losses`, holds the laws of two texts, each a
  product of unit laws.

The mechanism determines the module that computes the loss: `by_laws` (products of unit laws), `latents`, `directions`,
or `by_draws`, which gives only the mean over pairs. To add another method for single pairs, write a function that takes
a `losses.Request` and returns a `losses.PairLosses` for each budget. Then add a line to `measuring.pair_losses` and to
`measuring.pairwise`.
"""
