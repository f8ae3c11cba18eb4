"""The leaderboard: the worth of mechanisms at equal loss, in tiers within a class of claims.

Worth is how much a mechanism's rewrites retain: their mean cosine with the texts, and the F1 of classifiers trained on
rewrites.
"""
