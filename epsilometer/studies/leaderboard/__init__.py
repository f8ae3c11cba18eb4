"""The leaderboard: the worth of mechanisms at equal loss, in tiers within a class of claims."""
