"""Frozen results, for commits that must not change any."""
