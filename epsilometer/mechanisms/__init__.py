"""Mechanisms, one per file. A mechanism rewrites texts."""
