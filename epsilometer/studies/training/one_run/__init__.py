"""Audits with many guesses from one run of a training."""
