"""Ceilings: the largest worth (mean cosine) of any mechanism at a given guess loss, and the loss a worth proves."""
