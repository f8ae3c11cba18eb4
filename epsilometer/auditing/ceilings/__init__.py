"""Ceilings: the largest worth (mean cosine) of any mechanism at a guess loss, and the loss that a worth proves."""
