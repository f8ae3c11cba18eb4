"""Decisions on the use of a mechanism at a budget: an audit's results against stated limits."""
